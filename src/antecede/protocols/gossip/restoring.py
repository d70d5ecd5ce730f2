"""How a broker is restored from its kept records after a crash, and how these are compacted."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from antecede.protocols.gossip.records import Began, Delivered, Ended, GaveUp, Kept, Published, Reached

if TYPE_CHECKING:
    from antecede.protocols.gossip.broker import Broker


def restore(broker: "Broker", records: Iterable[object]) -> None:
    """Bring a new broker to where the records, oldest first, say that it was."""
    for record in records:
        match record:
            case Published() | Delivered():
                broker.replay(record.rumour)
            case Began():
                broker.relays.add(record.group)
                if record.takes:
                    broker.takes_groups.add(record.group)
                broker.order.floors(record.floors)
                broker.note_begins(record.floors)
                broker.group_join.begin_after(record.group, record.before)
            case Ended():
                broker.takes_groups.discard(record.group)
            case GaveUp():
                broker.order.clock_floor = record.clock
            case Reached():
                _restore_summary(broker, record)
    broker.version = len(broker.relays)
    broker.group_join.delivered()


def _restore_summary(broker: "Broker", record: Reached) -> None:
    broker.order.floors(record.levels)
    broker.time = max(broker.time, record.clock)
    for topic, source, seq in record.levels:
        if source == broker.node:
            broker.last_seqs[topic] = max(seq, broker.last_seqs.get(topic, 0))
    broker.clock.merge(record.frontier)


def compact(broker: "Broker", records: Sequence[object]) -> list[object]:
    """Of messages that the broker would not store any more, keep only how far they led. `broker` is new."""
    kept = list(records)
    messages = [index for index, record in enumerate(kept) if isinstance(record, Published | Delivered)]
    keeps = broker.config.store_max
    if len(messages) <= 2 * keeps:
        return kept
    cut = messages[-keeps]
    before = [record for record in kept[:cut] if isinstance(record, Kept)]
    restore(broker, before)
    levels = tuple([(*stream, level) for stream, level in broker.order.levels().items()])
    changes = [record for record in before if not isinstance(record, Published | Delivered | Reached)]
    return [*changes, Reached(levels, broker.clock.entries(), broker.time), *kept[cut:]]
