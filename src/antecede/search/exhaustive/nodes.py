"""The states of single nodes, and the steps between them.

A process cannot be copied: parts of it hold references to each other, in closures, too. But it is deterministic. So a
state is remembered by the inputs that lead to it, and a process in that state is made by giving these inputs to a new
one. The result of each input in each state is computed once; nodes have few states, systems of nodes have many.

Two states are one if the process has the same fingerprint, the same timers are armed, the application has seen the
same, and, where crashed nodes come back, the same is kept.
"""

from collections.abc import Hashable
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from antecede.core import Packet, Process
from antecede.core.process import Change
from antecede.protocols.options import MakeProcess
from antecede.search.exhaustive.fingerprint import fingerprint
from antecede.search.exhaustive.model import Seen, Step

#: How many processes are kept for the next input. A state without one is reached again from the start.
_KEPT_MAX: Final = 20_000


class Input(NamedTuple):
    """An input of a process: receive, wake, down, up, recover, or a step of the application."""

    kind: str
    #: A sender or a peer.
    peer: int = -1
    #: A packet, a timer, or a step with the payload to publish.
    value: Any = None


class Sent(NamedTuple):
    """A packet in flight."""

    to: int
    sender: int
    packet: Packet
    #: Equal for equal packets, in any exploration.
    order: bytes


class Armed(NamedTuple):
    """A timer that a node has armed."""

    order: bytes
    delay: int
    timer: Hashable


class Outcome(NamedTuple):
    """What an input does: the next state of the node, packets, and what is seen."""

    state: int
    sends: tuple[int, ...]
    seen: tuple[Seen, ...]
    armed: tuple[Armed, ...]


class _Running:
    """A process with everything around it."""

    def __init__(self, make: MakeProcess, node: int) -> None:
        self._make = make
        self.node = node
        self.kept: list[object] = []
        self.timers: list[Armed] = []
        self.seen: list[Seen] = []
        self.process = make(node)
        self.process.start()

    def give(self, given: Input) -> None:
        """Hand over an input. `carry_out` must follow."""
        match given.kind:
            case "receive":
                self.process.receive(given.peer, given.value)
            case "wake":
                self.timers.remove(given.value)
                self.process.wake(given.value.timer)
            case "down":
                self.process.peer_down(given.peer)
            case "up":
                self.process.peer_up(given.peer)
            case "recover":
                self.timers.clear()
                self.process = self._make(self.node)
                self.process.restore(self.kept)
                self.process.start()
            case _:
                self._act(*given.value)

    def _act(self, step: Step, payload: bytes) -> None:
        process = self.process
        if step.what == "publish":
            message = process.publish(step.topic, payload)
            if message is not None:
                self.seen.append(Seen("publish", message.topic, message))
            return
        getattr(process, step.what)(step.topic)
        if not process.reports_membership:
            self.seen.append(Seen(step.what, step.topic))

    def carry_out(self) -> tuple[list[tuple[int, Packet]], list[Armed]]:
        """Do what the process wants done, in the order of the contract. Packets and timers are returned."""
        out = self.process.out
        self.kept += out.kept
        sends = list(out.sends)
        done = 0
        for after, what, topic, message in (*out.changes, Change(len(out.deliveries), "publish", "")):
            for index in range(done, after):
                delivery = out.deliveries[index]
                self.seen.append(Seen("deliver", delivery.topic, delivery, index in out.out_of_order))
            done = after
            if topic:
                self.seen.append(Seen(what, topic, message))
        armed = sorted(Armed(fingerprint(timer), delay, timer) for delay, timer in out.timers)
        self.timers = sorted([*self.timers, *armed], key=_by_order)
        assert not out.look_ups, "processes that read a log are not explored"
        out.clear()
        return sends, armed


def _by_order(armed: Armed) -> tuple[bytes, int]:
    return armed.order, armed.delay


_Parent: TypeAlias = tuple[int, Input] | None


class Nodes:
    """All states of all nodes that were met, by number."""

    def __init__(self, make: MakeProcess, *, recover: bool) -> None:
        self._make = make
        #: Do crashed nodes come back? Then what is kept is part of a state.
        self._recover = recover
        self._numbers: dict[bytes, int] = {}
        self._node: list[int] = []
        self._parents: list[_Parent] = []
        self._outcomes: dict[tuple[int, Hashable], Outcome] = {}
        self._running: dict[int, _Running] = {}
        #: By state: its timers, and the number of its history. Histories are those of what is seen.
        self.timers: list[tuple[Armed, ...]] = []
        self.history: list[int] = []
        #: By state: what was seen, and how many messages the node has published.
        self.seen: list[tuple[Seen, ...]] = []
        self.published: list[int] = []
        self._histories: dict[tuple[int, tuple[bytes, ...]], int] = {}
        self._packets: dict[tuple[int, int, bytes], int] = {}
        #: By number: a packet, with its sender and receiver.
        self.packets: list[Sent] = []

    def __len__(self) -> int:
        return len(self._parents)

    def start(self, node: int) -> Outcome:
        running = _Running(self._make, node)
        return self._reached(running, None, 0)

    def step(self, state: int, given: Input, key: Hashable) -> Outcome:
        """Give an input to a node in this state. Equal keys stand for equal inputs."""
        known = self._outcomes.get((state, key))
        if known is None:
            running = self._running.pop(state, None) or self._again(state)
            before = len(running.seen)
            running.give(given)
            known = self._reached(running, (state, given), before)
            self._outcomes[state, key] = known
        return known

    def ask(self, state: int) -> Process:
        """A process in this state, to ask it questions. It must not be given inputs."""
        running = self._running.get(state)
        if running is None:
            running = self._running[state] = self._again(state)
        return running.process

    def _again(self, state: int) -> _Running:
        inputs = []
        parent = self._parents[state]
        while parent is not None:
            inputs.append(parent[1])
            parent = self._parents[parent[0]]
        running = _Running(self._make, self._node[state])
        running.carry_out()
        for given in reversed(inputs):
            running.give(given)
            running.carry_out()
        return running

    def _reached(self, running: _Running, parent: _Parent, before: int) -> Outcome:
        sends, armed = running.carry_out()
        seen = tuple(running.seen)
        kept = running.kept if self._recover else ()
        timers = tuple(running.timers)
        history = (running.node, tuple(map(_seen_key, seen)))
        mark = fingerprint(running.node, running.process, [(a.order, a.delay) for a in timers], history[1], kept)
        state = self._numbers.get(mark)
        if state is None:
            state = self._numbers[mark] = len(self._parents)
            self._parents.append(parent)
            self._node.append(running.node)
            self.timers.append(timers)
            self.history.append(self._histories.setdefault(history, len(self._histories)))
            self.seen.append(seen)
            self.published.append(sum(one.what == "publish" for one in seen))
            if len(self._running) < _KEPT_MAX:
                self._running[state] = running
        return Outcome(state, tuple([self._sent(running.node, *send) for send in sends]), seen[before:], tuple(armed))

    def _sent(self, sender: int, to: int, packet: Packet) -> int:
        order = fingerprint(packet)
        number = self._packets.setdefault((to, sender, order), len(self.packets))
        if number == len(self.packets):
            self.packets.append(Sent(to, sender, packet, order))
        return number


@cache
def _seen_key(seen: Seen) -> bytes:
    return fingerprint(seen)
