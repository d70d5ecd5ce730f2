"""Topics as tables: Spark reads what a node has delivered, and writes rows as messages.

options.py   the options of a user, checked
stores.py    a journal or a node, behind one interface; chunks.py: what they return at a time
columns.py   the columns, and batches of them
packed.py    fills columns from stored deliveries by whole arrays; plain.py: message by message, for unusual ones
source.py    batch queries
stream.py    streaming queries
sink.py      rows written to topics; failover.py: at one of several nodes
tables.py    tables of Spark's catalog, which keep their options
format.py    the format "antecede", and its registration in a session
"""
