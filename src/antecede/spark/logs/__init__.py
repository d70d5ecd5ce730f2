"""Logs of other systems as tables: Spark reads JetStream streams, Redis streams and Kafka partitions with their pasts.

options.py  the options of a user, checked
columns.py  the columns, and batches of them
access.py   logs read from code that is not asynchronous
source.py   batch and streaming queries: a task for each log and range of offsets
"""
