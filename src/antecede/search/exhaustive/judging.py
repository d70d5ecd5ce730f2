"""Judges what happened along a schedule: order after every step, everything else once the system is at rest.

The verdict is that of the audit, on a trace of the schedule. Whether order holds depends on what each node has seen,
which is part of its state; so each combination of histories is judged once, on the first schedule that leads to it.

A system that is quiet has nothing in flight, but timers are armed: acknowledgements, retransmissions, rounds.
*Settling* lets them expire, in the order of their delays, and lets every packet arrive before the next timer. Then
nothing may be missing, held or unfinished.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from antecede.audit import audit
from antecede.core import Process
from antecede.search.exhaustive.model import Happening, Model
from antecede.search.exhaustive.nodes import Armed
from antecede.search.exhaustive.system import Move, State, System
from antecede.search.harness import ORDER
from antecede.trace import Recorder

#: A system that needs more steps than this to settle never comes to rest.
SETTLE_MAX: Final = 5000


class Settled(NamedTuple):
    """A system at rest, and how it came there."""

    state: State
    happenings: list[Happening]
    moves: list[Move]
    restless: bool


def settle(system: System, state: State) -> Settled:
    """Let everything happen that happens by itself, one thing at a time."""
    happenings: list[Happening] = []
    moves: list[Move] = []
    now = count = 0
    due: list[tuple[int, int, int, Armed]] = []
    for node, own in enumerate(state.nodes):
        for timer in system.nodes.timers[own] if own >= 0 else ():
            due.append((timer.delay, count, node, timer))
            count += 1
    heapify(due)
    while state.flight or due:
        if len(moves) > SETTLE_MAX:
            return Settled(state, happenings, moves, restless=True)
        if state.flight:
            number = state.flight[0]
            move = Move("receive", system.nodes.packets[number].to, number)
            moved = system.apply(state, move)
        else:
            now, _, node, timer = heappop(due)
            if state.nodes[node] < 0:
                continue
            move = Move("wake", node, timer=timer)
            moved = system.wake(state, move)
        state = moved.state
        moves.append(move)
        if moved.seen:
            happenings.append(Happening(move.node, moved.seen))
        for armed in moved.armed:
            heappush(due, (now + armed.delay, count, move.node, armed))
            count += 1
    return Settled(state, happenings, moves, restless=False)


def judge(model: Model, happenings: Iterable[Happening], rules: tuple[str, ...]) -> dict[str, str]:
    """Ask the audit. By rule that is broken: the first offence in words."""
    recorder = Recorder()
    tracer = model.tracer(recorder)
    for topic, members in model.founders.items():
        for node in members:
            tracer.changed(0, node, "subscribe", topic)
    for now, (node, seen) in enumerate(happenings, 1):
        for what, topic, message, out_of_order in seen:
            if message is None:
                tracer.changed(now, node, what, topic)
            elif what == "publish":
                tracer.published(now, node, message)
            else:
                tracer.delivered(now, node, message, out_of_order=out_of_order)
    report = audit(recorder.rows(), rules=rules, across_topics=model.across_topics)
    return {rule.name: rule.example.words for rule in report.rules if rule.example is not None}


class Judge:
    """Remembers verdicts by what nodes have seen."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._in_order: dict[object, dict[str, str]] = {}
        self._at_rest: dict[object, dict[str, str]] = {}

    @property
    def outcomes(self) -> int:
        """How many different ends there were: what each node saw, and in which state it is at rest."""
        return len(self._at_rest)

    def knows_order(self, state: State) -> bool:
        return self._histories(state) in self._in_order

    def order(self, state: State, happenings: Iterable[Happening]) -> dict[str, str]:
        """By rule of order that is broken: the first offence in words. `happenings` led to this state."""
        key = self._histories(state)
        known = self._in_order.get(key)
        if known is None:
            known = self._in_order[key] = judge(self._system.model, happenings, self._system.model.order)
        return known

    def rest(self, settled: Settled, happenings: Sequence[Happening]) -> dict[str, str]:
        """The same of everything that is promised once the system is at rest."""
        key = (settled.state.nodes, settled.state.joins, settled.restless)
        known = self._at_rest.get(key)
        if known is None:
            processes = self._processes(settled.state)
            rules = self._system.model.rules(processes, happenings)
            known = judge(self._system.model, happenings, rules)
            if settled.restless:
                known["restless"] = f"the system is not at rest after {SETTLE_MAX} steps"
            if rules != ORDER and (blocked := self._blocked(processes)):
                known["blocked"] = "; ".join(blocked)
            self._at_rest[key] = known
        return known

    def _histories(self, state: State) -> object:
        history = self._system.nodes.history
        return tuple([history[own] if own >= 0 else ~history[~own] for own in state.nodes]), state.joins

    def _processes(self, state: State) -> dict[int, Process]:
        return {node: self._system.nodes.ask(own) for node, own in enumerate(state.nodes) if own >= 0}

    def _blocked(self, processes: dict[int, Process]) -> list[str]:
        unfinished = self._system.model.unfinished
        return [f"node {node} {what}" for node, process in processes.items() for what in unfinished(process)]
