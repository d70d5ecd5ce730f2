"""Topics as tables: Spark reads what nodes have delivered, and writes rows as messages.

options.py   the options of a user, checked
stores.py    a journal or a node, behind one interface; chunks.py: what they return at a time
columns.py   the columns, and batches of them
packed.py    fills columns from stored deliveries by whole arrays; plain.py: message by message, for unusual ones
source.py    batch queries
stream.py    streaming queries
offsets.py   the offsets of a stream, as its checkpoint has them
positions.py plans what is read from one node, by position
cluster.py   plans what is read from a cluster, each partition from one of its homes
homes.py     the nodes of a cluster: which is asked for which partition, and which instead of one that is down
slices.py    reads a part of a batch in a task, at another home if the first is lost
frontiers.py by stream, the last message that a reader has had; chooses messages by that
sink.py      rows written to topics; failover.py: at one of several nodes
tables.py    tables of Spark's catalog, which keep their options
format.py    the format "antecede", and its registration in a session
"""
