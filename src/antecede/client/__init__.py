"""The thin client: `antecede.connect`. It needs a connection to a node, and no protocol.

base.py          the calls of every bus: publish, subscribe
bus.py           a bus over a connection to a node
publications.py  publications that are not acknowledged yet
deadlines.py     for publications whose node stays silent
past.py          what the client has read and published, for its next publication
pending.py       the bytes of publications under way
feed.py          a subscription being read
message.py       what an application gets: messages, their ids, cursors
options.py       what callers may ask for, checked
connect.py       URLs
dialler.py       dialling a node, and dialling again
sync.py          the same API for scripts without asyncio
bulk.py          reading and publishing in bulk, for programs without an event loop
claims.py        agreeing on the node that publishes a batch, where several are named
"""
