"""From records to what a node knows, and back: restoring a node after a crash, and a checkpoint of it."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from antecede.core import Message, UsageError
from antecede.core.epochs import epoch_base
from antecede.protocols.vcube_ps import outside
from antecede.protocols.vcube_ps.closing import close, number_from
from antecede.protocols.vcube_ps.records import (
    Began,
    Carries,
    Checkpoint,
    Clock,
    Closed,
    Delivered,
    DeliveredRun,
    Earlier,
    Forgotten,
    Held,
    Logged,
    OfMessages,
    Published,
    PublishedRun,
    Registered,
    Secured,
    Stable,
    Unlogged,
)
from antecede.protocols.vcube_ps.state import Group, State
from antecede.protocols.vcube_ps.view import first_register


def restore(state: State, records: Iterable[object]) -> None:
    """Bring `state`, which is new, to where the records lead, oldest first."""
    for record in records:
        read = _READ.get(type(record))
        if read is None:
            raise UsageError("record", type(record).__name__, "is not one of VCube-PS's", "restore its own")
        read(state, record)


def checkpoint(state: State) -> list[object]:
    """Records that restore what the node knows. The driver's log has the messages, but for those held for others."""
    found: list[object] = [Forgotten(node, epoch) for node, epoch in state.epochs.items()]
    found += [Clock(state.clock.time)] if state.clock.time else []
    for group in state.named():
        topic = group.name
        reached = [(source, done) for source in group.streams if (done := group.order.reached(topic, source))]
        since = 0 if group.takes else group.seq - group.inside
        past = tuple(group.past.items())
        found.append(Checkpoint(topic, group.seq, tuple(reached), group.order.checkpoint(topic), since, past))
        if group.secured:
            found.append(Secured(topic, group.secured))
        # Registers in the order in which a node joins: others' first, its own, and then its session.
        moved = sorted(group.view.moved(), key=lambda entry: entry[0] == state.node)
        found += [Registered(topic, node, register) for node, register in moved]
        if group.takes:
            floors = [(source, stream.floor) for source, stream in group.streams.items() if stream.floor]
            found += [Began(topic, group.view.register(state.node), tuple(floors)), earlier(group)]
        for source, stream in group.streams.items():
            found += [Closed(topic, source, epoch, last) for epoch, last in stream.seams.items()]
            if stream.stable:
                found.append(Stable(topic, source, stream.stable))
            if source == state.node and group.undelivered:
                found += [Unlogged(stream.log[seq]) for seq in group.undelivered]
                continue
            found += [Held(message) for seq, message in stream.log.items() if seq <= stream.floor]
    return found


def earlier(group: Group) -> Earlier:
    """What was delivered before the present session. The counts alone do not tell that from a floor."""
    counts = [(source, stream.earlier) for source, stream in group.streams.items() if stream.earlier]
    return Earlier(group.name, tuple(counts))


def begin_after(state: State, group: Group, floors: Iterable[tuple[int, int]]) -> None:
    """A session on the topic begins: what these counts name predates it."""
    for source, count in floors:
        stream = group.stream(source)
        stream.earlier = stream.delivered(group.order.reached(group.name, source))
        stream.begin_after(count)
        stream.floor = max(count, stream.floor)
    number_from(state, group)


def _read_messages(state: State, record: OfMessages) -> None:
    for message in record.messages:
        group = state.group(message.topic)
        group.order.replay(message)
        stream = group.stream(message.source)
        stream.take(message)
        stream.begin_after(message.seq)
        state.clock.observe(message.clock)
        if message.source == state.node:
            group.seq = message.seq
            if group.takes:
                group.inside = message.seq
            else:
                outside.published(group, message)


def _read_logged(state: State, record: Logged) -> None:
    first, last = record.first, record.last
    group = state.group(first.topic)
    group.order.replay(first)
    if last > first.seq:
        group.order.replay(Message(first.topic, first.source, last, (), b""))
    _reach(group, first.source, last)
    state.clock.observe(first.clock and first.clock + last - first.seq)
    if first.source == state.node:
        group.seq = group.inside = last


def _read_carries(state: State, record: Carries) -> None:
    for topic, source, seq in record.entries:
        state.group(topic).order.follow(topic, source, seq)


def _read_checkpoint(state: State, record: Checkpoint) -> None:
    group = state.group(record.topic)
    group.seq = record.seq
    group.inside = record.seq - record.outside
    outside.raise_to(group.past, record.past)
    group.order.resume(record.topic, record.reached, record.frontier)
    for source, count in record.reached:
        _reach(group, source, count)


def _reach(group: Group, source: int, seq: int) -> None:
    """This node had come so far, and its driver's log has the messages."""
    group.stream(source).begin_after(seq)


def _read_clock(state: State, record: Clock) -> None:
    state.clock.observe(record.time)


def _read_held(state: State, record: Held) -> None:
    state.group(record.message.topic).stream(record.message.source).hold(record.message)


def _read_unlogged(state: State, record: Unlogged) -> None:
    group = state.group(record.message.topic)
    group.stream(state.node).hold(record.message)
    group.undelivered.append(record.message.seq)


def _read_secured(state: State, record: Secured) -> None:
    group = state.group(record.topic)
    group.secured = max(group.secured, record.seq)
    while group.undelivered and group.undelivered[0] <= record.seq:
        group.undelivered.popleft()


def _read_registered(state: State, record: Registered) -> None:
    group = state.group(record.topic)
    group.view.learn(record.node, record.register)
    if record.node == state.node:
        group.wants = group.joining = bool(record.register & 1)
        if group.takes:
            group.order.leave(record.topic)
            group.takes = False
        if group.joining:
            group.order.enter(record.topic)


def _read_began(state: State, record: Began) -> None:
    group = state.group(record.topic)
    group.joining, group.takes = False, True
    begin_after(state, group, record.floors)
    group.order.floors(record.topic, record.floors)
    outside.entered(group)


def _read_stable(state: State, record: Stable) -> None:
    group = state.group(record.topic)
    group.order.stable(record.topic, record.source, record.seq)
    stream = group.stream(record.source)
    stream.stable = stream.announced = max(record.seq, stream.stable)
    stream.forget(record.seq)
    if record.source == state.node:
        while group.undelivered and group.undelivered[0] <= record.seq:
            group.undelivered.popleft()


def _read_forgotten(state: State, record: Forgotten) -> None:
    node, epoch = record.node, record.epoch
    state.epochs[node] = max(epoch, state.epochs.get(node, 0))
    for group in state.groups.values():
        group.view.learn(node, first_register(epoch))
        group.stream(node).begin_epoch(epoch, group.order.reached(group.name, node))
        if node == state.node:  # it takes nothing of what the former owner took
            group.wants = group.takes = False
            group.order.leave(group.name)


def _read_earlier(state: State, record: Earlier) -> None:
    counts = dict(record.counts)
    for source, stream in state.group(record.topic).streams.items():
        stream.earlier = counts.get(source, 0)


def _read_closed(state: State, record: Closed) -> None:
    group = state.group(record.topic)
    group.order.close(record.topic, record.source, epoch_base(record.epoch))
    group.order.stable(record.topic, record.source, epoch_base(record.epoch))
    close(state, group, group.stream(record.source), record.epoch, record.last)


_READ: Final[dict[type, Callable[[State, Any], None]]] = {
    Published: _read_messages,
    Delivered: _read_messages,
    PublishedRun: _read_messages,
    DeliveredRun: _read_messages,
    Logged: _read_logged,
    Carries: _read_carries,
    Checkpoint: _read_checkpoint,
    Clock: _read_clock,
    Held: _read_held,
    Unlogged: _read_unlogged,
    Secured: _read_secured,
    Registered: _read_registered,
    Began: _read_began,
    Stable: _read_stable,
    Forgotten: _read_forgotten,
    Closed: _read_closed,
    Earlier: _read_earlier,
}
