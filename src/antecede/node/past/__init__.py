"""The past of partitions: nodes read from each other what they did not deliver themselves.

A node that begins to take a partition has nothing of it from before. The homes of the partition have it. A feed that
wants it is given the merged past of its partitions, and goes on with this node's deliveries without a seam.

records.py   what nodes ask each other
service.py   answers: the messages of one stream, from this node's history
calling.py   asks other nodes
reading.py   reads one stream, from here and from the nodes that have it
homes.py     a home fetches what it lacks, and a former home lets go
replay.py    merges the streams of a feed in causal order
"""
