"""Compaction of what a node of VCube-PS keeps: fewer records that restore the same node.

The records grow by one with every delivery. Once every member has delivered a message (`Stable`), no node asks for it,
and a dependency on it is always met. So a prefix of the records in which all messages are stable can be replaced by the
counts and the frontier it led to (`Checkpoint`), and by this node's memberships and sessions. The frontier is needed: a
message that is stable may carry entries of other topics that are not.
"""

from collections.abc import Iterable

from antecede.core import Message
from antecede.protocols.vcube_ps.outside import raise_to
from antecede.protocols.vcube_ps.records import (
    Began,
    Checkpoint,
    Clock,
    Closed,
    Forgotten,
    Held,
    OfMessages,
    Registered,
    Stable,
)
from antecede.protocols.vcube_ps.restoring import earlier, restore
from antecede.protocols.vcube_ps.state import State


def compact(state: State, records: Iterable[object]) -> list[object]:
    """Return records that restore the same node. `state` is new, and is used for nothing else."""
    kept = list(records)
    stable: dict[tuple[str, int], int] = {}
    for record in kept:
        if isinstance(record, Stable):
            key = (record.topic, record.source)
            stable[key] = max(record.seq, stable.get(key, 0))
    cut = _cut(kept, stable)
    if cut == 0:
        return kept
    restore(state, kept[:cut])
    return [*_summary(kept[:cut], state), *kept[cut:]]


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


def _summary(records: list[object], state: State) -> list[object]:
    node = state.node
    registers: dict[tuple[str, int], Registered] = {}
    reached: dict[str, dict[int, int]] = {}
    own: dict[str, int] = {}
    began: dict[str, Began] = {}
    stable: dict[tuple[str, int], Stable] = {}
    forgotten = [record for record in records if isinstance(record, Forgotten)]
    closed = [record for record in records if isinstance(record, Closed)]
    time = 0
    for record in records:
        message = _last(record)
        if isinstance(record, Clock):
            time = max(time, record.time)
        elif message is not None:
            time = max(time, message.clock)
            reached.setdefault(message.topic, {})[message.source] = message.seq
            if message.source == node:
                own[message.topic] = message.seq
        elif isinstance(record, Checkpoint):
            own[record.topic] = record.seq
            raise_to(reached.setdefault(record.topic, {}), record.reached)
        elif isinstance(record, Registered):
            registers[record.topic, record.node] = record
            if record.node == node:
                began.pop(record.topic, None)
        elif isinstance(record, Began):
            began[record.topic] = record
            raise_to(reached.setdefault(record.topic, {}), record.floors)
        elif isinstance(record, Stable):
            stable[record.topic, record.source] = record
    summary: list[object] = [*forgotten, *([Clock(time)] if time else [])]
    for group in state.named():
        counts = tuple(reached.get(group.name, {}).items())
        frontier = group.order.checkpoint(group.name)
        if counts or frontier:
            summary.append(Checkpoint(group.name, own.get(group.name, 0), counts, frontier))
    # Memberships in the order in which a node joins: others' registers, its own, and then its session.
    summary += [one for one in registers.values() if one.node != node]
    summary += [one for one in registers.values() if one.node == node]
    before = [earlier(state.group(topic)) for topic in began]
    return [*summary, *began.values(), *before, *closed, *stable.values()]
