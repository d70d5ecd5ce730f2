"""Bulk access to a node: for pipelines that read positions by the million and publish by the batch.

A client (`antecede.client`) follows topics as messages come. A pipeline wants a *range*: everything after one position
up to another, and the same again if need be. And it publishes a batch once, all of it or nothing, however often it
tries. Such callers use the same port in a role of their own; `wire.bulk` has the records, `client.bulk` the caller.

service.py    one such caller, seen from its node
planning.py   where this node has the messages that a caller lacks, by stream and number
streams.py    messages that no home has at a position, by stream and number
staging.py    rows on the node's disk that are not published yet, and which batches are
releasing.py  publishing them, once, across crashes
claims.py     this node's votes on which of several nodes publishes a batch
handover.py   the order of a producer's batches when they are published at different nodes
"""
