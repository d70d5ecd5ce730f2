"""VCube-PS for systems in which things go wrong: the `pipelined` mode, and the default.

The trees, views and barriers are the thesis's (chapter 5). The rest is what its authors left for later: a publisher has
up to `window` messages in flight instead of one a round trip; links may lose, repeat and reorder; nodes crash, are
suspected rightly or wrongly, and come back with what they kept (thesis 6.2.2.1).

PUB goes down the tree once, as a rule. That everybody gets it does not rest on the tree: receivers see gaps by number
and ask (`custody.request_missing`), custodians see who is behind and send (`custody.resend_behind`), joiners start from
what others have delivered (`membership`). So trees may be rebuilt in the middle of a stream, and views may differ; it
costs duplicates,
which stop at the stream's log, never a message.

Inputs come in here, the parts do their work, and deliveries leave here. What must survive a crash is kept in the same
breath (`records`): a node that recovers has its numbers, its memberships and floors, every message it published or
delivered that is not stable, and no idea how far others are: it asks.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import ClassVar, Final

from antecede.core import Message, Packet, Process, ProtocolError, TopicMessageId, UsageError
from antecede.overlay.members import nodes_of
from antecede.protocols.vcube_ps.custody import Custody
from antecede.protocols.vcube_ps.edges import Edges, apart
from antecede.protocols.vcube_ps.membership import Membership
from antecede.protocols.vcube_ps.order import Order
from antecede.protocols.vcube_ps.packets import (
    AGAIN,
    DIRECT,
    ONCE,
    Bundle,
    Gone,
    Have,
    Probe,
    Pub,
    Pull,
    Settled,
    Sub,
    SubAck,
    Uns,
    Views,
)
from antecede.protocols.vcube_ps.records import Began, Delivered, Held, OfMessages, Published, Registered, Stable
from antecede.protocols.vcube_ps.runs import Runs
from antecede.protocols.vcube_ps.sizes import Sizes
from antecede.protocols.vcube_ps.state import Group, JoinReplies, State, Timing

_SUB: Final = "sub"
_UNS: Final = "uns"


class VCubePs(Process):
    """A node of VCube-PS."""

    reports_membership: ClassVar[bool] = True

    def __init__(
        self,
        node: int,
        nodes: int,
        make_order: Callable[[], Order],
        founders: Mapping[str, int],
        timing: Timing,
        *,
        window: int = 64,
        aggregate: bool = False,
        sizes: Sizes | None = None,
    ) -> None:
        """`founders`: by topic, members from the beginning as bits. `make_order` is asked once for each topic.

        `aggregate`: keep messages back for those they depend on, and send them on together (`edges`).
        """
        super().__init__(node)
        self._window = window
        self._sizes = sizes or Sizes()
        self._restored = False
        self._state = State(node, nodes, self.out, timing, make_order)
        self._membership = Membership(self._state, self._moved, self._heard_all)
        self._custody = Custody(self._state, self._membership.compare, self._freed, self._let_go)
        self._runs = Runs(self._state, self._custody)
        self._edges = Edges(self._state, self._sizes) if aggregate else None
        #: Groups whose queue may go on when the present input is dealt with. Never in the middle of it: what is
        #: published then must come after all that it delivers.
        self._to_advance: list[Group] = []
        for topic, members in founders.items():
            self._state.group(topic, members)

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message | None:
        group = self._state.group(topic)
        if not group.wants:
            raise UsageError("topic", topic, f"node {self.node} does not subscribe to it", "subscribe first")
        if group.queue or not self._may_publish(group):
            group.queue.append(payload)
            return None
        return self._broadcast(group, payload, late=False)

    def publish_run(self, topic: str, payloads: Sequence[bytes]) -> list[Message]:
        group = self._state.group(topic)
        if not group.wants:
            raise UsageError("topic", topic, f"node {self.node} does not subscribe to it", "subscribe first")
        room = 0 if group.queue or self._edges is not None else max(0, self._room(group))
        return self._runs.publish(group, payloads[:room]) if room and payloads else []

    def subscribe(self, topic: str) -> None:
        """Ask to take `topic`. Nothing happens where this was asked already."""
        group = self._state.group(topic)
        if not group.wants:
            group.wants = True
            group.queue.append(_SUB)
            self._freed(group)
            self._finish()

    def unsubscribe(self, topic: str) -> None:
        """Ask to leave, after everything asked before. Nothing happens where this was asked already."""
        group = self._state.group(topic)
        if group.wants:
            group.wants = False
            group.queue.append(_UNS)
            self._freed(group)
            self._finish()

    # -- packets, timers, suspicions ----------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Pub():
                self._take(sender, packet)
            case Bundle():
                self._take_apart(sender, packet)
            case Have():
                self._custody.on_have(sender, packet)
            case Probe():
                self._custody.on_probe(sender, packet)
            case Pull():
                self._custody.on_pull(sender, packet)
            case Settled():
                self._custody.on_settled(sender, packet)
            case Gone():
                self._gone(packet)
            case Views():
                self._membership.on_views(sender, packet)
            case Sub():
                self._membership.on_sub(sender, packet)
            case SubAck():
                self._membership.on_sub_ack(sender, packet)
            case Uns():
                self._membership.on_uns(sender, packet)
            case _:
                raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}: not for this mode")
        self._finish()

    def wake(self, timer: Hashable) -> None:
        match timer:
            case ("ack",):
                self._custody.acknowledge()
            case ("request",):
                self._custody.request_missing()
            case ("repair", str(topic)):
                self._custody.repair(self._state.group(topic))
            case ("resend", str(topic), int(source)):
                group = self._state.group(topic)
                self._custody.resend_behind(group, group.stream(source))
            case ("roll", str(topic), int(register)):
                self._membership.roll_call.tick(self._state.group(topic), register)
        self._finish()

    def peer_down(self, node: int) -> None:
        state = self._state
        if node == self.node or node in state.down:
            return
        state.down.add(node)
        state.everyone.hide(node)
        for group in list(state.groups.values()):
            fallen = self._looked_after_by(group, node)
            group.view.hide(node)
            self._let_go()
            self._membership.down(group, node)
            self._custody.review(group, fallen)
            if group.takes:
                self._custody.repair_later(group)
                self._take_over(group, fallen)
        self._finish()

    def peer_up(self, node: int) -> None:
        state = self._state
        if node not in state.down:
            return
        state.down.discard(node)
        state.everyone.show(node)
        for group in list(state.groups.values()):
            group.view.show(node)
            self._let_go()
            self._membership.up(group, node)
            self._custody.greet(group, node)
            self._custody.review(group, self._looked_after_by(group, node))
        self._finish()

    def _looked_after_by(self, group: Group, node: int) -> set[int]:
        """`node`, and the sources that are down and whose custodian is `node` while it is up."""
        return {node, *[down for down in self._state.down if self._state.custodian(group, down) == node]}

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet)

    @property
    def held(self) -> int:
        groups = self._state.groups.values()
        orders = {id(group.order): group.order for group in groups}
        return sum(order.held for order in orders.values()) + sum(len(group.early) for group in groups)

    def holding(self) -> list[TopicMessageId]:
        return [
            message.id
            for group in self._state.groups.values()
            if group.takes
            for stream in group.streams.values()
            for seq, message in stream.log.items()
            if seq > group.order.reached(group.name, stream.source)
        ]

    def wants(self, topic: str) -> bool:
        """After a crash: had the subscription begun to take effect?"""
        return self._state.group(topic).wants

    def delivered(self, topic: str) -> dict[int, int]:
        group = self._state.group(topic)
        return {source: done for source in group.streams if (done := group.order.reached(topic, source))}

    def takes(self, topic: str) -> bool:
        return self._state.group(topic).takes

    def last_published(self, topic: str) -> int:
        return self._state.group(topic).order.reached(topic, self.node)

    def stamps_now(self, topic: str) -> bool:
        group = self._state.group(topic)
        return not group.queue and self._may_publish(group)

    def children(self, topic: str) -> tuple[int, ...]:
        return self._state.group(topic).view.near[self._state.dimension]

    def members(self, topic: str) -> frozenset[int]:
        return frozenset(nodes_of(self._state.group(topic).view.members))

    @property
    def down(self) -> frozenset[int]:
        return frozenset(self._state.down)

    def unfinished(self) -> list[str]:
        found = []
        for group in self._state.groups.values():
            if group.queue or group.joining or group.roll:
                waits = sorted(group.roll.waits_for) if group.roll else []
                found.append(f"has {len(group.queue)} things queued on {group.name}, waits for nodes {waits}")
        if self._edges is not None and self._edges.kept:
            found.append(f"keeps {self._edges.kept} messages back")
        return found

    # -- messages -----------------------------------------------------------------------------------------------

    def _may_publish(self, group: Group) -> bool:
        return self._room(group) > 0

    def _room(self, group: Group) -> int:
        """How many messages may be published now."""
        if not group.takes or group.roll is not None:
            return 0
        own = group.streams.get(self.node)
        return self._window if own is None else self._window - (group.seq - own.arrived)

    def _broadcast(self, group: Group, payload: bytes, *, late: bool) -> Message:
        group.seq += 1
        message = group.order.stamp(group.name, group.seq, payload)
        self.out.keep(Published(message))
        if late:
            self.out.published(message)
        self.out.deliver(message)
        stream = group.stream(self.node)
        stream.take(message)
        if len(stream.log) > self._state.timing.retain:
            stream.forget(group.seq - self._state.timing.retain)
        packet = Pub((message,), ONCE, stream.stable)
        for hop in group.view.near[self._state.dimension]:
            self.out.send(hop, packet)
        self._custody.published(group, stream)
        return message

    def _take(self, sender: int, packet: Pub) -> None:
        first = packet.messages[0]
        group = self._state.group(first.topic)
        fresh = True
        if group.takes:
            fresh = False
            stream = group.stream(first.source)
            ready = self._runs.take(group, stream, packet)
            if ready is not None:
                fresh = True
                self._deliver(ready)
            else:
                for message in packet.messages:
                    if stream.take(message):
                        fresh = True
                        self._deliver(group.order.offer(message))
                    self._custody.received(group, stream)
            if len(stream.log) > self._state.timing.retain:
                stream.forget(stream.got - self._state.timing.retain)
            self._custody.stable(group, stream, packet.stable)
            if fresh and group.order.held:
                self._custody.watch()
            if packet.spread == DIRECT:
                self._custody.brought(sender, group, stream, fresh=fresh)
        elif group.joining:
            for message in packet.messages:
                group.early[message.source, message.seq] = message
            for message in packet.messages:  # the last of them may be what a join waited for
                self._membership.roll_call.came(group, message.source, message.seq)
        else:  # the sender takes this node for a member: it relays, and says that it is none
            self._membership.compare(group, sender)
        self._pass_on(group, sender, packet, fresh=fresh)

    def _take_apart(self, sender: int, bundle: Bundle) -> None:
        for packet in apart(bundle):
            self._take(sender, packet)

    def _pass_on(self, group: Group, sender: int, packet: Pub, *, fresh: bool) -> None:
        if self._edges is not None and group.takes and fresh:
            if packet.spread == ONCE:
                self._edges.pass_on(group, sender, packet)
                return
            self._edges.came(group, packet)
        if packet.spread == AGAIN or (packet.spread == ONCE and fresh):
            for hop in group.view.near[self._state.height(sender)]:
                self.out.send(hop, packet)

    def _deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.out.keep(Delivered(message))
            self.out.deliver(message)
        for message in messages:  # only now: what this frees to be published comes after all of them
            group = self._state.group(message.topic)
            self._custody.received(group, group.stream(message.source))

    def _gone(self, packet: Gone) -> None:
        """What we miss is not kept any more. We leave, visibly, and join again from where the others are."""
        group = self._state.group(packet.topic)
        if group.joining:
            self._membership.roll_call.gone(group, packet.source, packet.upto)
        elif group.takes and group.order.reached(packet.topic, packet.source) < packet.upto:
            self._leave(group)
            self._membership.join(group, group.view.register(self.node) + 2)
        else:  # the sender takes us for slower than we are
            self._custody.owes(group, group.stream(packet.source))

    # -- comings and goings -------------------------------------------------------------------------------------

    def _freed(self, group: Group) -> None:
        """Something the queue may have waited for has happened."""
        if group.queue:
            self._to_advance.append(group)

    def _finish(self) -> None:
        """The present input is dealt with."""
        if self._edges is not None:
            self._edges.depart()
        while self._to_advance:
            self._advance(self._to_advance.pop())
        if self._edges is not None:
            self._edges.depart()  # who leaves lets go of what it kept

    def _advance(self, group: Group) -> None:
        """Take the next things from the queue, as far as what is under way allows."""
        queue = group.queue
        while queue and not group.joining:
            if isinstance(queue[0], bytes):
                if not self._may_publish(group):
                    return
                payload = queue.popleft()
                assert isinstance(payload, bytes)
                self._broadcast(group, payload, late=True)
            elif queue[0] == _SUB:
                queue.popleft()
                self._membership.join(group, group.view.register(self.node) + 1)
            else:
                own = group.streams.get(self.node)
                if group.roll is not None or (own is not None and own.arrived < group.seq):
                    return  # what this node published reaches everybody before it leaves
                queue.popleft()
                self._leave(group)
                self._membership.leave(group)

    def _let_go(self) -> None:
        if self._edges is not None:
            self._edges.let_go()

    def _leave(self, group: Group) -> None:
        self._let_go()
        group.takes = False
        self.out.left(group.name)
        self._deliver(group.order.leave(group.name))
        for stream in group.streams.values():
            stream.rewind(group.order.reached(group.name, stream.source))

    def _heard_all(self, group: Group, roll: JoinReplies) -> None:
        """Everybody who is up has answered."""
        if group.joining:
            floors = tuple(roll.counts.items())
            self.out.keep(Began(group.name, roll.register, floors))
            group.joining = False
            group.takes = True
            self.out.joined(group.name)
            self._begin(group, floors)
            self._deliver(group.order.floors(group.name, floors))
            for source, stable in roll.stable.items():
                self._custody.stable(group, group.stream(source), stable)
            early, group.early = group.early, {}
            for message in early.values():
                stream = group.stream(message.source)
                if stream.take(message):
                    self._deliver(group.order.offer(message))
                elif stream.low <= message.seq <= roll.counts.get(message.source, 0):
                    stream.hold(message)
                    self.out.keep(Held(message))
            for stream in group.streams.values():
                self._custody.owes(group, stream)
            if group.order.held:
                self._custody.watch()
        self._custody.review(group)
        self._take_over(group, self._state.down)
        self._freed(group)

    def _begin(self, group: Group, floors: Iterable[tuple[int, int]]) -> None:
        for source, count in floors:
            group.stream(source).begin_after(count)

    def _moved(self, group: Group) -> None:
        self._let_go()
        self._custody.review(group)

    def _take_over(self, group: Group, sources: Set[int]) -> None:
        """Streams of sources that are down may fall to this node."""
        for source in sorted(sources & self._state.down):
            if group.view.register(source) or source in group.streams:
                self._custody.take_over(group, source)

    # -- after a crash ------------------------------------------------------------------------------------------

    def restore(self, records: Iterable[object]) -> None:
        self._restored = True
        for record in records:
            match record:
                case OfMessages():
                    for message in record.messages:
                        group = self._state.group(message.topic)
                        group.order.replay(message)
                        stream = group.stream(message.source)
                        stream.take(message)
                        stream.begin_after(message.seq)
                        if message.source == self.node:
                            group.seq = message.seq
                case Held(message):
                    self._state.group(message.topic).stream(message.source).hold(message)
                case Registered(topic, node, register):
                    group = self._state.group(topic)
                    group.view.learn(node, register)
                    if node == self.node:
                        group.wants = group.joining = bool(register & 1)
                        if group.takes:
                            group.order.leave(topic)
                            group.takes = False
                        if group.joining:
                            group.order.enter(topic)
                case Began(topic, _, floors):
                    group = self._state.group(topic)
                    group.joining, group.takes = False, True
                    self._begin(group, floors)
                    group.order.floors(topic, floors)
                case Stable(topic, source, seq):
                    stream = self._state.group(topic).stream(source)
                    stream.stable = stream.announced = seq
                    stream.forget(seq)
                case _:
                    raise UsageError("record", type(record).__name__, "is not one of VCube-PS's", "restore its own")

    def start(self) -> None:
        if not self._restored:
            return
        for group in list(self._state.groups.values()):
            if group.joining:
                self._membership.join(group, group.view.register(self.node))
            elif group.takes:
                self._membership.resume(group)
                for stream in group.streams.values():
                    self._custody.owes(group, stream)
            self._custody.review(group)
        self._finish()
