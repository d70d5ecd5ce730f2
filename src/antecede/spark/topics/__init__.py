"""Topics as tables: what a node has delivered, read by Spark and written from it.

options.py   what a user may ask for
stores.py    a journal or a node, seen alike; chunks.py: what they give at a time
columns.py   the columns, and batches of them
packed.py    how stored deliveries fill them: by whole arrays; plain.py: message by message, for what is unusual
source.py    batch queries
stream.py    streaming queries
sink.py      rows written to topics
format.py    the format "antecede", and making it known to a session
"""
