"""The thin client: `antecede.connect`. It needs a connection to a node, and no protocol.

bus.py        publish and subscribe, over the connection there is at the moment
deadlines.py  for publications whose node stays silent
past.py       what the client has read and published, for its next publication
pending.py    the bytes of publications under way
feed.py       a subscription being read
message.py    what an application gets: messages, their ids, cursors
options.py    what callers may ask for, checked
connect.py    URLs
dialler.py    dialling a node, and dialling again
sync.py       the same API for scripts without asyncio
bulk.py       reading and publishing in bulk, for programs without an event loop
"""
