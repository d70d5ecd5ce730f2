"""Looking after streams: sending again, catching up, and knowing when nobody needs a message any more.

Every stream (the messages of one source on one topic) has a *custodian*: its source, and while the source is down the
member nearest to it in the cube, of those that are up. Members tell the custodian how far they are (`Have`); the
custodian sends what somebody lacks, and fetches what somebody has and it has not. That is all there is to crashes: a
publisher that dies half-way leaves messages with some members, the custodian collects them and brings them to all.
Anybody who sends too much (suspicions differ, or are wrong) sends duplicates, which do no harm.

A message is *stable* when every member has delivered it, members that are down included; then it is forgotten
everywhere. So a node that comes back finds what it missed. Members are those in the custodian's view, and views differ
while they change, hence the rule on which joins depend (`membership`):

    A delivery counts towards stability only if the node that reports it knew exactly the members we know.

If it knew more, or less, the two compare views first. So nothing becomes stable behind the back of a joiner that any of
those who report has heard of.

What has *arrived* at all members that are up opens the window of a publisher, and lets it leave.
"""

from collections.abc import Callable, Container, Iterable

from antecede.core import Message
from antecede.protocols.bundling import in_packets
from antecede.protocols.vcube_ps.packets import (
    DIRECT,
    NUMBERS_MAX,
    Gone,
    Have,
    Probe,
    Pub,
    Pull,
    Settled,
)
from antecede.protocols.vcube_ps.records import Stable
from antecede.protocols.vcube_ps.state import Group, State
from antecede.protocols.vcube_ps.streams import Position, Stream

#: Timers: look after a stream; acknowledge; ask for what is missing; see what a tree that lost a node left undone.
RESEND = "resend"
ACK = "ack"
REQUEST = "request"
REPAIR = "repair"

#: A receiver knows that something is missing; a custodian only supposes. So the one asks sooner than the other sends.
SEEK_SOONER = 4
#: What a suspicion leaves undone is brought after half the usual pause, which crosses a tree and back.
REPAIR_SOONER = 2

#: Messages sent again in one packet.
_BUNDLE = 16


class Custody:
    """The part of a node that looks after streams.

    `differs(group, peer)` is told when views do, `progress(group)` when messages have arrived everywhere, and
    `overdue()` when something did not come down its tree and is asked for.
    """

    def __init__(
        self,
        state: State,
        differs: Callable[[Group, int], None],
        progress: Callable[[Group], None],
        overdue: Callable[[], None],
    ) -> None:
        self._state = state
        self._differs = differs
        self._progress = progress
        self._overdue = overdue
        self._dirty: set[tuple[str, int]] = set()
        # By topic whose tree lost a node, by source: up to where messages were under way then.
        self._under_way: dict[str, dict[int, int]] = {}
        self._seeking = False
        self._sought = 0
        self._lacked: set[tuple[str, int]] = set()

    # -- acknowledging ------------------------------------------------------------------------------------------

    def received(self, group: Group, stream: Stream, count: int = 1) -> None:
        """Something of the stream came, or was delivered: whoever looks after it should know before long."""
        stream.unacknowledged += count
        if stream.unacknowledged >= self._state.timing.ack_every:
            self._dirty.discard((group.name, stream.source))
            self._acknowledge(group, stream)
            return
        self.owes(group, stream)

    def owes(self, group: Group, stream: Stream) -> None:
        """Say before long how far this node is."""
        if not self._dirty:
            self._state.out.wake_after(self._state.timing.ack_us, (ACK,))
        self._dirty.add((group.name, stream.source))

    def acknowledge(self) -> None:
        """The timer went off: tell of every stream that has moved."""
        dirty, self._dirty = self._dirty, set()
        for topic, source in sorted(dirty):
            group = self._state.group(topic)
            self._acknowledge(group, group.stream(source))

    def _acknowledge(self, group: Group, stream: Stream) -> None:
        stream.unacknowledged = 0
        to = self._state.custodian(group, stream.source)
        if to == self._state.node:
            self._settle(group, stream)
            if stream.source != to:  # a packet can outlive its sender: others may lack what it brought
                self._arm(stream, group)
        elif to >= 0 and not group.joining:
            self._state.out.send(to, self._have(group, stream))

    def _have(self, group: Group, stream: Stream, *, asked: bool = False) -> Have:
        done = group.order.reached(group.name, stream.source)
        beyond = tuple(sorted(stream.ahead)[:NUMBERS_MAX])
        return Have(group.name, stream.source, stream.got, done, group.view.digest, beyond, asked)

    # -- looking after ------------------------------------------------------------------------------------------

    def published(self, group: Group, stream: Stream) -> None:
        """The stream, which this node looks after, has grown."""
        if stream.settled:
            self._recount(group, stream)
        self._arm(stream, group)

    def review(self, group: Group, moved: Container[int] | None = None) -> None:
        """Members or suspicions changed: see what this node looks after, and report to custodians.

        `moved`: the sources whose custodians changed. None: the view changed, so earlier reports count no more.
        """
        state = self._state
        for stream in list(group.streams.values()):
            if state.looks_after(group, stream.source):
                stream.attempts = 0
                self._settle(group, stream)
                if stream.got or stream.source in state.down:
                    self._arm(stream, group)
            elif stream.log and (group.takes or group.joining) and (moved is None or stream.source in moved):
                self.owes(group, stream)

    def take_over(self, group: Group, source: int) -> None:
        """`source` is down. If its stream falls to this node, ask everybody what they have of it."""
        stream = group.stream(source)
        stream.heard.clear()
        if self._state.looks_after(group, source):
            for node in range(self._state.nodes):
                if node != self._state.node and node not in self._state.down:
                    self._state.out.send(node, Probe(group.name, source))
            self._arm(stream, group)

    def repair_later(self, group: Group) -> None:
        """A tree lost a node: after a pause, bring what was under way to the members that did not get it.

        Most of it arrives by itself, since the suspected node may be up, or was not in its way.
        """
        if group.name not in self._under_way:
            self._under_way[group.name] = {}
            self._state.out.wake_after(self._state.timing.retry_us // REPAIR_SOONER, (REPAIR, group.name))
        under_way = self._under_way[group.name]
        for stream in group.streams.values():
            if stream.log and self._state.looks_after(group, stream.source):
                under_way.setdefault(stream.source, stream.got)

    def repair(self, group: Group) -> None:
        """The pause is over."""
        state = self._state
        for source, until in self._under_way.pop(group.name).items():
            stream = group.stream(source)
            if state.looks_after(group, source):
                unheard = Position(stream.stable, (), stream.stable)
                for node in state.others(group):
                    position = stream.positions.get(node, unheard)
                    if position.got < until and node not in state.down:
                        self._bring(group, stream, node, position, until)

    def greet(self, group: Group, node: int) -> None:
        """`node` is back, and may have forgotten what it had not delivered: ask how far it is."""
        for stream in group.streams.values():
            position = stream.positions.get(node)
            if position is not None:
                stream.positions[node] = Position(position.done, (), position.done)
            if stream.got and node in group.view and self._state.looks_after(group, stream.source):
                self._state.out.send(node, Probe(group.name, stream.source))

    def brought(self, sender: int, group: Group, stream: Stream, *, fresh: bool) -> None:
        """Somebody brought what this node lacked: say so to him too, and if others wait for this node, go on now."""
        if sender != self._state.custodian(group, stream.source):
            self._state.out.send(sender, self._have(group, stream))
        if fresh and self._state.looks_after(group, stream.source):
            for node, position in list(stream.positions.items()):
                if position.got < stream.got and node in group.view and node not in self._state.down:
                    self._bring(group, stream, node, position, stream.got)
            self._arm(stream, group)

    def resend_behind(self, group: Group, stream: Stream) -> None:
        """The timer went off: whoever is behind with what was there a pause ago gets it again."""
        state, timing = self._state, self._state.timing
        stream.armed = False
        if not state.looks_after(group, stream.source):
            return
        aged, stream.aged = min(stream.aged, stream.got), stream.got
        if stream.attempts > timing.attempts_max:
            return
        spoke = False
        for node, position in stream.positions.items():
            if node not in state.down and self._fetch(group, stream, node, position):
                spoke = True
        behind = self._behind(group, stream)
        if not behind and not spoke:
            self._announce(group, stream)
            return
        for node in behind:
            told = stream.positions.get(node)
            if told is not None and aged <= told.got < stream.got:
                continue  # what it lacks is young
            spoke = True
            if told is None or not self._bring(group, stream, node, told, aged):
                state.out.send(node, Probe(group.name, stream.source))
        stream.attempts += spoke
        self._arm(stream, group)

    def _arm(self, stream: Stream, group: Group) -> None:
        if not stream.armed:
            stream.armed = True
            pause = self._state.timing.pause_us(stream.attempts)
            self._state.out.wake_after(pause, (RESEND, group.name, stream.source))

    def _behind(self, group: Group, stream: Stream) -> list[int]:
        """Nodes that are up and lack something of the stream, or have not said."""
        state = self._state
        target = stream.got
        found = set()
        if stream.source in state.down:  # whatever anybody has of it counts, member or not
            found = set(range(state.nodes)) - state.down - stream.heard - {state.node}
        if target:
            for node in state.others(group):
                position = stream.positions.get(node)
                if position is None or position.done < target or position.got < target:
                    found.add(node)
        return sorted(found - state.down)

    def _lacked_by(self, stream: Stream, position: Position, until: int) -> list[Message]:
        beyond = set(position.beyond)
        wanted = (seq for seq in range(position.got + 1, until + 1) if seq not in beyond)
        return stream.held(wanted)[: self._state.timing.burst]

    def _bring(self, group: Group, stream: Stream, node: int, position: Position, until: int) -> bool:
        """Send `node` what it lacks, or tell it that this is gone. False when there is nothing to send."""
        if position.got + 1 < stream.low:
            self._state.out.send(node, Gone(group.name, stream.source, stream.low - 1))
            return True
        lacked = self._lacked_by(stream, position, until)
        self._send(node, stream, lacked)
        return bool(lacked)

    def _lacks(self, group: Group, stream: Stream, position: Position) -> list[int]:
        """What somebody at `position` has and this node has not."""
        if not group.takes or (position.got <= stream.got and not position.beyond):
            return []
        lacking = [seq for seq in stream.lacking(position.got) if seq > stream.stable]
        return lacking + [seq for seq in position.beyond if seq > stream.got and seq not in stream.log]

    def _fetch(self, group: Group, stream: Stream, node: int, position: Position) -> bool:
        lacking = self._lacks(group, stream, position)
        if lacking:
            self._state.out.send(node, Pull(group.name, stream.source, tuple(lacking[:NUMBERS_MAX])))
        return bool(lacking)

    def _send(self, node: int, stream: Stream, messages: list[Message]) -> None:
        for part in in_packets(messages, _BUNDLE):
            self._state.out.send(node, Pub(part, DIRECT, stream.stable))

    def _settle(self, group: Group, stream: Stream) -> None:
        self._recount(group, stream)
        self._progress(group)

    def _recount(self, group: Group, stream: Stream) -> None:
        state = self._state
        before = stream.stable
        stream.settle(group.order.reached(group.name, stream.source), state.others(group), state.down)
        if stream.stable > before:
            stream.forget(stream.stable)
            state.out.keep(Stable(group.name, stream.source, stream.stable))

    def _announce(self, group: Group, stream: Stream) -> None:
        """Nothing more to say of it: let everybody forget what is stable."""
        if stream.stable > stream.announced:
            stream.announced = stream.stable
            for hop in group.view.near[self._state.dimension]:
                self._state.out.send(hop, Settled(group.name, stream.source, stream.stable))

    # -- packets ------------------------------------------------------------------------------------------------

    def on_have(self, sender: int, packet: Have) -> None:
        state = self._state
        group = state.group(packet.topic)
        stream = group.stream(packet.source)
        if packet.source == state.node:
            state.out.acknowledged(sender, packet.topic, packet.done)
        old = stream.positions.get(sender)
        agrees = packet.digest == group.view.digest
        done = max(packet.done if agrees else 0, old.done if old is not None else 0)
        if old is None or packet.got > old.got or done > old.done:
            stream.attempts = 0
        position = Position(max(packet.got, done), packet.beyond, done)  # an older word may come later
        complete = stream.place(sender, position, counts=sender in group.view and sender not in state.down)
        stream.heard.add(sender)
        if not agrees:
            self._differs(group, sender)
        if not state.looks_after(group, packet.source):
            return
        self._fetch(group, stream, sender, position)
        if packet.asked and packet.got < stream.got and sender in group.view:
            self._bring(group, stream, sender, position, stream.got)
        if complete:
            self._settle(group, stream)
        self._arm(stream, group)

    def on_probe(self, sender: int, packet: Probe) -> None:
        group = self._state.group(packet.topic)
        if not group.joining:  # who joins says where it is when it knows
            self._state.out.send(sender, self._have(group, group.stream(packet.source), asked=True))

    def on_pull(self, sender: int, packet: Pull) -> None:
        stream = self._state.group(packet.topic).stream(packet.source)
        self._send(sender, stream, stream.held(packet.numbers)[: self._state.timing.burst])
        gone = [seq for seq in packet.numbers if seq < stream.low and seq not in stream.log]
        if gone:
            self._state.out.send(sender, Gone(packet.topic, packet.source, max(gone)))

    def on_settled(self, sender: int, packet: Settled) -> None:
        group = self._state.group(packet.topic)
        for hop in group.view.near[self._state.height(sender)]:
            self._state.out.send(hop, packet)
        self.stable(group, group.stream(packet.source), packet.stable)

    def stable(self, group: Group, stream: Stream, until: int) -> None:
        """We are told that everybody has delivered up to `until`."""
        until = min(until, group.order.reached(group.name, stream.source))
        if until > stream.stable:
            stream.stable = until
            stream.forget(until)
            self._state.out.keep(Stable(group.name, stream.source, until))

    # -- asking for what is missing -----------------------------------------------------------------------------

    def watch(self) -> None:
        """Something is held: if that lasts, ask for what it waits for."""
        self._sought = 0
        if not self._seeking:
            self._lacked = set(self._missing())
            self._seek_later()

    def _seek_later(self) -> None:
        if self._sought <= self._state.timing.attempts_max:
            self._seeking = True
            pause_us = self._state.timing.pause_us(self._sought) // SEEK_SOONER
            self._state.out.wake_after(pause_us, (REQUEST,))

    def request_missing(self) -> None:
        """The timer went off: ask for what was missing a pause ago and still is."""
        self._seeking = False
        missing = self._missing()
        for (topic, source), numbers in missing.items():
            if (topic, source) in self._lacked:
                self._overdue()
                self._ask(self._state.group(topic), source, numbers)
        self._lacked = set(missing)
        if missing:
            self._sought += 1
            self._seek_later()

    def _missing(self) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        seen: set[int] = set()
        for group in self._state.groups.values():
            if group.takes and id(group.order) not in seen:
                seen.add(id(group.order))
                for (topic, source), awaited in group.order.missing(group.name).items():
                    numbers = self._state.group(topic).stream(source).lacking(awaited)
                    if numbers:
                        found[topic, source] = numbers
        return found

    def _ask(self, group: Group, source: int, numbers: Iterable[int]) -> None:
        """Ask the custodian; if that does not help, one member after the other."""
        state = self._state
        to = state.custodian(group, source)
        if self._sought % 2 or to in (-1, state.node):
            others = [node for node in state.others(group) if node not in state.down]
            if not others:
                return
            to = others[self._sought // 2 % len(others)]
        state.out.send(to, Pull(group.name, source, tuple(numbers)[:NUMBERS_MAX]))
