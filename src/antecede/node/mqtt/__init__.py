"""MQTT clients of a node. The rules of MQTT are in `wire.mqtt`; here they meet sockets, feeds and the journal.

server.py       the ports; connects, takeovers, the end of sessions
connection.py   one socket: TCP or TLS, deadlines
web.py          MQTT over WebSocket
client.py       one connected client: its packets and the answers
session.py      one session: subscriptions, messages to the client
feed.py         the feed of a session
publisher.py    what clients publish
"""
