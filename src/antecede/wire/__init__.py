"""The live system: the same protocols, driven by asyncio.

From the wire up:

    codec.py       records to bytes and back: frames, handshake records, strict decoding of a protocol's packets
    frames.py      one connection that carries frames, without streams' overhead
    handshake.py   hello, welcome, refusal: dialling (`greet`) and answering (`Greeter`)
    admission.py     limits on strangers: connections, handshakes, malformed input
    listener.py    the port: admits, secures, greets, passes on by role (nodes, clients)
    transport.py   what a transport promises; counters; congestion
    memory.py      the embedded transport: many nodes in one process
    tcp.py         the network transport; tcp_link.py: what a node keeps of each peer
    weather.py     the simulator's faults around any transport
    driver.py      runs a process over a transport: keep, send, deliver, arm; batch.py, upkeep.py: its parts
    journal/       a node's memory on disk: deliveries by position, kept records, cursors, retention, traces
    topics.py      names and filters with + and #
    envelope.py    what stands in a message's payload: topic, time, body, headers
    security/      certificates, TLS contexts, tokens with grants
    node/          a whole node: joining, slots, diagnosis, sessions of clients
    client/        the thin client: connect, publish, subscribe
    errors.py      what is raised beyond `core.errors`

A node is a `Process` in a `Driver` over a `Transport`, with or without a `Journal`:

    journal = await Journal.open(path, cluster="c", kept=RECORDS)
    codec = PacketCodec("vcube-ps", PACKETS)
    transport = TcpTransport(node, codec, cluster="c", incarnation=journal.identity.incarnation)
    driver = Driver(process, transport, application, journal=journal)
    await driver.start()

`application(batch)` gets deliveries in order with their positions. Everything runs on one event loop and is called from
it only; a journal has two threads of its own.
"""
