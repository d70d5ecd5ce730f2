"""Looking after streams: retransmission, and garbage collection of messages that no member needs.

A *stream* is the messages of one source on one topic. Its *custodian* is the source; while the source is down, it is
the member nearest to the source in the cube, of those that are up. Members tell the custodian how far they are
(`Have`). The custodian sends what a member lacks, and fetches what a member has and it lacks. That covers crashes: a
publisher that dies half-way leaves messages with some members; the custodian collects them and brings them to all.
Where suspicions differ, two nodes may act as custodians. They send duplicates, which do no harm.

A message is *stable* when every member has delivered it, members that are down included. Then it is forgotten
everywhere, so a node that recovers finds what it missed. Members are those in the custodian's view. Views differ while
they change, so joins (`membership`) depend on this rule:

    A delivery counts towards stability only if the node that reports it knew exactly the members we know.

If it knew more members, or fewer, the two nodes compare views first. So no message becomes stable before a joiner has
delivered it, if any of the reporting nodes has heard of that joiner.

A message has *arrived* when all members that are up and keep up have received it. That opens the publisher's window
(`window`), and lets the publisher leave.
"""

from collections.abc import Callable

from antecede.core import Message
from antecede.protocols.bundling import in_packets
from antecede.protocols.vcube_ps import outside
from antecede.protocols.vcube_ps.catching_up import CatchingUp
from antecede.protocols.vcube_ps.packets import (
    DIRECT,
    NUMBERS_MAX,
    Ahead,
    Gone,
    Have,
    Probe,
    Pub,
    Pull,
    Settled,
)
from antecede.protocols.vcube_ps.state import Group, State
from antecede.protocols.vcube_ps.streams import Position, Stream

#: Timers: look after a stream; acknowledge; announce what is stable; see what a tree that lost a node left undone.
RESEND = "resend"
ACK = "ack"
ANNOUNCE = "announce"
REPAIR = "repair"

#: What a suspicion leaves undone is brought after half the usual pause, which crosses a tree and back.
REPAIR_SOONER = 2

#: Messages sent again in one packet.
_BUNDLE = 16


class Custody:
    """The part of a node that looks after streams.

    `differs(group, peer)` is told when views do, `progress(group)` when messages have arrived everywhere.
    """

    def __init__(
        self,
        state: State,
        catching_up: CatchingUp,
        differs: Callable[[Group, int], None],
        progress: Callable[[Group], None],
    ) -> None:
        self._state = state
        self._catching_up = catching_up
        self._differs = differs
        self._progress = progress
        #: Called when the timer of a stream goes off whose epoch has ended (`closing`).
        self.pursue: Callable[[Group, Stream], None] | None = None
        self._dirty: set[tuple[str, int]] = set()
        # Streams of which more has become stable, where entries of other topics are left out (`carrying`).
        self._unannounced: set[tuple[str, int]] = set()
        # By topic whose tree lost a node, by source: up to where messages were under way then.
        self._under_way: dict[str, dict[int, int]] = {}

    # -- acknowledging ------------------------------------------------------------------------------------------

    def received(self, group: Group, stream: Stream, count: int = 1) -> None:
        """A message of the stream was received or delivered: acknowledge it before long."""
        stream.unacknowledged += count
        if stream.unacknowledged >= self._state.timing.ack_every:
            self._dirty.discard((group.name, stream.source))
            self._acknowledge(group, stream)
            return
        self.owes(group, stream)

    def owes(self, group: Group, stream: Stream) -> None:
        """Tell the custodian before long how far this node is."""
        if not self._dirty:
            self._state.out.wake_after(self._state.timing.ack_us, (ACK,))
        self._dirty.add((group.name, stream.source))

    def acknowledge(self) -> None:
        """The timer went off: acknowledge every stream that has moved."""
        dirty, self._dirty = self._dirty, set()
        for topic, source in sorted(dirty):
            group = self._state.group(topic)
            self._acknowledge(group, group.stream(source))

    def _acknowledge(self, group: Group, stream: Stream) -> None:
        stream.unacknowledged = 0
        to = self._state.custodian(group, stream.source)
        if to == self._state.node:
            self.settle(group, stream)
            if stream.source != to:  # a packet can outlive its sender: others may lack what it brought
                self._arm(stream, group)
        elif to >= 0 and not group.joining:
            self._state.out.send(to, self._have(group, stream))

    def _have(self, group: Group, stream: Stream, *, asked: bool = False) -> Have:
        done = group.order.reached(group.name, stream.source)
        # A node that is far behind fetches ranges. Naming what it holds beyond the hole would not help.
        beyond = () if stream.fetching is not None else tuple(sorted(stream.ahead)[:NUMBERS_MAX])
        got = stream.delivered(done) if stream.ending else stream.got  # a floor does not count (`closing`)
        return Have(group.name, stream.source, got, done, group.view.digest, beyond, asked, stream.floor)

    def report(self, group: Group, stream: Stream, node: int) -> None:
        """Tell `node` at once how far this node is."""
        self._state.out.send(node, self._have(group, stream))

    # -- looking after ------------------------------------------------------------------------------------------

    def published(self, group: Group, stream: Stream) -> None:
        """The stream, which this node looks after, has grown."""
        if stream.settled:
            self._recount(group, stream)
        self._arm(stream, group)

    def review(self, group: Group) -> None:
        """Members or suspicions changed: see which streams this node looks after, and which members lack what."""
        state = self._state
        for stream in list(group.streams.values()):
            if state.looks_after(group, stream.source):
                stream.attempts = 0
                self.settle(group, stream)
                if stream.got or stream.source in state.down or stream.ending:
                    self._arm(stream, group)
            elif (stream.log or (state.logged and stream.got)) and (group.takes or group.joining):
                self.owes(group, stream)

    def take_over(self, group: Group, source: int) -> None:
        """`source` is down. If this node is its custodian now, ask every node that is up what it has of the stream."""
        stream = group.stream(source)
        stream.heard.clear()
        if self._state.looks_after(group, source):
            for node in sorted(self._state.up()):
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
            if stream.log and not stream.ending and self._state.looks_after(group, stream.source):
                under_way.setdefault(stream.source, stream.got)

    def repair(self, group: Group) -> None:
        """The pause is over: bring what was under way to the members that still lack it."""
        state = self._state
        for source, until in self._under_way.pop(group.name).items():
            stream = group.stream(source)
            if state.looks_after(group, source) and not stream.ending:
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
            asks = stream.ending or (stream.got and node in group.view)
            if asks and self._state.looks_after(group, stream.source):
                self._state.out.send(node, Probe(group.name, stream.source))

    def brought(self, sender: int, group: Group, stream: Stream, *, fresh: bool) -> None:
        """`sender` brought what this node lacked: acknowledge it there, too, and serve members that wait for it."""
        if sender != self._state.custodian(group, stream.source):
            self._state.out.send(sender, self._have(group, stream))
        if fresh and not stream.ending and self._state.looks_after(group, stream.source):
            for node, position in list(stream.positions.items()):
                if position.got < stream.got and node in group.view and node not in self._state.down:
                    self._bring(group, stream, node, position, stream.got)
            self._arm(stream, group)

    def resend_behind(self, group: Group, stream: Stream) -> None:
        """The timer went off: retransmit to members that still lack what was there a pause ago."""
        state, timing = self._state, self._state.timing
        stream.armed = False
        if not state.looks_after(group, stream.source):
            return
        aged, stream.aged = min(stream.aged, stream.got), stream.got
        if not timing.goes_on(stream.attempts):
            return
        if stream.ending and self.pursue is not None:
            stream.attempts += 1
            self.pursue(group, stream)
            self._arm(stream, group)
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

    def look_later(self, group: Group, stream: Stream) -> None:
        """See after a pause what is to be done for a stream that this node looks after."""
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
        if stream.source in state.down:  # what any node has of it counts, member or not
            found = state.up() - stream.heard
        if target:
            for node in state.others(group):
                position = stream.positions.get(node)
                if position is None or position.done < target or position.got < target:
                    found.add(node)
        return sorted(found - state.down)

    def _lacked_by(self, stream: Stream, position: Position, until: int) -> list[Message]:
        beyond, log, burst = set(position.beyond), stream.log, self._state.timing.burst
        found: list[Message] = []
        for seq in range(position.got + 1, until + 1):
            if len(found) == burst:
                break
            if seq in log and seq not in beyond:
                found.append(log[seq])
        return found

    def _bring(self, group: Group, stream: Stream, node: int, position: Position, until: int) -> bool:
        """Send `node` what it lacks, or tell it to fetch that, or that it is gone. False: there is nothing to send."""
        if position.got + 1 < stream.low and not self._state.logged:
            self._state.out.send(node, Gone(group.name, stream.source, stream.low - 1))
            return True
        read = self._state.logged and position.got < until and position.got + 1 not in stream.log
        if read or until - position.got > self._state.timing.burst:
            self._state.out.send(node, Ahead(group.name, stream.source, stream.got))
            return True
        lacked = self._lacked_by(stream, position, until)
        self._send(node, stream, lacked)
        return bool(lacked)

    def _lacks(self, group: Group, stream: Stream, position: Position) -> list[int]:
        """What a node at `position` has and this node has not; not all of it if it is much."""
        if not group.takes or (position.got <= stream.got and not position.beyond):
            return []
        lacking = [seq for seq in stream.lacking(position.got, NUMBERS_MAX + 1) if seq > stream.stable]
        return lacking + [seq for seq in position.beyond if seq > stream.got and seq not in stream.log]

    def _fetch(self, group: Group, stream: Stream, node: int, position: Position) -> bool:
        if stream.fetching is not None:
            return False
        lacking = self._lacks(group, stream, position)
        if position.got - stream.got > NUMBERS_MAX:
            self._catching_up.begin(group, stream, position.got, node)
        elif lacking:
            self._state.out.send(node, Pull(group.name, stream.source, tuple(lacking[:NUMBERS_MAX])))
        return bool(lacking)

    def _send(self, node: int, stream: Stream, messages: list[Message]) -> None:
        for part in in_packets(messages, _BUNDLE):
            self._state.out.send(node, Pub(part, DIRECT, stream.stable))

    def settle(self, group: Group, stream: Stream) -> None:
        """See how far all members are, and what that makes possible."""
        self._recount(group, stream)
        self._progress(group)

    def _recount(self, group: Group, stream: Stream) -> None:
        if stream.ending:
            return  # how far members are is the matter of `closing`
        state = self._state
        before = stream.stable
        others = state.others(group)
        stream.sort_out(others, state.down, state.window)
        done = group.order.reached(group.name, stream.source)
        if not others and stream.source == state.node:
            done = outside.delivered(state, group)
        stream.settle(done, others, state.down)
        if stream.stable > before:
            if stream.source == state.node:
                outside.secured(state, group, stream.stable)
            stream.forget(stream.stable)
            group.order.stable(group.name, stream.source, stream.stable)
            if group.order.drops:  # messages on other topics carry it until their publishers know
                self._announce_soon(group, stream)
            state.keep_stable(group, stream)

    def _announce_soon(self, group: Group, stream: Stream) -> None:
        if not self._unannounced:
            self._state.out.wake_after(self._state.timing.ack_us, (ANNOUNCE,))
        self._unannounced.add((group.name, stream.source))

    def announce(self) -> None:
        """The timer went off: tell all members what has become stable."""
        unannounced, self._unannounced = self._unannounced, set()
        for topic, source in sorted(unannounced):
            group = self._state.group(topic)
            self._announce(group, group.stream(source))

    def _announce(self, group: Group, stream: Stream) -> None:
        """The stream is at rest: tell all members up to where it is stable, so that they forget it."""
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
            state.out.acknowledged(sender, packet.topic, packet.done, packet.floor)
            if packet.done > packet.floor:
                group.order.secured(packet.topic, packet.done)
            if group.undelivered and packet.floor < group.undelivered[0]:
                outside.secured(state, group, packet.done)
                self._progress(group)
        agrees = packet.digest == group.view.digest
        old = stream.positions.get(sender)
        done = max(packet.done if agrees else 0, old.done if old is not None else 0)
        if old is None or packet.got > old.got or done > old.done:
            stream.attempts = 0
        position = Position(max(packet.got, done), packet.beyond, done)  # an older word may come later
        complete = stream.place(sender, position, counts=sender in group.view and sender not in state.down)
        if sender in stream.behind and stream.got - position.got <= state.window // 2:
            complete = True  # it has caught up, and counts again
        elif stream.pace is not None:
            self._progress(group)
        stream.heard.add(sender)
        if not agrees:
            self._differs(group, sender)
        if not state.looks_after(group, packet.source):
            return
        self._fetch(group, stream, sender, position)
        if packet.asked and packet.got < stream.got and sender in group.view:
            self._bring(group, stream, sender, position, stream.got)
        if complete:
            self.settle(group, stream)
        self._arm(stream, group)

    def on_probe(self, sender: int, packet: Probe) -> None:
        group = self._state.group(packet.topic)
        if not group.joining:  # a joiner acknowledges when it has begun
            self._state.out.send(sender, self._have(group, group.stream(packet.source), asked=True))

    def on_pull(self, sender: int, packet: Pull) -> None:
        stream = self._state.group(packet.topic).stream(packet.source)
        self._send(sender, stream, stream.held(packet.numbers)[: self._state.timing.burst])
        if self._state.logged:
            old = [seq for seq in packet.numbers if seq <= stream.got and seq not in stream.log]
            if old:
                self._catching_up.send_old(sender, self._state.group(packet.topic), stream, old[0], old[-1])
            return
        old = [seq for seq in packet.numbers if seq < stream.low and seq not in stream.log]
        if old:
            self._state.out.send(sender, Gone(packet.topic, packet.source, max(old)))

    def on_ahead(self, sender: int, packet: Ahead) -> None:
        group = self._state.group(packet.topic)
        stream = group.stream(packet.source)
        if not group.takes and not group.joining:
            self._differs(group, sender)  # the sender takes this node for a member
        elif packet.got > stream.got:
            self._catching_up.begin(group, stream, packet.got, sender)
        else:  # the sender takes this node for slower than it is
            self.owes(group, stream)

    def on_settled(self, sender: int, packet: Settled) -> None:
        group = self._state.group(packet.topic)
        for hop in group.view.near[self._state.height(sender)]:
            self._state.out.send(hop, packet)
        self.stable(group, group.stream(packet.source), packet.stable)

    def stable(self, group: Group, stream: Stream, until: int) -> None:
        """A peer says that every member has delivered up to `until`."""
        until = min(until, group.order.reached(group.name, stream.source))
        if until > stream.stable:
            stream.stable = until
            stream.forget(until)
            group.order.stable(group.name, stream.source, until)
            self._state.keep_stable(group, stream)
