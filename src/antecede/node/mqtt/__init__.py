"""MQTT clients of a node. The rules of MQTT are in `wire.mqtt`; here they meet sockets, feeds and the journal.

server.py       the ports; CONNECT
door.py         admission: strangers make way
connection.py   one socket: TCP or TLS, deadlines
web.py          MQTT over WebSocket
client.py       one connected client: its packets and the answers
subscribing.py  SUBSCRIBE and UNSUBSCRIBE
sessions.py     the sessions of a node: takeover, expiry, wills
moving.py       sessions that move between nodes
session.py      one session: subscriptions, its feed
outbox.py       messages to one client, in their order
items.py        messages on their way to a client
feed.py         the feed of a session
shared.py       shared subscriptions
publisher.py    what clients publish
messages.py     messages opened once for all sessions
retained.py     retained messages
keeping.py      what survives the end of the process
store.py        the file that it is kept in
sys_topics.py   $SYS
"""
