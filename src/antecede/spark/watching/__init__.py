"""Audits running nodes: their deliveries as streams, judged as they come.

job.py    `live_audit`: from deliveries to violations, with lag and hold times
view.py   what is known so far: totals, the state of nodes and topics, which node is behind
watch.py  the nodes and journals to watch as one stream; starting and stopping
"""
