"""Total order as the protocol of a node: the ordering layer the simulator runs, over VCube-PS.

The domain is one topic of that layer. One group of managers numbers every message of the cluster, and every node
delivers by these numbers; the topics of applications are labels inside. The first `managers` slots are that group. A
message is safe when its publisher's node has kept it. It is numbered, passed on and delivered after that, at its own
node too.

No node skips a number that was given out. When a publisher's node goes silent right then, the managers wait until it is
suspected and a second more, or for `patience_s`; then they declare its number void. If the message arrives after that,
it is delivered tagged as out of order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from antecede.core import Packet, ProtocolError, UsageError
from antecede.core.limits import DEPENDENCIES_MAX
from antecede.protocols.live import LiveProtocol, LiveSettings
from antecede.protocols.tno.event import decode_event, topic_id
from antecede.protocols.tno.module import OrderingModule
from antecede.protocols.tno.packets import PACKETS, Answer
from antecede.protocols.tno.process import TotalOrder
from antecede.protocols.tno.records import RECORDS, Asked, Came, Out, Taken, Told, Versioned, Wanted
from antecede.protocols.tno.replica import Kept as Accepted
from antecede.protocols.tno.replica import KeptState
from antecede.protocols.tno.settings import Settings
from antecede.protocols.vcube_ps.live import LiveVCubePs
from antecede.protocols.vcube_ps.packets import PACKETS as SERVICE_PACKETS
from antecede.protocols.vcube_ps.records import Began, Kept

_RETRY_US: Final = 500_000
_ACK_US: Final = 20_000


class LiveTotal(TotalOrder):
    """A node that delivers in one order with all others, and compacts what it kept."""

    def __init__(self, node: int, settings: LiveSettings) -> None:
        # The journal has what this process delivers, which is not what the service delivers.
        service = LiveVCubePs(node, settings._replace(logged=False))
        super().__init__(OrderingModule(node, _module_settings(settings)), service)
        self._domain = settings.domain
        self._managers = settings.managers

    def restore(self, records: Iterable[object]) -> None:
        kept = list(records)
        if any(isinstance(record, Began) for record in kept) and not any(isinstance(one, RECORDS) for one in kept):
            problem = "the journal was written without it, so its messages have no place in the order"
            raise UsageError("protocol", "total", problem, "start with a new directory")
        super().restore(kept)

    def compact(self, records: Sequence[object]) -> list[object]:
        kept = list(records)
        service = [record for record in kept if not isinstance(record, RECORDS)]
        ours = [record for record in kept if isinstance(record, RECORDS)]
        if not ours:
            return kept
        self.module.restore([record for record in ours if isinstance(record, Accepted | KeptState)])
        taken = _subscriber(ours, self._domain)
        waiting = [decode_event(record.topic, record.data).message for record in taken if isinstance(record, Came)]
        return [
            *self.inner.compact(service),
            *self.module.managers_kept(),
            *_publisher(ours, [message.seq for message in waiting if message.source == self.node]),
            *taken,
        ]

    def check(self, packets: Sequence[Packet]) -> None:
        """The service must carry events, each under its own name."""
        for packet in packets:
            for message in packet.messages:
                event = decode_event(message.topic, message.payload).message
                if (event.source, event.seq) != (message.source, message.seq):
                    raise ProtocolError(f"message {message.id} carries an event that calls itself {event.id}")

    def receive(self, sender: int, packet: Packet) -> None:
        if isinstance(packet, Answer) and sender >= self._managers:
            raise ProtocolError(f"node {sender} sent a {type(packet).__name__}, which only managers do")
        super().receive(sender, packet)

    def delivered(self, topic: str) -> dict[int, int]:
        """Up to here nothing more is to come. Messages that came and wait are to come.

        A message that the service has delivered and that does not wait was delivered, or numbered before our join.
        """
        reached = self.inner.delivered(topic)
        for message in self.module.waiting():
            reached[message.source] = min(message.seq - 1, reached.get(message.source, 0))
        # Our own reach the service later than they are published, and are delivered here as everywhere.
        return reached


def _module_settings(settings: LiveSettings) -> Settings:
    managers = tuple(range(settings.managers))
    return Settings(
        managers=lambda topic: managers,
        retry_us=_RETRY_US,
        ack_us=_ACK_US,
        window=min(settings.window, 1024),
        lease_us=settings.patience_us,
    )


def _agreed(settings: LiveSettings) -> Mapping[str, object]:
    return {"managers": settings.managers}


def _publisher(records: Sequence[object], waiting: Sequence[int]) -> list[object]:
    """Of this node's own messages: those the service does not have yet, or that wait here to be delivered.

    Also the last one the service has, which keeps the count, and as many of those it has as a manager may be told.
    """
    asked = [record for record in records if isinstance(record, Asked)]
    out = [record for record in records if isinstance(record, Out)]
    reached = min([out[-1].seq if out else 0, *waiting])
    return [*[record for record in asked if record.message.seq >= reached], *out[-DEPENDENCIES_MAX:]]


def _subscriber(records: Sequence[object], domain: str) -> list[object]:
    """The subscription and where it begins; of the events that came only those that wait, or were given up."""
    wanted = [record for record in records if isinstance(record, Wanted)][-1:]
    versions = [record for record in records if isinstance(record, Versioned)][-1:]
    start = max([at for at, record in enumerate(records) if isinstance(record, Taken)], default=None)
    if start is None or not wanted or not wanted[0].wanted:
        return [*wanted, *versions, *[record for record in records if isinstance(record, Came)]]
    taken = records[start]
    assert isinstance(taken, Taken)
    came: dict[int, Came] = {}
    told: dict[int, Told] = {}
    for record in records[start:]:
        if isinstance(record, Came):
            came[decode_event(record.topic, record.data).number] = record
        elif isinstance(record, Told) and record.topic == topic_id(domain):
            told[record.number] = record
            came.pop(record.number, None)
    floor = dict(taken.floors).get(domain, 0)
    while floor + 1 in told:
        floor += 1
    later = [record for number, record in sorted(told.items()) if record.void or number > floor]
    return [*wanted, *versions, Taken(domain, ((domain, floor),)), *came.values(), *later]


TOTAL: Final = LiveProtocol(
    "total",
    (*SERVICE_PACKETS, *PACKETS),
    (*get_args(Kept), *RECORDS),
    LiveTotal,
    _agreed,
    counts_copies=True,
    total_order=True,
)
