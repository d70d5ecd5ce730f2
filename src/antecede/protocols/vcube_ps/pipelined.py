"""VCube-PS for systems with failures: the `pipelined` mode, and the default.

Trees, views and barriers are the thesis's (chapter 5). Its authors left the rest for later (6.2.2.1). Here a publisher
has up to `window` messages in flight instead of one for each round trip; links may lose, repeat and reorder packets;
nodes crash, are suspected rightly or wrongly, and recover with what they kept.

A PUB goes down its tree once, as a rule. The guarantee that all members get it rests on other parts:

    custody       custodians retransmit to members that lack messages
    requests      receivers ask for messages that those they hold depend on
    catching_up   members that lack many messages fetch them in bulk, from the logs of other nodes
    membership    joiners start from what other nodes have delivered
    window        publishers wait for members that keep up

So trees may be rebuilt in the middle of a stream, and views may differ between nodes. That costs duplicates, which stop
at the stream's log, and never a message.

Inputs arrive here, the parts do the work, and deliveries leave here. State that must survive a crash is kept with the
same input (`records`). A node that recovers has its sequence numbers, memberships, floors and deliveries. It does not
know how far other nodes are, and asks.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from antecede.core import Message, Packet, ProtocolError
from antecede.core.native import mypyc_attr
from antecede.core.process import Missing
from antecede.protocols.vcube_ps import outside
from antecede.protocols.vcube_ps.carrying import Carrying
from antecede.protocols.vcube_ps.catching_up import CatchingUp
from antecede.protocols.vcube_ps.closing import Closing
from antecede.protocols.vcube_ps.compaction import compact
from antecede.protocols.vcube_ps.custody import Custody
from antecede.protocols.vcube_ps.edges import Edges, apart
from antecede.protocols.vcube_ps.membership import Membership
from antecede.protocols.vcube_ps.memory import refuses, trim
from antecede.protocols.vcube_ps.order import Order
from antecede.protocols.vcube_ps.packets import (
    AGAIN,
    DIRECT,
    ONCE,
    Ahead,
    Bundle,
    Carried,
    Ended,
    Fetch,
    Fetched,
    Gone,
    Have,
    Levels,
    Probe,
    Pub,
    Pull,
    Settled,
    Sub,
    SubAck,
    Uns,
    Views,
)
from antecede.protocols.vcube_ps.records import Began, Delivered, Forgotten, Held, Published
from antecede.protocols.vcube_ps.requests import Requests
from antecede.protocols.vcube_ps.restoring import begin_after, checkpoint, restore
from antecede.protocols.vcube_ps.runs import Runs, keep_logged
from antecede.protocols.vcube_ps.sizes import Sizes
from antecede.protocols.vcube_ps.state import Group, JoinReplies, State
from antecede.protocols.vcube_ps.streams import Stream
from antecede.protocols.vcube_ps.suspicions import Suspicions
from antecede.protocols.vcube_ps.timing import Timing
from antecede.protocols.vcube_ps.window import Window

_SUB: Final = "sub"
_UNS: Final = "uns"


@mypyc_attr(allow_interpreted_subclasses=True)
class VCubePs(Suspicions):
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
        logged: bool = False,
        epoch: int = 0,
    ) -> None:
        """`founders`: by topic, members from the beginning as bits. `make_order` is asked once for each topic.

        `aggregate`: keep messages back for those they depend on, and send them on together (`edges`). `logged`: the
        driver has a log of what is delivered here and reads it when asked (`Outbox.look_up`). `epoch`: of its number,
        whose former owners were forgotten.
        """
        super().__init__(node)
        self.reads_log = logged
        self._sizes = sizes or Sizes()
        self._restored = False
        self._given_up = 0
        self._state = State(node, nodes, self.out, timing, make_order, window, logged=logged)
        self._membership = Membership(self._state, self._moved, self._heard_all, self.forget)
        self._catching_up = CatchingUp(self._state, self._join_anew)
        compare = self._membership.compare
        self._custody = Custody(self._state, self._catching_up, compare, self._freed)
        self._requests = Requests(self._state, self._catching_up, self._let_go)
        self._closing = Closing(self._state, self._custody, self._catching_up, compare, self._deliver, self._freed)
        self._window = Window(self._state, self._custody.settle, self._freed)
        self._carrying = Carrying(self._state)
        self._runs = Runs(self._state, self._custody)
        self._edges = Edges(self._state, self._sizes) if aggregate else None
        custody, membership = self._custody, self._membership
        self._handlers: dict[type[Packet], Callable[[int, Any], None]] = {
            Pub: self._take,
            Bundle: self._take_apart,
            Have: self._closing.on_have,
            Probe: custody.on_probe,
            Pull: custody.on_pull,
            Settled: custody.on_settled,
            Ahead: custody.on_ahead,
            Fetch: self._catching_up.on_fetch,
            Fetched: self._fetched,
            Gone: self._gone,
            Ended: self._closing.on_ended,
            Carried: self._carrying.on_carried,
            Levels: self._carrying.on_levels,
            Views: membership.on_views,
            Sub: membership.on_sub,
            SubAck: membership.on_sub_ack,
            Uns: membership.on_uns,
        }
        #: Groups whose queue may go on when the present input is dealt with. Never in the middle of it: what is
        #: published then must come after all that it delivers.
        self._to_advance: list[Group] = []
        if epoch:
            self._state.epochs[node] = epoch
        for topic, members in founders.items():
            self._state.group(topic, members)

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message | None:
        group = self._state.group(topic)
        if group.queue or self._window.room(group) <= 0:
            group.queue.append(payload)
            self._window.closed(group)
            if not group.takes:
                self._freed(group)
                self._finish()
            return None
        return self._broadcast(group, payload, late=False)

    def publish_run(self, topic: str, payloads: Sequence[bytes]) -> list[Message]:
        group = self._state.group(topic)
        if not group.takes:
            return []
        room = 0 if group.queue or self._edges is not None else max(0, self._window.room(group))
        if room < len(payloads):
            self._window.closed(group)
        return self._runs.publish(group, payloads[:room]) if room and payloads else []

    def follow(self, topic: str, source: int, seq: int, clock: int) -> None:
        self._state.clock.observe(clock)
        self._state.group(topic).order.follow(topic, source, seq)

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
        handle = self._handlers.get(type(packet))
        if handle is None:
            raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}: not for this mode")
        handle(sender, packet)
        self._finish()

    def wake(self, timer: Hashable) -> None:
        match timer:
            case ("ack",):
                self._custody.acknowledge()
            case ("announce",):
                self._custody.announce()
            case ("carry",):
                self._carrying.tick()
            case ("request",):
                self._requests.tick()
            case ("repair", str(topic)):
                self._custody.repair(self._state.group(topic))
            case ("resend", str(topic), int(source)):
                group = self._state.group(topic)
                self._custody.resend_behind(group, group.stream(source))
            case ("roll", str(topic), int(register)):
                self._membership.roll_call.tick(self._state.group(topic), register)
            case ("fetch", str(topic), int(source)):
                group = self._state.group(topic)
                self._catching_up.tick(group, group.stream(source))
            case ("pace", str(topic)):
                self._window.set_pace(self._state.group(topic))
            case ("hold-up", str(topic), int(seq)):
                self._window.end_hold_up(self._state.group(topic), seq)
        self._finish()

    def found(self, topic: str, source: int, first: int, last: int, messages: Sequence[Message]) -> None:
        self._catching_up.found(topic, source, first, last, messages)
        self._finish()

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet)

    def stamps_now(self, topic: str) -> bool:
        group = self._state.group(topic)
        return not group.queue and self._window.room(group) > 0

    @property
    def given_up(self) -> int:
        return self._given_up

    def missing(self) -> list[Missing]:
        return [*self._catching_up.missing(), *self._requests.missing()]

    # -- messages -----------------------------------------------------------------------------------------------

    def _broadcast(self, group: Group, payload: bytes, *, late: bool) -> Message:
        group.seq += 1
        message = group.order.stamp(group.name, group.seq, payload, self._state.clock.stamp())
        if self._state.logged and group.takes:
            keep_logged(self._state, (message,))
        else:
            self.out.keep(Published(message))
        if late:
            self.out.published(message)
        if group.takes:
            self.out.deliver(message)
        else:
            outside.published(group, message)
        stream = group.stream(self.node)
        stream.take(message)
        trim(self._state, group, stream)
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
            if packet.messages[-1].seq > stream.limit:
                return  # of an epoch that has ended, or that has not begun here (`closing`)
            ready = self._runs.take(group, stream, packet)
            if ready is not None:
                fresh = True
                self._deliver(ready)
            else:
                fresh = self._take_each(group, stream, packet)
            trim(self._state, group, stream)
            self._custody.stable(group, stream, packet.stable)
            if fresh and group.order.held:
                self._requests.watch()
            if packet.spread == DIRECT:
                self._custody.brought(sender, group, stream, fresh=fresh)
        elif group.joining:
            held = len(group.early)
            for message in packet.messages:
                group.early[message.source, message.seq] = message
            self._state.early += len(group.early) - held
            for message in packet.messages:  # the last of them may be what a join waited for
                self._membership.roll_call.came(group, message.source, message.seq)
        else:  # the sender takes this node for a member: it relays, and says that it is none
            self._membership.compare(group, sender)
        self._pass_on(group, sender, packet, fresh=fresh)

    def _take_each(self, group: Group, stream: Stream, packet: Pub) -> bool:
        """Take the messages one by one. False when all were here before."""
        fresh = False
        for message in packet.messages:
            if refuses(self._state, group, stream, message):
                fresh = True  # others may want it, and this node fetches it when there is room
                self._catching_up.begin(group, stream, message.seq)
            elif stream.take(message):
                fresh = True
                self._deliver(group.order.offer(message))
            self._custody.received(group, stream)
        return fresh

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
        if self._state.logged:
            keep_logged(self._state, messages)
        else:
            self.out.kept += map(Delivered, messages)
        self.out.deliveries += messages
        observe = self._state.clock.observe
        for message in messages:  # only now: what this frees to be published comes after all of them
            observe(message.clock)
            group = self._state.group(message.topic)
            if message.across and group.order.drops:
                self._carrying.watch()
            self._custody.received(group, group.stream(message.source))

    def _fetched(self, sender: int, packet: Fetched) -> None:
        joining = self._state.group(packet.topic).joining
        (self._membership.roll_call if joining else self._catching_up).on_fetched(sender, packet)

    def _gone(self, sender: int, packet: Gone) -> None:
        """A peer no longer keeps what this node lacks."""
        group = self._state.group(packet.topic)
        if group.joining:
            self._membership.roll_call.gone(group, packet.source, packet.upto)
        elif group.takes and group.order.reached(packet.topic, packet.source) < packet.upto:
            self._join_anew(group)
        else:  # the sender takes us for slower than we are
            self._custody.owes(group, group.stream(packet.source))

    def _join_anew(self, group: Group) -> None:
        """A message is gone for good: leave, visibly, and join again from where the others are."""
        self._given_up += 1
        self._leave(group)
        self._membership.join(group, group.view.register(self.node) + 2)

    # -- comings and goings -------------------------------------------------------------------------------------

    def _freed(self, group: Group) -> None:
        """The queue may have waited for what has just happened."""
        if group.queue:
            self._to_advance.append(group)

    def _finish(self) -> None:
        """The present input is dealt with."""
        self._catching_up.go_on()
        if self._edges is not None:
            self._edges.depart()
        while self._to_advance:
            self._advance(self._to_advance.pop())
        if self._edges is not None:
            self._edges.depart()  # a node that leaves lets go of what it kept back
        self._state.finish()

    def _advance(self, group: Group) -> None:
        """Take the next things from the queue, as far as what is under way allows."""
        queue = group.queue
        while queue and not group.joining:
            if isinstance(queue[0], bytes):
                if self._window.room(group) <= 0:
                    self._window.closed(group)
                    if (own := group.streams.get(self.node)) is not None and own.ending:
                        self._custody.look_later(group, own)
                    if outside.must_ask(self._state, group):
                        self._membership.resume(group)
                    return
                payload = queue.popleft()
                assert isinstance(payload, bytes)
                self._broadcast(group, payload, late=True)
            elif queue[0] == _SUB:
                queue.popleft()
                self._membership.join(group, group.view.register(self.node) + 1)
            else:
                if group.roll is not None or not self._window.handed_over(group):
                    return
                queue.popleft()
                self._leave(group)
                self._membership.leave(group)

    def _let_go(self) -> None:
        if self._edges is not None:
            self._edges.let_go()

    def _leave(self, group: Group) -> None:
        self._let_go()
        group.takes = False
        group.inside = group.seq
        self.out.left(group.name)
        self._deliver(group.order.leave(group.name))
        for stream in group.streams.values():
            stream.rewind(group.order.reached(group.name, stream.source))

    def _heard_all(self, group: Group, roll: JoinReplies) -> None:
        """Every node that is up has answered."""
        if group.joining:
            floors = tuple(roll.counts.items())
            self.out.keep(Began(group.name, roll.register, floors))
            group.joining = False
            group.takes = True
            self.out.joined(group.name)
            begin_after(self._state, group, floors)
            self._closing.joined_behind(group, roll.seams)
            outside.entered(group)
            self._deliver(group.order.floors(group.name, floors))
            for source, stable in roll.stable.items():
                self._custody.stable(group, group.stream(source), stable)
            early, group.early = group.early, {}
            self._state.early -= len(early)
            for message in early.values():
                stream = group.stream(message.source)
                if message.seq > stream.limit:
                    continue
                if stream.take(message):
                    self._deliver(group.order.offer(message))
                elif stream.low <= message.seq <= roll.counts.get(message.source, 0):
                    stream.hold(message)
                    self.out.keep(Held(message))
            for stream in group.streams.values():
                self._custody.owes(group, stream)
            if group.order.held:
                self._requests.watch()
        group.asked = True
        self._custody.review(group)
        if group.takes:
            self._take_over(group, self._state.down)
        self._freed(group)

    # -- after a crash ------------------------------------------------------------------------------------------

    def restore(self, records: Iterable[object]) -> None:
        self._restored = True
        restore(self._state, records)

    def compact(self, records: Sequence[object]) -> list[object]:
        if not self._state.logged:
            return compact(self._state, records)
        self.restore(records)
        return checkpoint(self._state)

    def start(self) -> None:
        if not self._restored:
            if (epoch := self._state.epochs.get(self.node)) is not None:
                self.out.keep(Forgotten(self.node, epoch))
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
