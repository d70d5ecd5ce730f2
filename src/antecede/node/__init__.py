"""A node of the live system: `antecede.Node`.

node.py      the node: starts, stops, publishes, tells of itself
config.py    what it is told
protocol.py  the protocol it runs
driving.py   its driver
hub.py       where deliveries meet clients
feed.py      a client's subscription, seen from here
session.py   a client, seen from here
history.py   what was delivered, in memory and journal
roster.py    places in the cube
joining.py   taking one
grants.py    what a client may do
compact.py   a shorter memory for the protocol
http.py      health and metrics
"""
