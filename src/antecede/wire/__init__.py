"""Everything that goes over a connection: frames, records, handshake, links between nodes, security.

    codec.py       encodes and decodes records; frames; the records of the handshake
    shapes.py      describes records so that two versions can compare them
    frames.py      one connection that carries frames
    handshake.py   hello, welcome, refusal: dialling (`greet`) and answering (`Greeter`)
    accepting.py   accepts connections within the limit of file descriptors
    admission.py   admission control: shares connections and handshakes between hosts; malformed input
    listener.py    the port: admits, secures, greets, and hands connections on by role
    backoff.py     redialling with exponential back-off
    address.py     host:port as text
    transport.py   what a transport promises; counters; congestion
    memory.py      the transport for nodes within one process
    tcp.py         the transport over TCP; tcp_link.py: one peer and its connection
    once.py        calls a function once in a turn of the event loop
    pipe.py        a connection within the process, for clients of an embedded node
    requests.py    records between a client and its node
    cursors.py     ids of messages, cursors, and where a reader is
    bulk.py        records between a bulk client and a node
    topics.py      topic names, and filters with + and #
    envelope.py    what a message's payload contains: topic, time, body, headers
    mqtt/          MQTT 3.1.1 and 5 without I/O
    security/      certificates, TLS contexts, tokens with grants

Everything runs on one event loop and is called from it only.
"""
