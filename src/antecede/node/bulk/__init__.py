"""A node taken and given in bulk: for pipelines that read positions by the million and publish by the batch.

Beside clients (`live.client`), who follow topics as they go, there are those who want a *range*: everything after one
position up to another, and again the same if need be. And those who publish a batch once, all of it or nothing, however
often they try. They come through the same port in a role of their own.

records.py    what is said
service.py    one such client, seen from its node
staging.py    rows on the node's disk that are not published yet, and which batches are
releasing.py  publishing them, once, across crashes
caller.py     the other side, for programs without an event loop
"""
