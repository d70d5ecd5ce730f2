"""MQTT 3.1.1 and 5 without I/O: packets from bytes and back, and the rules of connections and sessions.

reasons.py        reason codes, return codes of 3.1.1, `MqttError`
fields.py         integers, text, binary data
properties.py     the properties of version 5, by one table
packets.py        the fifteen packets
topics.py         names and filters, shared subscriptions
decoding.py       bytes to packets, every field checked
encoding.py       packets to bytes
stream.py         the packets in the bytes of a connection
connection.py     the rules of one connection, seen from a server
aliases.py        topic aliases
flows.py          QoS 1 and 2, in both directions
subscriptions.py  which messages a session is given, and how
envelopes.py      how an MQTT message travels between nodes

Nothing here has a socket or a clock: time is an argument. `node.mqtt` runs it. Normative statements of the standard
are cited where they are enforced, as [MQTT-x.y.z-n] with the numbers of version 5.
"""
