"""One order for everybody as the protocol of a node: the ordering layer the simulator runs, over VCube-PS.

The domain is one topic of that layer, so one group of managers numbers everything that is published in the cluster, and
every node delivers by these numbers; what applications call topics are labels inside. The first `managers` places are
that group. A message is safe when it is kept (its publisher's node has it, and never uses its number again); it is
numbered, passed on and delivered after that, here as everywhere.

Nobody goes past a number that was given out. A publisher's node that goes silent right then is waited for, until it is
found to be down and a second more, or `patience_s` long; then the managers declare its number void. Should the message
come after all, it is delivered tagged.
"""

from collections.abc import Iterable, Sequence
from typing import Final, get_args

from antecede.core import Packet, ProtocolError, UsageError
from antecede.core.limits import DEPENDENCIES_MAX
from antecede.node.compact import compact as compact_service
from antecede.node.config import NodeConfig
from antecede.protocols.tno import RECORDS, OrderingModule, Settings, TotalOrder
from antecede.protocols.tno.event import decode_event, topic_id
from antecede.protocols.tno.records import Asked, Came, Out, Taken, Told, Versioned, Wanted
from antecede.protocols.tno.replica import Kept as Accepted
from antecede.protocols.tno.replica import KeptState
from antecede.protocols.vcube_ps import VCubePs
from antecede.protocols.vcube_ps.records import Began, Kept

#: What the journal keeps for it.
KEPT: Final = (*get_args(Kept), *RECORDS)

_RETRY_US: Final = 500_000
_ACK_US: Final = 20_000


class TotalProcess(TotalOrder):
    """What a node asks of its protocol, beside the protocol."""

    def __init__(self, service: VCubePs, config: NodeConfig) -> None:
        super().__init__(OrderingModule(service.node, settings_of(config)), service)
        self._service = service

    def restore(self, records: Iterable[object]) -> None:
        kept = list(records)
        if any(isinstance(record, Began) for record in kept) and not any(isinstance(one, RECORDS) for one in kept):
            problem = "the journal was written without it, so its messages have no place in the order"
            raise UsageError("overlay", "total", problem, "start with a new directory")
        super().restore(kept)

    def delivered(self, topic: str) -> dict[int, int]:
        """By source: how far nothing more is to come here. What came and waits is to come; what is neither here nor
        waits was delivered, or was numbered before this node took the topic."""
        reached = self._service.delivered(topic)
        for message in self.module.waiting():
            reached[message.source] = min(message.seq - 1, reached.get(message.source, 0))
        # Our own are with the service later than they are published, and delivered here as everywhere.
        return reached

    def check(self, packets: Sequence[Packet]) -> None:
        """The service must carry events, each under its own name."""
        for packet in packets:
            for message in packet.messages:
                event = decode_event(message.topic, message.payload).message
                if (event.source, event.seq) != (message.source, message.seq):
                    raise ProtocolError(f"message {message.id} carries an event that calls itself {event.id}")


def settings_of(config: NodeConfig) -> Settings:
    everything = tuple(range(config.managers))
    return Settings(
        managers=lambda topic: everything,
        retry_us=_RETRY_US,
        ack_us=_ACK_US,
        window=min(config.window, 1024),
        lease_us=int(config.patience_s * 1_000_000),
    )


def compact(records: Iterable[object], node: int, config: NodeConfig, domain: str) -> list[object]:
    """Fewer records that restore the same node."""
    kept = list(records)
    service = [record for record in kept if not isinstance(record, RECORDS)]
    ours = [record for record in kept if isinstance(record, RECORDS)]
    if not ours or not 0 <= node < config.slots:
        return kept
    managers = OrderingModule(node, settings_of(config))
    managers.restore([record for record in ours if isinstance(record, Accepted | KeptState)])
    taken = _subscriber(ours, domain)
    waiting = [decode_event(record.topic, record.data).message for record in taken if isinstance(record, Came)]
    return [
        *compact_service(service, node),
        *managers.managers_kept(),
        *_publisher(ours, [message.seq for message in waiting if message.source == node]),
        *taken,
    ]


def _publisher(records: Sequence[object], waiting: Sequence[int]) -> list[object]:
    """What is not with the service, or is and waits here to be delivered: `live.bulk` looks for what it published. The
    last that is with it, which keeps the count; and of what is out as much as a manager may be told."""
    asked = [record for record in records if isinstance(record, Asked)]
    out = [record for record in records if isinstance(record, Out)]
    reached = min([out[-1].seq if out else 0, *waiting])
    return [*[record for record in asked if record.message.seq >= reached], *out[-DEPENDENCIES_MAX:]]


def _subscriber(records: Sequence[object], domain: str) -> list[object]:
    """What is wanted and from where on; of what came only what waits, and what was given up and may still come."""
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
