"""Compaction of what a node of VCube-PS keeps: fewer records that restore the same node.

The records grow by one with every delivery. Once every member has delivered a message (`Stable`), no node asks for it,
and a dependency on it is always met. So a prefix of the records in which all messages are stable can be replaced by the
counts it led to (`Began`), this node's memberships, and its own last message (which keeps its number).
"""

from collections.abc import Iterable

from antecede.core import Message
from antecede.protocols.vcube_ps.records import (
    Began,
    Clock,
    Held,
    OfMessages,
    Published,
    PublishedRun,
    Registered,
    Stable,
)


def compact(records: Iterable[object], node: int) -> list[object]:
    """Return records that restore the same node. Those of several topics are compacted topic by topic."""
    kept = list(records)
    stable: dict[tuple[str, int], int] = {}
    for record in kept:
        if isinstance(record, Stable):
            key = (record.topic, record.source)
            stable[key] = max(record.seq, stable.get(key, 0))
    cut = _cut(kept, stable)
    if cut == 0:
        return kept
    return [*_summary(kept[:cut], node), *kept[cut:]]


def _last(record: object) -> Message | None:
    """The last message that a record says was published or delivered here."""
    return record.messages[-1] if isinstance(record, OfMessages) else None


def _cut(kept: list[object], stable: dict[tuple[str, int], int]) -> int:
    """How many records from the beginning speak only of messages that are stable."""
    for index, record in enumerate(kept):
        message = record.message if isinstance(record, Held) else _last(record)
        if message is not None and message.seq > stable.get((message.topic, message.source), 0):
            return index
    return len(kept)


def _summary(records: list[object], node: int) -> list[object]:
    registers: dict[tuple[str, int], Registered] = {}
    floors: dict[str, dict[int, int]] = {}
    own: dict[str, Published] = {}
    began: dict[str, Began] = {}
    stable: dict[tuple[str, int], Stable] = {}
    time = 0
    for record in records:
        message = _last(record)
        if isinstance(record, Clock):
            time = max(time, record.time)
        elif message is not None:
            time = max(time, message.clock)
            floors.setdefault(message.topic, {})[message.source] = message.seq
            if isinstance(record, Published | PublishedRun):
                own[message.topic] = Published(message)
        elif isinstance(record, Registered):
            registers[record.topic, record.node] = record
            if record.node == node:
                began.pop(record.topic, None)
        elif isinstance(record, Began):
            began[record.topic] = record
            counts = floors.setdefault(record.topic, {})
            for source, count in record.floors:
                counts[source] = max(count, counts.get(source, 0))
        elif isinstance(record, Stable):
            stable[record.topic, record.source] = record
    # Memberships first, in the order in which a node joins: others' registers, its own, and then its session.
    summary: list[object] = [one for one in registers.values() if one.node != node]
    summary += [one for one in registers.values() if one.node == node]
    for topic, session in began.items():
        summary.append(Began(topic, session.register, tuple(floors.get(topic, {}).items())))
    return [*summary, *own.values(), *stable.values(), *([Clock(time)] if time else [])]
