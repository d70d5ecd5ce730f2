"""VCube-PS as thesis chapter 5 describes it, with its errors corrected: the `faithful` mode.

As printed: trees of current members for each publisher; SUB, UNS and PUB broadcasts that are acknowledged from the
leaves up; views gathered on the acknowledgements of SUB (Figure 5.5); one queue for each topic, whose next entry is
taken when all nodes have acknowledged the last (5.4.2); causal barriers. The model is the thesis's, too (5.2): no node
crashes, and links are reliable but may reorder.

Corrections (thesis Algorithms 3 and 4; docs/errors_in_papers.md): *printed rule → what goes wrong → our rule*.

* Line 6: SUBSCRIBE resets the view → the joiner relays with a partial view, and members lose messages → views are never
  reset, only merged.
* Line 68: nodes that are no members do not update their view, but relay → members lose messages → every node keeps
  views of every topic.
* Line 12: a node leaves at the call, while its PUB and UNS are queued → they are lost → it leaves when its UNS leaves
  the queue.
* Lines 14, 36–37: SUBSCRIBE again starts a second task → the end of UNS wipes the new session → one task a topic; a new
  SUB waits for the acknowledgement of the UNS before it.
* Line 97: wait for every source never heard from → a joiner blocks for ever. Text of 5.4.2: do not wait → causal
  violations → a joiner starts from a *cut*. It sends SUB to all nodes. When all know it, it sends ACT to all nodes.
  Each answers with the number of its own last message, and with how far it has delivered each source since it heard of
  the joiner; messages that predate a node's own join count as delivered. The highest answer for each source is the
  joiner's floor: it waits for ⟨s, c⟩ exactly when c is above the floor of s, and drops the others.

Why that is right, and why joins need not wait for each other (one after the other, 4096 nodes with hops of 100 ms
would manage a dozen a minute; here any number runs at once, each for two waves):

* *No message above the floor is missed.* Its publisher had answered ACT, so every node knew the joiner by then. A node
  that knows a member forwards to that member's cluster: responsibility for the joiner is handed down from node to node,
  whatever else they disagree about.
* *The floors are a consistent cut.* No message below them depends on one above, so dropping those below hides nothing,
  whichever other nodes are joining. Let y come before x, and let x be below a floor by the answer of node p. Either p
  published x: then p had delivered y, or had joined after it. Or p delivered x: then again p had y first, or had joined
  after it. What p delivered before it heard of the joiner was published before all nodes knew the joiner, hence before
  its publisher answered. What p delivered or excluded later, p says in its answer. So y is below, too.
* *No node waits for ever.* Messages above the floors arrive, and those below are not waited for.

`window` is how many PUBs may be unacknowledged. 1 is the paper's stop-and-wait. More is pipelining, for reliable links:
explicit floors make the wait unnecessary. SUB and UNS wait for all PUBs before them in any case.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from antecede.core import Message, Packet, Process, ProtocolError, UsageError
from antecede.protocols.vcube_ps.packets import (
    Ack,
    Act,
    ActAck,
    Pub,
    Sub,
    SubAck,
    Uns,
    UnsAck,
    Wave,
    WaveAck,
)
from antecede.protocols.vcube_ps.sizes import Sizes
from antecede.protocols.vcube_ps.source_order import FaithfulOrder
from antecede.protocols.vcube_ps.view import View

#: In the place of a payload in a topic's queue.
_SUB: Final = "sub"
_UNS: Final = "uns"
#: In the place of a parent, where a broadcast began.
_NOBODY: Final = -1


@dataclass(slots=True, eq=False)
class _Gathering:
    """A wave that this node passed on: the node to answer, the answers still to come, and what came up so far."""

    parent: int
    waits_for: int
    found: dict[int, int]


@dataclass(slots=True, eq=False)
class _Group:
    """What a node knows of one topic."""

    name: str
    view: View
    order: FaithfulOrder
    #: What the application asked for last; what holds; and whether this node is on its way in.
    wants: bool
    takes: bool
    joining: bool = False
    seq: int = 0
    #: What is still to be broadcast: payloads, and comings and goings.
    queue: deque[bytes | str] = field(default_factory=deque)
    #: A SUB, ACT or UNS of this node is under way.
    busy: bool = False
    unacknowledged: int = 0
    #: By message (seq << 16 | source): the node to acknowledge to, and for how many it waits, as one
    #: number (`_waiting`). There is an entry for every message and every node that passed it on.
    acks: dict[int, int] = field(default_factory=dict)
    waves: dict[tuple[type[Packet], int, int], _Gathering] = field(default_factory=dict)
    #: Messages that came while joining: the floors decide.
    early: list[Message] = field(default_factory=list)
    #: Nodes between their SUB and their ACT, as known here; and what was delivered while there were any.
    joiners: set[int] = field(default_factory=set)
    recent: dict[int, int] = field(default_factory=dict)


class FaithfulVCubePs(Process):
    """A node of VCube-PS."""

    reports_membership: ClassVar[bool] = True

    def __init__(
        self,
        node: int,
        nodes: int,
        make_order: Callable[[], FaithfulOrder],
        founders: Mapping[str, int],
        *,
        window: int = 1,
        sizes: Sizes | None = None,
    ) -> None:
        """`founders`: by topic, members from the beginning as bits. `make_order` is asked once for each topic."""
        super().__init__(node)
        self.shares_outbox = True
        self._dimension = (nodes - 1).bit_length()
        self._everyone = View(node, self._dimension, (1 << nodes) - 1).near
        self._make_order = make_order
        self._window = window
        self._sizes = sizes or Sizes()
        self._groups: dict[str, _Group] = {}
        #: Is any node between its SUB and its ACT, on any topic?
        self._expects_joiners = False
        for topic, members in founders.items():
            self._open(topic, members)

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message | None:
        group = self._group(topic)
        if not group.wants:
            raise UsageError("topic", topic, f"node {self.node} does not subscribe to it", "subscribe first")
        if group.queue or group.busy or group.unacknowledged >= self._window:
            group.queue.append(payload)
            return None
        return self._broadcast(group, payload, late=False)

    def subscribe(self, topic: str) -> None:
        """Ask to take `topic`. Nothing happens where this was asked already."""
        group = self._group(topic)
        if not group.wants:
            group.wants = True
            group.queue.append(_SUB)
            self._advance(group)

    def unsubscribe(self, topic: str) -> None:
        """Ask to leave, after everything asked before. Nothing happens where this was asked already."""
        group = self._group(topic)
        if group.wants:
            group.wants = False
            group.queue.append(_UNS)
            self._advance(group)

    # -- packets ------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        kind = type(packet)  # asked for every packet of a run, and nearly all are of these two
        if kind is Pub:
            self._take(sender, packet)  # type: ignore[arg-type]
        elif kind is Ack:
            self._acknowledged(sender, packet)  # type: ignore[arg-type]
        elif isinstance(packet, Sub | Act | Uns):
            self._pass_wave(sender, packet)
        elif isinstance(packet, SubAck | ActAck | UnsAck):
            self._gather(packet)
        else:
            raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}: not for this mode")

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet)

    @property
    def held(self) -> int:
        orders = {id(group.order): group.order for group in self._groups.values()}
        return sum(order.held for order in orders.values()) + sum(len(group.early) for group in self._groups.values())

    def wants(self, topic: str) -> bool:
        return self._group(topic).wants

    def takes(self, topic: str) -> bool:
        return self._group(topic).takes

    def unfinished(self) -> list[str]:
        found = []
        for group in self._groups.values():
            if group.queue or group.busy:
                found.append(f"has {len(group.queue)} things queued on {group.name}, busy: {group.busy}")
            if group.acks or group.waves:
                found.append(f"waits for {len(group.acks) + len(group.waves)} acknowledgements on {group.name}")
        return found

    # -- messages -----------------------------------------------------------------------------------------------

    def _broadcast(self, group: _Group, payload: bytes, *, late: bool) -> Message:
        group.seq += 1
        message = group.order.stamp(group.name, group.seq, payload)
        if late:
            self.out.published(message)
        self.out.deliver(message)
        children = group.view.near[self._dimension]
        if children:
            group.acks[group.seq << 16 | self.node] = _waiting(_NOBODY, len(children))
            group.unacknowledged += 1
            packet = Pub((message,))
            for child in children:
                self.out.send(child, packet)
        return message

    def _take(self, sender: int, packet: Pub) -> None:
        message = packet.messages[0]
        group = self._groups.get(message.topic) or self._open(message.topic)
        children = group.view.near[(sender ^ self.node).bit_length() - 1]
        sends = self.out.sends  # written to directly: this happens for every packet of a run
        if children:
            group.acks[message.seq << 16 | message.source] = sender + 1 << 8 | len(children)
            for child in children:
                sends.append((child, packet))
        else:
            left = 0 if group.takes else self._relays(group)
            plain: Any = message  # compiled code keeps its numbers as they are, and makes no new ones
            sends.append((sender, Ack(message.topic, plain.source, plain.seq, left)))
        if group.takes:
            ready = group.order.offer(message)
            if ready:
                self._deliver(ready)
        elif group.joining:
            group.early.append(message)

    def _acknowledged(self, sender: int, packet: Ack) -> None:
        group = self._groups.get(packet.topic) or self._open(packet.topic)
        if packet.left:
            group.view.learn(sender, packet.left)
        key = packet.seq << 16 | packet.source
        waiting = group.acks.get(key, 0) - 1
        if waiting < 0:
            raise ProtocolError(f"node {self.node} got an acknowledgement from {sender} it does not wait for: {packet}")
        if waiting & 0xFF:
            group.acks[key] = waiting
            return
        del group.acks[key]
        parent = (waiting >> 8) - 1
        if parent != _NOBODY:
            left = self._relays(group)
            if left != packet.left:
                packet = Ack(packet.topic, packet.source, packet.seq, left)
            self.out.send(parent, packet)
        else:
            group.unacknowledged -= 1
            self._advance(group)

    def _relays(self, group: _Group) -> int:
        """The register of a node that is asked to relay though it does not take the topic: its parent should know."""
        return 0 if group.takes or group.joining else group.view.register(self.node)

    def _deliver(self, messages: Sequence[Message]) -> None:
        self.out.deliveries += messages
        if self._expects_joiners:
            for message in messages:
                group = self._groups[message.topic]
                if group.joiners:
                    group.recent[message.source] = message.seq

    # -- comings and goings -------------------------------------------------------------------------------------

    def _advance(self, group: _Group) -> None:
        """Take the next things from the queue, as far as what is under way allows."""
        queue = group.queue
        while queue and not group.busy:
            # Comings and goings are barriers: everything before them has arrived everywhere.
            if group.unacknowledged >= (self._window if isinstance(queue[0], bytes) else 1):
                return
            entry = queue.popleft()
            if isinstance(entry, bytes):
                self._broadcast(group, entry, late=True)
            elif entry == _SUB:
                self._join(group)
            else:
                self._leave(group)

    def _join(self, group: _Group) -> None:
        group.busy = group.joining = True
        register = group.view.register(self.node) + 1
        group.view.learn(self.node, register)
        group.order.enter(group.name)
        self._spread(group, _NOBODY, Sub(group.name, self.node, register), self._everyone[self._dimension], {})

    def _leave(self, group: _Group) -> None:
        group.busy = True
        group.takes = False
        register = group.view.register(self.node) + 1
        group.view.learn(self.node, register)
        self.out.left(group.name)
        self._deliver(group.order.leave(group.name))
        self._spread(group, _NOBODY, Uns(group.name, self.node, register), group.view.near[self._dimension], {})

    def _begun(self, group: _Group, floors: Mapping[int, int]) -> None:
        """The join is complete: from here on this node is owed what is published."""
        group.busy = group.joining = False
        group.takes = True
        if group.joiners:  # for them, what is before my time is as good as delivered here
            _raise_to(group.recent, floors.items())
        self.out.joined(group.name)
        self._deliver(group.order.floors(group.name, floors.items()))
        early, group.early = group.early, []
        for message in early:
            self._deliver(group.order.offer(message))
        self._advance(group)

    # -- waves --------------------------------------------------------------------------------------------------

    def _pass_wave(self, sender: int, packet: Wave) -> None:
        group = self._groups.get(packet.topic) or self._open(packet.topic)
        height = (sender ^ self.node).bit_length() - 1
        found: dict[int, int] = {}
        if isinstance(packet, Sub):
            group.view.learn(packet.node, packet.register)
            group.joiners.add(packet.node)
            mine = group.view.register(self.node)
            if mine:
                found[self.node] = mine
        elif isinstance(packet, Act):
            group.joiners.discard(packet.node)
            found.update(group.recent)
            if not group.joiners:
                group.recent.clear()
            if group.seq:
                found[self.node] = group.seq
        else:
            group.view.learn(packet.node, packet.register)
        self._expects_joiners = any(group.joiners for group in self._groups.values())
        hops = group.view.near[height] if isinstance(packet, Uns) else self._everyone[height]
        self._spread(group, sender, packet, hops, found)

    def _spread(self, group: _Group, parent: int, packet: Wave, hops: Sequence[int], found: dict[int, int]) -> None:
        if not hops:
            self._answer(group, parent, packet, found)
            return
        group.waves[type(packet), packet.node, packet.register] = _Gathering(parent, len(hops), found)
        for hop in hops:
            self.out.send(hop, packet)

    def _gather(self, packet: WaveAck) -> None:
        group = self._groups.get(packet.topic) or self._open(packet.topic)
        wave: Wave
        news: Sequence[tuple[int, int]] = ()
        if isinstance(packet, SubAck):
            wave, news = Sub(packet.topic, packet.node, packet.register), packet.view
        elif isinstance(packet, ActAck):
            wave, news = Act(packet.topic, packet.node, packet.register), packet.counts
        else:
            wave = Uns(packet.topic, packet.node, packet.register)
        key = (type(wave), packet.node, packet.register)
        gathering = group.waves[key]
        _raise_to(gathering.found, news)
        gathering.waits_for -= 1
        if not gathering.waits_for:
            del group.waves[key]
            self._answer(group, gathering.parent, wave, gathering.found)

    def _answer(self, group: _Group, parent: int, wave: Wave, found: dict[int, int]) -> None:
        """All below have answered: tell the parent, or go on where the wave began."""
        topic, node, register = wave.topic, wave.node, wave.register
        match wave:
            case Sub() if parent == _NOBODY:
                for member, known in found.items():
                    group.view.learn(member, known)
                self._spread(group, _NOBODY, Act(topic, node, register), self._everyone[self._dimension], {})
            case Act() if parent == _NOBODY:
                self._begun(group, found)
            case Uns() if parent == _NOBODY:
                group.busy = False
                self._advance(group)
            case Sub():
                self.out.send(parent, SubAck(topic, node, register, tuple(found.items())))
            case Act():
                self.out.send(parent, ActAck(topic, node, register, tuple(found.items())))
            case Uns():
                self.out.send(parent, UnsAck(topic, node, register))

    # -- the rest -----------------------------------------------------------------------------------------------

    def _group(self, topic: str) -> _Group:
        return self._groups.get(topic) or self._open(topic)

    def _open(self, topic: str, members: int = 0) -> _Group:
        """Begin to know of a topic."""
        view = View(self.node, self._dimension, members)
        member = self.node in view
        group = self._groups[topic] = _Group(topic, view, self._make_order(), member, member)
        if member:
            group.order.enter(topic)
        return group


def _waiting(parent: int, count: int) -> int:
    """A parent and a count of at most 16 children in one number."""
    return parent + 1 << 8 | count


def _raise_to(counts: dict[int, int], news: Iterable[tuple[int, int]]) -> None:
    """Keep the higher of what is known and what is said, for each node."""
    for node, count in news:
        if counts.get(node, 0) < count:
            counts[node] = count
