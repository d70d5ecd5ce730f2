"""The thin client: `antecede.connect`.

bus.py      publish and subscribe, over whatever connection there is
feed.py     a subscription being read
message.py  what an application gets, and its name
connect.py  URLs; dialling, and dialling again
pipe.py     `memory://`: a connection within the process
sync.py     the same for scripts without asyncio
records.py  what travels between client and node
errors.py   what may go wrong
"""
