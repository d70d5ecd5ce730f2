"""Topics as tables: what a node has delivered, read by Spark and written from it.

options.py   what a user may ask for
columns.py   the columns, and how deliveries fill them
stores.py    a journal or a node, seen alike
source.py    batch queries
stream.py    streaming queries
sink.py      rows written to topics
format.py    the format "antecede", and making it known to a session
"""
