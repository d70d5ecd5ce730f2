"""Aggregation inside VCube-PS (thesis 6.2.1): causally related messages cross an edge of their trees in one packet.

The idea is that of causal aggregation (thesis chapter 4, `protocols.aggregation`): a node keeps a message back from a
child as long as it knows that the child could not deliver it anyway, because something the message depends on will have
to come to the child by this very node, and has not been passed on yet. No timer is involved. There messages carry
vector clocks, links are reliable and membership is fixed. Here they carry causal barriers, and all of that changes:

    A message leaves for a child after those of its *immediate* predecessors that this node passes on to that child.

* *What can be seen.* A barrier names immediate predecessors; those of a predecessor are unknown until it comes. Chains
  of which every link crosses the edge are followed to their end, for a predecessor that is kept back itself keeps back
  what depends on it. A chain that leaves the edge in between is lost sight of, which a vector clock is not: the message
  goes on alone, and waits at the child. It costs a packet, never order.
* *Who will bring it?* The tree of the predecessor's source as this node's view has it (`View.passes`). Views may be
  wrong, and messages may be lost or come by another way. So what is kept back is let go whenever the supposition turns
  out to be wrong or may be: when the predecessor comes and is not passed on to that child; when a view or a suspicion
  changes; when this node leaves; and when it has to ask for something that is overdue (`requests`),
  which is when it would not wait for it any longer itself. What a crashed node kept back is like a packet lost.
* *How much can be kept back?* Only what is not deliverable here either: what is missing at the child is missing here.
  So it is among what the gate holds, which is bounded.

Only messages on their first way down a tree are kept back. What is sent again, or asked for, goes at once.
"""

from collections.abc import Iterator
from typing import NamedTuple

from antecede.core import Counters, Message, ProtocolError
from antecede.core.gate import Need
from antecede.protocols.bundling import in_packets
from antecede.protocols.vcube_ps.packets import ONCE, Bundle, Pub
from antecede.protocols.vcube_ps.sizes import Sizes
from antecede.protocols.vcube_ps.state import Group, State

#: The messages of one source on one topic, on the way to one child: (child, topic, source).
_Lane = tuple[int, str, int]


class _OnEdge(NamedTuple):
    """A message on its way to a child, its place in the order of arrival, and how stable its source's are."""

    child: int
    arrival: int
    message: Message
    stable: int

    @property
    def lane(self) -> _Lane:
        return self.child, self.message.topic, self.message.source


class Edges:
    """The edges from one node to those it passes messages on to."""

    def __init__(self, state: State, sizes: Sizes) -> None:
        self._state = state
        self._sizes = sizes
        # By lane: up to which number messages were passed on, or are not waited for any more. Moved only while messages
        # wait: only then it is read.
        self._passed: Counters[_OnEdge] = Counters()
        # By lane: the numbers kept back.
        self._kept: dict[_Lane, set[int]] = {}
        # What leaves when the present input is dealt with.
        self._leaving: list[_OnEdge] = []
        self._arrivals = 0

    @property
    def kept(self) -> int:
        """Messages kept back, one for each child."""
        return self._passed.waiting

    def pass_on(self, group: Group, sender: int, packet: Pub) -> None:
        """Messages came down their source's tree, some for the first time: send them on, or keep them back."""
        hops = group.view.near[self._state.height(sender)]
        for message in packet.messages:
            self._arrivals += 1
            for hop in hops:
                item = _OnEdge(hop, self._arrivals, message, packet.stable)
                needs = list(self._awaited(group, hop, message))
                if needs:
                    self._passed.wait(item, needs)
                    self._kept.setdefault(item.lane, set()).add(message.seq)
                else:
                    self._leave(item)
        self._passed_by(group, packet, hops)

    def came(self, group: Group, packet: Pub) -> None:
        """Messages came that are not passed on this way: they were brought, or a tree was rebuilt."""
        self._passed_by(group, packet, ())

    def let_go(self) -> None:
        """What is missing may come by another way, or not at all: keep nothing back."""
        while self._passed.waiting:
            for lane, seq in self._passed.missing().items():
                for item in self._passed.raise_to(lane, seq):
                    self._leave(item)

    def depart(self) -> None:
        """Send what may leave: to each child one packet, or more where it gets too big."""
        if not self._leaving:
            return
        by_hop: dict[int, list[_OnEdge]] = {}
        for item in self._leaving:
            by_hop.setdefault(item.child, []).append(item)
        self._leaving.clear()
        room = self._sizes.mtu - self._sizes.header
        for hop, items in by_hop.items():
            # In the order of arrival, as in chapter 4: sorted causally, every bundle would split at the next hop.
            items.sort(key=_arrival)
            stable = {item.lane: item.stable for item in items}
            for part in in_packets([item.message for item in items], room, self._sizes.message):
                said = tuple(stable[hop, message.topic, message.source] for message in part)
                alone = len({(message.topic, message.source) for message in part}) == 1
                self._state.out.send(hop, Pub(part, ONCE, said[-1]) if alone else Bundle(part, said))

    def _awaited(self, group: Group, hop: int, message: Message) -> Iterator[Need]:
        """What must leave for `hop` before the message, of what it directly depends on."""
        for before, source, seq in self._predecessors(group, message):
            lane = (hop, before.name, source)
            if seq <= self._passed.level.get(lane, 0):
                continue
            stream = before.streams.get(source)
            if stream is not None and (seq <= stream.got or seq in stream.ahead):  # here: passed on, or kept back
                if seq in self._kept.get(lane, ()):
                    yield lane, seq
            elif before.view.passes(source, hop):
                yield lane, seq

    def _predecessors(self, group: Group, message: Message) -> Iterator[tuple[Group, int, int]]:
        if message.seq > 1:
            yield group, message.source, message.seq - 1
        for source, seq in message.deps:
            yield group, source, seq
        for topic, source, seq in message.across:
            other = self._state.groups.get(topic)
            if other is not None and other.takes:
                yield other, source, seq

    def _leave(self, item: _OnEdge) -> None:
        """`item` leaves, and with it what waited only for that."""
        leaving = [item]
        for one in leaving:  # grows while we walk it
            self._leaving.append(one)
            lane = one.lane
            kept = self._kept.get(lane)
            if kept is not None:
                kept.discard(one.message.seq)
                if not kept:
                    del self._kept[lane]
            if self._passed.waiting:
                leaving += self._passed.raise_to(lane, one.message.seq)

    def _passed_by(self, group: Group, packet: Pub, hops: tuple[int, ...]) -> None:
        """Free messages that wait, on an edge, for one that does not take that edge."""
        if not self._passed.waiting:
            return
        source = packet.messages[0].source
        last = max([message.seq for message in packet.messages])  # on links that reorder it need not be the last
        for hop in group.view.near[self._state.dimension]:
            if hop not in hops:
                for item in self._passed.raise_to((hop, group.name, source), last):
                    self._leave(item)


def apart(bundle: Bundle) -> list[Pub]:
    """The messages of a bundle as they would have come alone."""
    if len(bundle.stable) != len(bundle.messages):
        raise ProtocolError(f"a bundle of {len(bundle.messages)} messages says how stable {len(bundle.stable)} are")
    return [Pub((message,), ONCE, stable) for message, stable in zip(bundle.messages, bundle.stable, strict=True)]


def _arrival(item: _OnEdge) -> int:
    return item.arrival
