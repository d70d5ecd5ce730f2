"""Where packets go and when: VCube-PS's trees and acknowledgements (thesis 5.4), a step at a time.

A message goes down its publisher's tree of members. A leaf acknowledges it; an inner node acknowledges it when all its
children have. A publisher sends its next message when all have acknowledged the last. None of this waits for causal
order, so this module does not know of it; `order` needs to know in which *event* each message came to each node. Events
are numbered as the event engine numbers them: a publication asked for, or a packet that arrives.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.overlay.members import mask_of
from antecede.protocols.vcube_ps import View
from antecede.sim.arrays.queues import ArrayQueues, Ints
from antecede.sim.units import TICKS

#: Instead of an event: the message never came.
NEVER: Final = np.iinfo(np.int32).max

# A packet under way as one number, by the bits at which its fields begin: to, from, is it an acknowledgement, message.
_FROM, _ACK, _MESSAGE = 16, 32, 33
_NODE = (1 << 16) - 1


class Asked(NamedTuple):
    """A member wants to publish, at this time in ticks."""

    time: int
    node: int


class Stamped(NamedTuple):
    """A message leaves its publisher's queue. Messages are numbered in this order, from 0."""

    source: int
    seq: int
    #: In ticks, and when it was asked for.
    time: int
    asked: int
    event: int


class Sent(NamedTuple):
    """Packets sent at one time, in order. Arrivals are in steps; an acknowledgement has no place if it bypasses."""

    now: int
    sender: Ints
    to: Ints
    is_ack: NDArray[np.bool_]
    message: Ints
    place: Ints
    arrival: Ints


class _Trees:
    """The nodes that each node forwards to: its children in order, and how many of them serve its clusters 1 … h."""

    def __init__(self, nodes: int, members: Sequence[int]) -> None:
        self.dimension = (nodes - 1).bit_length()
        mask = mask_of(members)
        self.children = np.zeros((nodes, max(1, self.dimension)), np.int64)
        self.fanout = np.zeros((nodes, self.dimension + 1), np.int64)
        for node in members:
            near = View(node, self.dimension, mask).near
            self.children[node, : len(near[-1])] = near[-1]
            self.fanout[node] = [len(reached) for reached in near]
        #: By the ⊕ of two nodes: how many clusters the receiver of a packet between them serves.
        self.height = np.array([max(0, x.bit_length() - 1) for x in range(1 << self.dimension)])


class _Events:
    """The events of a step, in order: publications asked for, then packets. Of each: its node, and what it sends.

    At first they send nothing. An answer goes to the packet's sender, and the message forwarded is the packet's.
    """

    def __init__(self, asking: Sequence[int], arriving: Ints) -> None:
        asked = np.zeros(len(asking), np.int64)
        self.node = np.concatenate([np.array(asking, np.int64), arriving & _NODE])
        self.to = np.concatenate([asked, arriving >> _FROM & _NODE])
        self.message = np.concatenate([asked, arriving >> _MESSAGE])
        #: How many packets it sends, and whether that is one acknowledgement.
        self.packets = np.zeros(len(self.node), np.int64)
        self.answers = np.zeros(len(self.node), np.bool_)


class Flow:
    """All packets of a run. `hear` is told of every packet sent."""

    def __init__(
        self,
        nodes: int,
        members: Sequence[int],
        asked: Sequence[Asked],
        queues: ArrayQueues,
        *,
        acks_bypass: bool,
        hear: Callable[[Sent], None],
    ) -> None:
        self._nodes = nodes
        self._trees = _Trees(nodes, members)
        self._asked = deque(sorted(asked, key=lambda publication: publication.time))
        self._queues = queues
        self._acks_bypass = acks_bypass
        self._hear = hear
        #: Packets under way, by the step of arrival, in the order they were sent; and each of these steps, as a heap.
        self._due: dict[int, list[Ints]] = {}
        self._steps: list[int] = []
        # By message and node: how many acknowledgements it waits for, and the sender of the message.
        self._waits = np.zeros(len(asked) * nodes, np.uint8)
        self._parent = np.zeros(len(asked) * nodes, np.uint16)
        # By publisher: request times of messages that wait for their turn, and whether a message is under way.
        self._turn: list[deque[int]] = [deque() for _ in range(nodes)]
        self._busy = [False] * nodes
        self._seq = [0] * nodes
        self.messages: list[Stamped] = []
        #: By message and node: in which event it came, and the links it had crossed. At its source it is stamped.
        self.came = np.full((len(asked), nodes), NEVER, np.int32)
        self.hops = np.zeros((len(asked), nodes), np.uint8)
        #: Events so far, and for each time at which something happened, the time and its first event.
        self.events = 0
        self.times: list[int] = []
        self.firsts: list[int] = []

    def run(self) -> None:
        while self._asked or self._steps:
            now = self._steps[0] * TICKS if self._steps else self._asked[0].time
            if self._asked:
                now = min(now, self._asked[0].time)
            if now % TICKS:
                self._between(now)
            else:
                self._step(now // TICKS)

    # -- one moment -----------------------------------------------------------------------------------------------

    def _between(self, now: int) -> None:
        """A publication between two steps."""
        node = self._asked.popleft().node
        message = self._ask(now, node, self._count(now, 1))
        count = self._children(node)
        if message is not None and count:
            arrival, place = self._queues.between(now // TICKS, node, count)
            sender, to = np.full(count, node), self._trees.children[node, :count]
            self._send(Sent(now, sender, to, np.zeros(count, np.bool_), np.full(count, message), place, arrival))

    def _step(self, step: int) -> None:
        """Everything of one step: publications asked for just then, and then what arrives, in the order it was sent."""
        now = step * TICKS
        asking = []
        while self._asked and self._asked[0].time == now:
            asking.append(self._asked.popleft().node)
        packets = np.zeros(0, np.int64)
        if self._steps and self._steps[0] == step:
            packets = np.concatenate(self._due.pop(heappop(self._steps)))
        first = self._count(now, len(asking) + len(packets))

        events = _Events(asking, packets)
        for event, node in enumerate(asking):
            stamped = self._ask(now, node, first + event)
            if stamped is not None:
                events.message[event], events.packets[event] = stamped, self._children(node)
        is_ack = packets >> _ACK & 1 == 1
        self._take(first, events, np.flatnonzero(~is_ack) + len(asking))
        for event in self._acknowledged(events, np.flatnonzero(is_ack) + len(asking)):
            node = int(events.node[event])
            self._busy[node] = False
            if self._turn[node]:
                events.message[event] = self._stamp(now, node, first + event, self._turn[node].popleft())
                events.packets[event] = self._children(node)
        self._send_all(step, events)

    def _take(self, first: int, events: "_Events", pubs: Ints) -> None:
        """Messages arrive: nodes with children forward them, others acknowledge them at once."""
        node, parent, message = events.node[pubs], events.to[pubs], events.message[pubs]
        self.came[message, node] = first + 1 + pubs
        self.hops[message, node] = self.hops[message, parent] + 1
        children = self._trees.fanout[node, self._trees.height[node ^ parent]]
        cell = message * self._nodes + node
        self._waits[cell] = children
        self._parent[cell] = parent
        events.answers[pubs] = children == 0
        events.packets[pubs] = np.maximum(children, 1)

    def _acknowledged(self, events: "_Events", acks: Ints) -> list[int]:
        """Acknowledgements arrive. A node with all of them sends one up. Returns the events of complete publishers."""
        cell = events.message[acks] * self._nodes + events.node[acks]
        np.subtract.at(self._waits, cell, 1)
        complete = self._waits[cell] == 0
        acks, cell = acks[complete], cell[complete]
        # Of several for one message and node in a step, the last one completes it.
        order = np.argsort(cell, kind="stable")
        last = np.ones(len(order), np.bool_)
        last[:-1] = cell[order[1:]] != cell[order[:-1]]
        acks, cell = acks[order[last]], cell[order[last]]
        parent = self._parent[cell].astype(np.int64)
        at_source = parent == events.node[acks]
        below = acks[~at_source]
        events.packets[below], events.answers[below], events.to[below] = 1, True, parent[~at_source]
        return sorted(acks[at_source].tolist())

    def _send_all(self, step: int, events: "_Events") -> None:
        """Put what the events of a step send into the queues."""
        sending = np.flatnonzero(events.packets)
        if not len(sending):
            return
        node, packets, answers = events.node[sending], events.packets[sending], events.answers[sending]
        arrival, place = self._queues.at(step, node, packets, answers if self._acks_bypass else None)
        event = np.repeat(np.arange(len(sending)), packets)
        nth = np.arange(len(event)) - (np.cumsum(packets) - packets)[event]
        is_ack, sender = answers[event], node[event]
        to = np.where(is_ack, events.to[sending][event], self._trees.children[sender, nth])
        self._send(Sent(step * TICKS, sender, to, is_ack, events.message[sending][event], place, arrival))

    # -- publishers and what is under way -------------------------------------------------------------------------

    def _children(self, node: int) -> int:
        return int(self._trees.fanout[node, -1])

    def _ask(self, now: int, node: int, event: int) -> int | None:
        """A publication is asked for: the number of the message, or None if it waits for its turn."""
        if self._busy[node]:
            self._turn[node].append(now)
            return None
        return self._stamp(now, node, event, now)

    def _stamp(self, now: int, node: int, event: int, asked: int) -> int:
        message = len(self.messages)
        self._seq[node] += 1
        self.messages.append(Stamped(node, self._seq[node], now, asked, event + 1))
        self.came[message, node] = event + 1
        children = self._children(node)
        self._busy[node] = children > 0
        self._waits[message * self._nodes + node] = children
        self._parent[message * self._nodes + node] = node
        return message

    def _send(self, sent: Sent) -> None:
        self._hear(sent)
        packets = sent.to | sent.sender << _FROM | sent.is_ack.astype(np.int64) << _ACK | sent.message << _MESSAGE
        order = np.argsort(sent.arrival, kind="stable")
        packets, arrival = packets[order], sent.arrival[order]
        ends = [*(np.flatnonzero(arrival[1:] != arrival[:-1]) + 1).tolist(), len(packets)]
        begin = 0
        for step, end in zip(arrival[np.array(ends) - 1].tolist(), ends, strict=True):
            if step in self._due:
                self._due[step].append(packets[begin:end])
            else:
                self._due[step] = [packets[begin:end]]
                heappush(self._steps, step)
            begin = end

    def _count(self, now: int, events: int) -> int:
        """Count so many events at this time; return how many there were before."""
        self.times.append(now)
        self.firsts.append(self.events + 1)
        first = self.events
        self.events += events
        return first
