"""The audit while things happen: nodes' deliveries as streams, judged as they come.

job.py    `live_audit`: deliveries to what is wrong with them, and how late and how long held they were
view.py   what a watcher knows by now: totals, the state of nodes and topics, who is behind whom
places.py the nodes and journals to watch, as one stream; starting and stopping
"""
