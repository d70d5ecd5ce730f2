"""The event engine: the driver that runs processes in simulated time.

The engine decides nothing. It hands each process its inputs, carries out its outbox in the order the contract demands,
and keeps the pending events. Events at the same time happen in the order in which they were made, so a run is a
function of its inputs alone. How long a packet takes is the network's decision (`sim.network`).

Time is divided into short slots. Events are kept in lists, one for each slot, in the order they were made; only the
numbers of the slots are in a heap. A slot is sorted when its turn comes: sorting a short list takes less than keeping
all events sorted. An event that is made for the slot whose turn it is goes into a small heap of its own.

In large runs the state of an event's node has probably left the processor's caches. So events are small, and processes
that allow it share one outbox (`Process.shares_outbox`), which stays in the caches.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias

from antecede.core import LimitError, Message, Outbox, Packet, Process
from antecede.core.native import mypyc_attr
from antecede.core.process import Acknowledgement, Change
from antecede.sim.log import DeliveryLog
from antecede.sim.network import Network

#: Instead of a node's number: the event is an action, not a packet.
_ACTION: Final = -1

#: A slot takes 2 to this power of ticks, about 0.07 units of time.
_SLOT_BITS: Final = 16

#: Sorts events by time and leaves those of one time in their order.
_time: Final = attrgetter("time")


class _Event:
    """A packet that arrives, or an action. Compiled, it is one piece of memory; a tuple would refer to five numbers."""

    __slots__ = ("node", "number", "packet", "sender", "size", "time")

    def __init__(self, time: int, node: int, sender: int, packet: Any, number: int, size: int) -> None:
        self.time = time
        #: The receiver, or `_ACTION`.
        self.node = node
        self.sender = sender
        #: The packet, or an action.
        self.packet = packet
        self.number = number
        self.size = size


#: Comes after the last change, so that all deliveries precede some change.
_END = Change(sys.maxsize, "publish", "")


_NOTICE = "a node may retransmit to a crashed one for ever: let crashes be noticed (noticed=…) or come back (back=…)"


class Observer(Protocol):
    """Is told of everything as it happens. Observers must not touch the processes."""

    def published(self, now: int, node: int, message: Message) -> None: ...
    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None: ...
    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None: ...
    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None: ...
    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None:
        """The network lost the packet on its way to `node`, or `node` was down when it arrived."""
        ...

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        """`what` is subscribe, unsubscribe, crash or recover."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class SilentObserver:
    """An observer that ignores everything. A subclass overrides what it watches."""

    def published(self, now: int, node: int, message: Message) -> None: ...
    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None: ...
    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None: ...
    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None: ...
    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None: ...
    def changed(self, now: int, node: int, what: str, topic: str) -> None: ...


#: (now, node, to, number, packet, size)
SendHearer: TypeAlias = Callable[[int, int, int, int, Packet, int], None]


@mypyc_attr(allow_interpreted_subclasses=True)
class Simulation:
    """Processes, the network between them, and a clock that jumps from event to event."""

    def __init__(
        self,
        make_process: Callable[[int], Process],
        nodes: Iterable[int],
        network: Network,
        observers: Sequence[Observer] = (),
        *,
        log_keeps: int | None = None,
        compacts: bool = False,
    ) -> None:
        """`log_keeps`: how many messages of each source retention leaves in a node's log; None: all. `compacts`: what a
        node kept is compacted before it recovers."""
        self.now = 0
        #: Events handled so far.
        self.steps = 0
        #: `run` raises `LimitError` after so many events without a delivery or a change of membership: such a run may
        #: never come to rest.
        self.idle_max = sys.maxsize
        self._active_at = 0
        #: Called with (node, message) at every delivery: a workload reacts here.
        self.on_delivery: Callable[[int, Message], None] | None = None
        #: Called with (now, node, topic) when a publication waits for its turn.
        self.on_wait: Callable[[int, int, str], None] | None = None
        #: Called with (now, node, topic, takes) when an application asks for a topic, or to leave it.
        self.on_ask: Callable[[int, int, str, bool], None] | None = None
        #: Called with (node, acknowledgement) when a peer has said that it keeps what `node` published.
        self.on_acknowledged: Callable[[int, Acknowledgement], None] | None = None
        #: The network without its faults, for workloads that adapt to how busy it is.
        self.wire = network
        self._make_process = make_process
        self._arrivals = network.arrivals
        #: Does an observer or the network need the size of packets?
        self._measure = bool(observers) or network.weighs
        self._observers = tuple(observers)
        # Bound once: they are called for every packet and every delivery.
        self._tell_sent: list[SendHearer] = [observer.sent for observer in observers]
        self._tell_received = [observer.received for observer in observers]
        self._tell_delivered = [observer.delivered for observer in observers]
        #: Pending events by slot, in the order they were made, and each of these slots once, as a heap.
        self._due: dict[int, list[_Event]] = {}
        self._slots: list[int] = []
        #: The slot whose turn it is, and events made for it since: (time, order, event), as a heap.
        self._slot = -1
        self._soon: list[tuple[int, int, _Event]] = []
        self._made = 0
        #: Packets sent so far.
        self.packets = 0
        self._incarnation: dict[int, int] = {}
        self._kept: dict[int, list[object]] = {}
        #: What processes that look messages up have delivered (`Process.reads_log`). It survives their crashes.
        self.logs: dict[int, DeliveryLog] = {}
        self._log_keeps = log_keeps
        self._compacts = compacts
        self.processes: dict[int, Process] = {}
        self._outbox = Outbox()
        for node in nodes:
            self._bring_up(node)

    @property
    def pending(self) -> int:
        """Pending events. Ask between two calls of `run`."""
        return sum(len(events) for events in self._due.values())

    @property
    def down(self) -> list[int]:
        """The nodes that are down, in order."""
        return sorted(self._incarnation.keys() - self.processes.keys())

    # -- inputs -------------------------------------------------------------------------------------------------

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Run `action` at `time`, not before now."""
        self._add(max(time, self.now), _ACTION, _ACTION, action, -1, 0)

    def publish(self, node: int, topic: str, payload: bytes) -> Message | None:
        """Publish at `node`, now. Returns None if the node is down or the message waits for its turn."""
        process = self.processes.get(node)
        if process is None:
            return None
        message = process.publish(topic, payload)
        if message is not None:
            for observer in self._observers:
                observer.published(self.now, node, message)
        elif self.on_wait is not None:
            self.on_wait(self.now, node, topic)
        self._carry_out(node, process)
        return message

    def subscribe(self, node: int, topic: str) -> None:
        self._change(node, "subscribe", topic)

    def unsubscribe(self, node: int, topic: str) -> None:
        self._change(node, "unsubscribe", topic)

    def suspect(self, node: int, peer: int) -> None:
        """The failure detector of `node` suspects `peer`, rightly or not."""
        self._tell(node, lambda process: process.peer_down(peer))

    def trust(self, node: int, peer: int) -> None:
        self._tell(node, lambda process: process.peer_up(peer))

    def crash(self, node: int) -> None:
        """Stop the node. It loses its memory and packets that arrive while it is down, but not its kept records."""
        if self.processes.pop(node, None) is not None:
            self._note(node, "crash", "")

    def recover(self, node: int) -> None:
        """Start a crashed node again from its kept records."""
        if node in self.processes:
            return
        self._note(node, "recover", "")
        self._bring_up(node)

    def forget(self, node: int, peer: int, epoch: int) -> None:
        """Tell `node` that `peer` is gone for good."""
        self._tell(node, lambda process: process.forget(peer, epoch))

    def vacate(self, node: int, peer: int) -> None:
        """Tell `node` that no node has the number `peer`: its owner has left."""
        self._tell(node, lambda process: process.vacate(peer))

    def replace(self, node: int, kept: list[object]) -> None:
        """Give the number of a node that is down to a new one, which has kept nothing but these records."""
        self._kept[node] = kept
        self.logs.pop(node, None)
        self._bring_up(node)

    def hear_sends(self, hear: SendHearer) -> None:
        """Call `hear` for every packet sent from now on: a workload learns what its load costs."""
        self._tell_sent.append(hear)

    # -- the loop -----------------------------------------------------------------------------------------------

    def run(self, until: int | None = None) -> None:
        """Handle events until none is left, or up to and including time `until`."""
        processes, tell_received, soon = self.processes, self._tell_received, self._soon
        while self._slots:
            self._slot = heappop(self._slots)
            events = self._due.pop(self._slot)
            events.sort(key=_time)
            taken, count = 0, len(events)
            while taken < count or soon:
                # Of events at the same time, those in the list were made first.
                if taken < count and not (soon and soon[0][0] < events[taken].time):
                    event = events[taken]
                    taken += 1
                else:
                    event = heappop(soon)[2]
                now = event.time
                if until is not None and now > until:
                    self._put_back([event, *events[taken:]])
                    self.now = until
                    return
                if self.steps - self._active_at > self.idle_max:
                    raise LimitError(
                        "the number of events without a delivery", self.steps - self._active_at, self.idle_max, _NOTICE
                    )
                self.now = now
                self.steps += 1
                node, packet = event.node, event.packet
                if node == _ACTION:
                    packet()
                    continue
                process = processes.get(node)
                if process is None:
                    for observer in self._observers:
                        observer.dropped(now, node, event.sender, event.number, packet)
                    continue
                for received in tell_received:
                    received(now, node, event.sender, event.number, packet, event.size)
                process.receive(event.sender, packet)
                self._carry_out(node, process, packet, event.size)
        self._slot = -1

    def _add(self, time: int, node: int, sender: int, packet: Any, number: int, size: int) -> None:
        """Make an event. `packet` is an action where `node` is `_ACTION`."""
        event = _Event(time, node, sender, packet, number, size)
        slot = time >> _SLOT_BITS
        if slot == self._slot:
            self._made += 1
            heappush(self._soon, (time, self._made, event))
            return
        events = self._due.get(slot)
        if events is None:
            self._due[slot] = [event]
            heappush(self._slots, slot)
        else:
            events.append(event)

    def _put_back(self, events: list[_Event]) -> None:
        """Leave the rest of a slot to the next call of `run`."""
        while self._soon:
            events.append(heappop(self._soon)[2])
        self._due[self._slot] = events  # sorted when its turn comes again
        heappush(self._slots, self._slot)
        self._slot = -1

    def _carry_out(self, node: int, process: Process, weighed: Packet | None = None, size: int = 0) -> None:
        """Carry out an outbox: keep, send, deliver, arm timers, in this order (see `core.process`).

        `size` is the size of the packet `weighed`, which the process received and often forwards unchanged.
        """
        out = process.out
        if out.kept or process.reads_log:
            self._keep(node, process)
        if out.sends:
            self._send(node, process, weighed, size)
        if out.changes or out.out_of_order:
            self._active_at = self.steps
            self._report(node, out)
        elif out.deliveries:
            self._active_at = self.steps
            if self._tell_delivered:
                now = self.now
                for message in out.deliveries:
                    for delivered in self._tell_delivered:
                        delivered(now, node, message)
            if self.on_delivery is None:
                out.deliveries.clear()  # not a new list: others may hold this one
            else:
                self._react(node, out)
        if out.timers:
            for delay, timer in out.timers:
                self._arm(node, delay, timer)
            out.timers.clear()
        if out.acknowledgements:
            self._acknowledge(node, out)

    def _acknowledge(self, node: int, out: Outbox) -> None:
        if self.on_acknowledged is not None:
            for told in out.acknowledgements:
                self.on_acknowledged(node, told)
        out.acknowledgements.clear()

    def _keep(self, node: int, process: Process) -> None:
        """Keep records. A log gets what was delivered, and answers what is looked up, a moment later."""
        out = process.out
        if out.kept:
            self._kept.setdefault(node, []).extend(out.kept)
            out.kept.clear()
        if not process.reads_log:
            return
        log = self.logs.get(node)
        if log is None:
            log = self.logs[node] = DeliveryLog(self._log_keeps)
        log.add(out.deliveries)
        for look_up in out.look_ups:
            self._later(node, 1, partial(log.answer, look_up))
        out.look_ups.clear()

    def _send(self, node: int, process: Process, weighed: Packet | None, size: int) -> None:
        now, tell_sent = self.now, self._tell_sent
        arrivals, measure = self._arrivals, self._measure
        sends = process.out.sends
        number = 0  # without observers packets need no number: millions under way take less memory
        for to, packet in sends:
            if measure and packet is not weighed:  # mostly one packet to several children
                size, weighed = process.size(packet), packet
            if tell_sent:
                self.packets = number = self.packets + 1
                for sent in tell_sent:
                    sent(now, node, to, number, packet, size)
            times = arrivals(now, node, to, size)
            if not times:
                for observer in self._observers:
                    observer.dropped(now, to, node, number, packet)
            for arrival in times:
                self._add(arrival, to, node, packet, number, size)
        if not tell_sent:
            self.packets += len(sends)
        sends.clear()

    def _react(self, node: int, out: Outbox) -> None:
        """Tell the workload. It may publish at once, so the outbox must be empty first."""
        assert self.on_delivery is not None
        deliveries = out.deliveries.copy()
        out.deliveries.clear()
        for message in deliveries:
            self.on_delivery(node, message)

    def _report(self, node: int, out: Outbox) -> None:
        """Report deliveries and changes in the order in which the process wrote them."""
        deliveries, changes, tagged = out.deliveries.copy(), out.changes.copy(), set(out.out_of_order)
        out.deliveries.clear()
        out.changes.clear()
        out.out_of_order.clear()
        done = 0
        for after, what, topic, message in (*changes, _END):
            for index, delivery in enumerate(deliveries[done:after], done):
                for observer in self._observers:
                    observer.delivered(self.now, node, delivery, out_of_order=index in tagged)
            done = after
            if message is not None:
                for observer in self._observers:
                    observer.published(self.now, node, message)
            elif topic:
                self._note(node, what, topic)
        if self.on_delivery is not None:
            for delivery in deliveries:
                self.on_delivery(node, delivery)

    # -- the rest -----------------------------------------------------------------------------------------------

    def _bring_up(self, node: int) -> None:
        self._incarnation[node] = self._incarnation.get(node, 0) + 1
        process = self._make_process(node)
        if process.shares_outbox:
            process.out = self._outbox
        if node in self._kept:
            if self._compacts:
                self._kept[node] = self._make_process(node).compact(self._kept[node])
            process.restore(self._kept[node])
        self.processes[node] = process
        process.start()
        self._carry_out(node, process)

    def _tell(self, node: int, say: Callable[[Process], None]) -> None:
        process = self.processes.get(node)
        if process is not None:
            say(process)
            self._carry_out(node, process)

    def _change(self, node: int, what: str, topic: str) -> None:
        process = self.processes.get(node)
        if process is not None:
            if self.on_ask is not None:
                self.on_ask(self.now, node, topic, what == "subscribe")
            getattr(process, what)(topic)
            if not process.reports_membership:
                self._note(node, what, topic)
            self._carry_out(node, process)

    def _note(self, node: int, what: str, topic: str) -> None:
        for observer in self._observers:
            observer.changed(self.now, node, what, topic)

    def _arm(self, node: int, delay: int, timer: Hashable) -> None:
        self._later(node, delay, lambda process: process.wake(timer))

    def _later(self, node: int, delay: int, say: Callable[[Process], None]) -> None:
        """An input after `delay`, unless the node crashes before."""
        incarnation = self._incarnation[node]

        def fire() -> None:
            if self._incarnation[node] == incarnation:
                self._tell(node, say)

        self.at(self.now + delay, fire)
