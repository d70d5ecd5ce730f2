"""Publish and subscribe over logs that another system runs: JetStream streams, Redis streams, Kafka partitions.

No server of ours takes part. `antecede.connect("nats://host:4222?streams=orders,shipping")` gives a bus with the API of
`client.Bus`. The rules of order are pure (`protocols.logs`); this package does the input and output.

connect.py        makes a bus from a URL
address.py        the URL taken apart
contract.py       what an adapter must do: append, read from an offset, prove progress, name the first kept offset
jetstream.py      the adapter for NATS JetStream
subjects.py       topics as subjects of NATS
redis_streams.py  the adapter for Redis Streams
resp.py           a lean connection to Redis, for the commands that carry every message
kafka.py          the adapter for Kafka
levels.py         topics whose first level names the log (Redis, Kafka)
bus.py            `LogBus`: publish, subscribe, cut
publishing.py     appends records, retries them, and fills the numbers of those given up
feed.py           `LogFeed`: reads logs and yields messages in causal order
message.py        a message as it was read
cursors.py        cursors and cuts as text
cutting.py        a consistent cut over all logs
reading.py        reads a log up to a given offset
watching.py       reads logs as a plain reader does, for a judge
dependencies.py   what records depend on, from our header or from headers of other producers
"""

from antecede.logs.bus import LogBus
from antecede.logs.connect import connect
from antecede.logs.contract import AppendError, Batch, Bounds, LogAdapter, LogRecord, Outgoing
from antecede.logs.feed import LogFeed
from antecede.logs.message import LogMessage

__all__ = [
    "AppendError",
    "Batch",
    "Bounds",
    "LogAdapter",
    "LogBus",
    "LogFeed",
    "LogMessage",
    "LogRecord",
    "Outgoing",
    "connect",
]
