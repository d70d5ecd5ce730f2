"""A member that delivers in causal order within Δ, or not at all (Baldoni, Raynal, Prakash & Singhal 1996; thesis 3.3).

A message is worth delivering until Δ after it was sent: a frame of a film, a move in a game. One that arrives later is
discarded. A message waits for its immediate predecessors until each was delivered or is lost: discarded, or Δ has
passed since it was sent. Predecessors were sent before the message itself, so it never waits beyond its own deadline.
What they depend on was sent earlier still, and is late as well by then. So order holds although messages are skipped.

The paper assumes a global clock. A process here reads none: it counts ticks of a timer, and all nodes start together.
The count pauses at a horizon, so that a run comes to rest, and goes on while a message is held. A message from a clock
that is ahead moves the receiver's, so no message is older than what it depends on. Assumed: messages go
directly to every member; membership is fixed and nodes do not crash. Links may lose messages, which are then late.

Times count ticks, so a message and its predecessors may have the same. A Lamport clock tells them apart.

Bytes: 8 for each predecessor's name and 4 for the time when it was sent, as for the message itself; 4 for its clock.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from antecede.core import Frontier, Gate, Message, MessagePacket, Packet, ProtocolError
from antecede.core.clocks import LamportClock
from antecede.core.gate import FULL, WAITING
from antecede.core.limits import DEPENDENCIES_MAX
from antecede.protocols.fixed_members import FixedMembers
from antecede.protocols.options import Founders

#: Bytes as for the other rivals: a packet's header, a group, the name of a message (source, number), a time.
HEADER, GROUP, NAME, TIME = 20, 2, 8, 4

_TICK: Final = "tick"

Ticks: TypeAlias = Annotated[int, Meta(ge=0)]


class Timed(MessagePacket, frozen=True, gc=False, tag="delta_causal.timed"):
    """A message with the ticks at which it, its source's previous message and its predecessors were sent."""

    sent: Ticks
    previous: Ticks
    times: Annotated[tuple[Ticks, ...], Meta(max_length=DEPENDENCIES_MAX)]


class _Group:
    """One topic at one member."""

    def __init__(self, others: list[int]) -> None:
        self.others = others
        self.gate: Gate[Timed] = Gate()
        self.frontier = Frontier()
        self.clock = LamportClock()
        #: By source: when its last message that was delivered here was sent.
        self.times: dict[int, int] = {}
        self.last = 0
        #: When what held messages wait for is lost: (tick, source, sequence number).
        self.deadlines: list[tuple[int, int, int]] = []


class DeltaCausal(FixedMembers):
    """A member that skips what is later than `delta` ticks."""

    def __init__(self, node: int, members: Founders, *, delta: int, tick_us: int, horizon: int) -> None:
        """`delta` and `horizon`, when the clock pauses, are in ticks."""
        self._groups = {topic: _Group(sorted(set(nodes) - {node})) for topic, nodes in members.items() if node in nodes}
        super().__init__(node, self._groups)
        self._delta = delta
        self._tick_us = tick_us
        self._horizon = horizon
        self._now = 0
        self._ticking = False
        self._given_up = 0

    # -- the clock -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._tick_on()

    def wake(self, timer: Hashable) -> None:
        self._ticking = False
        self._now += 1
        for group in self._groups.values():
            self._expire(group)
        self._tick_on()

    def _tick_on(self) -> None:
        if not self._ticking and self._groups and (self._now < self._horizon or self.held):
            self._ticking = True
            self.out.wake_after(self._tick_us, _TICK)

    # -- the application -----------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        self._check_member(topic)
        group = self._groups[topic]
        deps = group.frontier.stamp()
        group.last += 1
        message = Message(topic, self.node, group.last, deps, payload, clock=group.clock.stamp())
        times = tuple([group.times[source] for source, _ in deps])
        packet = Timed(message, self._now, group.times.get(self.node, 0), times)
        group.times[self.node] = self._now
        group.gate.floor(self.node, message.seq)
        self.out.deliver(message)
        for member in group.others:
            self.out.send(member, packet)
        return message

    # -- packets -------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Timed) or packet.message.topic not in self._groups:
            self._refuse(sender, packet)
        message = packet.message
        if len(packet.times) != len(message.deps):
            self._refuse(sender, packet)
        group = self._groups[message.topic]
        self._now = max(self._now, packet.sent)
        if self._is_lost(packet.sent):
            if not group.gate.is_settled(message.source, message.seq):
                self._given_up += group.gate.skip(message.source, message.seq)
            self._expire(group)
            return
        verdict = group.gate.offer(packet, ((message.source, message.seq),), message.deps)
        if verdict is FULL:
            raise ProtocolError(f"node {self.node} holds {self.held} messages and cannot take {message.id}")
        if verdict is WAITING:
            waits = [(packet.previous, message.source, message.seq - 1)]
            waits += [(sent, *dep) for sent, dep in zip(packet.times, message.deps, strict=True)]
            for sent, source, seq in waits:
                heappush(group.deadlines, (sent, source, seq))
        self._expire(group)
        self._tick_on()

    def size(self, packet: Packet) -> int:
        carried = sum([(NAME + TIME) * (1 + len(message.deps)) + len(message.payload) for message in packet.messages])
        return HEADER + GROUP + TIME * len(packet.messages) + carried

    @property
    def held(self) -> int:
        return sum([group.gate.held for group in self._groups.values()])

    @property
    def given_up(self) -> int:
        return self._given_up

    # -- inside --------------------------------------------------------------------------------------------------------

    def _is_lost(self, sent: int) -> bool:
        """Has Δ passed since then?"""
        return self._now > sent + self._delta

    def _expire(self, group: _Group) -> None:
        """Give up what held messages wait for and is later than Δ; then deliver what is ready, by Lamport clock.

        A message that waits for a lost one does not name the predecessors of that one. These may be held here, ready in
        the same tick: all are given up before any message is delivered, and clocks say which comes first.
        """
        while group.deadlines and self._is_lost(group.deadlines[0][0]):
            _, source, seq = heappop(group.deadlines)
            self._given_up += group.gate.skip(source, seq)
        for packet in sorted(group.gate.drain(), key=_by_clock):
            message = packet.message
            group.clock.observe(message.clock)
            group.frontier.observe(message)
            group.times[message.source] = packet.sent
            self.out.deliver(message)


def _by_clock(packet: Timed) -> tuple[int, int]:
    return packet.message.clock, packet.message.source
