"""A random search for schedules in which LoCaMu goes wrong, on small graphs, within its fault model.

One seed is one run: on a line, a star or a random tree of 5 to 12 nodes, members publish and answer what they read
while nodes crash and come back (or never do), are suspected rightly and wrongly, and links reorder, lose and repeat. At
no time are more than f nodes down on any path of 2f + 1. The run goes on until nothing moves any more; then the judge
(`antecede.audit`) reads the trace, and every process is asked whether it still waits for something, and whether it
still holds what everybody has.

    verdict = search(4711)                                # what seed 4711 draws
    verdict = search(4711, Trial(shape="line", f=2))      # with this instead
    assert verdict.ok, verdict.words

What a survivor has, everybody must get; unless a message went down with its publisher for good, for whatever a relay
processed after that one waits for it. Then only the order is asked about, and that nothing comes twice.
"""

import random
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Final, Literal

import msgspec

from antecede.audit import audit
from antecede.core import Message, Packet, TopicMessageId
from antecede.overlay.extended import Extended
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import line, random_tree, star
from antecede.protocols.locamu import LoCaMu, Timing
from antecede.protocols.options import MakeProcess
from antecede.search.harness import Verdict, offences, run_to_rest
from antecede.search.rough_links import rough_links
from antecede.sim.engine import Simulation
from antecede.sim.tracing import Tracer
from antecede.sim.units import ticks
from antecede.trace import Event, Recorder, Row

#: A run that still moves after so many events, hundreds of times what it needs, never comes to rest.
EVENTS_MAX: Final = 400_000

_ORDER: Final = ("causal", "fifo", "exactly-once", "no-invention")
_RULES: Final = (*_ORDER, "complete", "agreement")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched: the graph, sizes, faults, and how often things happen."""

    shape: Literal["line", "star", "random"] = "random"
    nodes: int = 8
    f: int = 1
    topics: int = 1
    #: Share of the nodes that take each topic from the beginning.
    members: float = 0.7
    #: Messages published on one's own; each delivery may cause another.
    actions: int = 12
    answers: float = 0.15
    #: Over how many u.t. it all happens. Hops take 100 on average.
    time: float = 3000.0
    #: How often a node is made to crash (where that leaves enough), whether some never come back.
    crashes: int = 0
    stay_down: float = 0.0
    #: Do those publish too?
    last_words: bool = False
    false_suspicions: int = 0
    loss: float = 0.0
    duplication: float = 0.0
    #: How many times somebody joins or leaves a topic.
    changes: int = 0


class TrialVerdict(Verdict, frozen=True, kw_only=True):
    """What came of one schedule."""

    trial: Trial
    #: Crashes that happened.
    crashed: int


def trial_of(seed: int) -> Trial:
    """The trial a seed draws when none is given."""
    rng = random.Random(f"{seed}/trial")
    f = rng.choice([1, 1, 2])
    calm = rng.random() < 0.1
    changing = rng.choice([False, False, True])
    trial = Trial(
        shape=rng.choice(["line", "star", "random", "random"]),
        nodes=rng.randrange(5, 13),
        f=f,
        topics=rng.choice([1, 1, 3]),
        members=rng.choice([0.4, 0.7, 1.0]),
        actions=rng.choice([6, 12, 20]),
        answers=rng.choice([0.05, 0.15, 0.3]),
        time=rng.choice([1000.0, 3000.0, 6000.0]),
        crashes=0 if calm else rng.choice([1, 3, 6]),
        stay_down=0.0 if calm or changing else rng.choice([0.0, 0.0, 0.5, 1.0]),
        false_suspicions=0 if calm else rng.choice([0, 4, 12]),
        loss=rng.choice([0.0, 0.0, 0.1, 0.3]),
        duplication=rng.choice([0.0, 0.1]),
        last_words=rng.random() < 0.5,
    )
    return msgspec.structs.replace(trial, changes=rng.choice([3, 8, 16])) if changing else trial


def graph_of(seed: int, trial: Trial) -> BaseGraph:
    if trial.shape == "random":
        return random_tree(trial.nodes, random.Random(f"{seed}/graph").randrange)
    return line(trial.nodes) if trial.shape == "line" else star(trial.nodes)


def members_of(seed: int, trial: Trial) -> dict[str, list[int]]:
    rng = random.Random(f"{seed}/members")
    count = max(2, round(trial.members * trial.nodes))
    return {f"t{topic}": sorted(rng.sample(range(trial.nodes), count)) for topic in range(trial.topics)}


#: Makes the processes for a graph, its members, and f: what a mutation replaces.
Make = Callable[[BaseGraph, dict[str, list[int]], int], MakeProcess]

#: Acknowledgements and repetitions, for hops of 100 u.t.
TIMING: Final = Timing(ack_us=ticks(50), ack_every=16, retry_us=ticks(1000))


def make_locamu(base: BaseGraph, members: dict[str, list[int]], f: int) -> MakeProcess:
    graph = Extended(base, f)
    founding = {topic: base.directions(taken) for topic, taken in members.items()}
    return lambda node: LoCaMu(graph.around(node), founding, TIMING)


def search(seed: int, trial: Trial | None = None, make: Make = make_locamu) -> TrialVerdict:
    """One run, judged. `make` puts other processes in the place of LoCaMu's: for mutations."""
    return _Run(seed, trial or trial_of(seed), make).judge()


class _Tracer(Tracer):
    """Records what the judge asks about: not the packets, which are most of a trace."""

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None: ...

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None: ...

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None: ...


class _Run:
    """One schedule."""

    def __init__(self, seed: int, trial: Trial, make: Make) -> None:
        self.seed = seed
        self.trial = trial
        self.rng = random.Random(f"{seed}/actions")
        self.graph = graph_of(seed, trial)
        self.members = members_of(seed, trial)
        #: Every path of at most 2f + 1 nodes, on which at most f may be down.
        self.paths = [
            frozenset(path)
            for a, b in combinations(range(trial.nodes), 2)
            if len(path := self.graph.path(a, b)) <= 2 * trial.f + 1
        ]
        self.links = {node: list(self.graph.distances(node, trial.f + 1))[1:] for node in range(trial.nodes)}
        self.down: set[int] = set()
        #: Those who, if they crash, never come back: they only pass on.
        dead = min(trial.f, trial.nodes // 4) if self.rng.random() < trial.stay_down else 0
        self.doomed = set(self.rng.sample(range(trial.nodes), dead))
        self.crashed = 0
        self.answers_left = 2 * trial.actions
        self.recorder = Recorder()
        self.tracer = _Tracer(self.recorder)
        make_process = make(self.graph, self.members, trial.f)
        network = rough_links(seed, loss=trial.loss, duplication=trial.duplication)
        self.simulation = Simulation(make_process, range(trial.nodes), network, [self.tracer])
        self.simulation.on_delivery = self._answer
        self.takes = {(node, topic) for topic, taken in self.members.items() for node in taken}
        for node, topic in sorted(self.takes):
            self.tracer.changed(0, node, "subscribe", topic)
        for _ in range(trial.actions):
            self.simulation.at(self._sometime(), self._act)
        for _ in range(trial.changes):
            self.simulation.at(self._sometime(), self._change)
        for node in [*self.doomed, *self.rng.choices(range(trial.nodes), k=trial.crashes)][: trial.crashes]:
            self.simulation.at(self._sometime(), partial(self._crash, node))
        for _ in range(trial.false_suspicions):
            self.simulation.at(self._sometime(), self._suspect_wrongly)

    def _sometime(self) -> int:
        return ticks(self.rng.uniform(0, self.trial.time))

    def _soon(self, mean: float) -> int:
        return self.simulation.now + ticks(self.rng.expovariate(1 / mean))

    # -- what applications do -----------------------------------------------------------------------------------

    def _act(self) -> None:
        node = self.rng.randrange(self.trial.nodes)
        self._publish(node, self.rng.choice(sorted(self.members)))

    def _answer(self, node: int, message: Message) -> None:
        if self.answers_left and self.rng.random() < self.trial.answers:
            self.answers_left -= 1
            self._publish(node, self.rng.choice(sorted(self.members)))

    def _publish(self, node: int, topic: str) -> None:
        if node in self.simulation.processes and (self.trial.last_words or node not in self.doomed):
            self.simulation.publish(node, topic, b"")

    def _change(self) -> None:
        """Somebody joins, or leaves."""
        node, topic = self.rng.randrange(self.trial.nodes), self.rng.choice(sorted(self.members))
        if node not in self.simulation.processes:
            return
        if (node, topic) in self.takes:
            self.takes.discard((node, topic))
            self.simulation.unsubscribe(node, topic)
        else:
            self.takes.add((node, topic))
            self.simulation.subscribe(node, topic)

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def _crash(self, node: int) -> None:
        down = self.down | {node}
        if node in self.down or any(len(path & down) > self.trial.f for path in self.paths):
            return
        for topic in sorted(self.members):
            if self.rng.random() < 0.3:  # a message in its hands, and one it has just let go of
                self._publish(node, topic)
        self.crashed += 1
        self.down.add(node)
        self.simulation.crash(node)
        for other in self.links[node]:
            self.simulation.at(self._soon(300), partial(self._notice, other, node))
        if node not in self.doomed:
            self.simulation.at(self._soon(self.trial.time / 3), partial(self._recover, node))

    def _recover(self, node: int) -> None:
        self.down.discard(node)
        self.simulation.recover(node)
        for other in self.links[node]:
            self.simulation.at(self._soon(300), partial(self._notice, other, node))
            self.simulation.at(self._soon(300), partial(self._notice, node, other))

    def _notice(self, node: int, peer: int) -> None:
        """The failure detector of `node` finds out how `peer` is."""
        if peer in self.simulation.processes:
            self.simulation.trust(node, peer)
        else:
            self.simulation.suspect(node, peer)

    def _suspect_wrongly(self) -> None:
        node = self.rng.randrange(self.trial.nodes)
        peer = self.rng.choice(self.links[node])
        self.simulation.suspect(node, peer)
        self.simulation.at(self._soon(600), partial(self._notice, node, peer))

    # -- the verdict --------------------------------------------------------------------------------------------

    def judge(self) -> TrialVerdict:
        simulation = self.simulation
        run_to_rest(simulation, self.trial.time, EVENTS_MAX)
        rows = list(self.recorder.rows())
        lost = self._is_something_lost(rows)
        report = audit(rows, rules=_ORDER if lost else _RULES, across_topics=True)
        more = {} if lost else {"blocked": self._blocked(), "leaked": self._leaked()}
        return TrialVerdict(
            seed=self.seed,
            trial=self.trial,
            offences=offences(report, simulation, more),
            messages=report.messages,
            deliveries=report.deliveries,
            packets=simulation.packets,
            crashed=self.crashed,
        )

    def _is_something_lost(self, rows: list[Row]) -> bool:
        """Did a message go down with its publisher, so that nobody who is up has it or had it?"""
        up = self.simulation.processes
        there = {
            TopicMessageId(row.topic, row.source, row.seq)
            for row in rows
            if row.event is Event.DELIVER and row.node in up
        }
        for process in up.values():
            if isinstance(process, LoCaMu):
                there |= {entry.message.id for entry in process.state.log.entries}
        last_words = (row for row in rows if row.event is Event.PUBLISH and row.node in self.down)
        return any(TopicMessageId(row.topic, row.source, row.seq) not in there for row in last_words)

    def _blocked(self) -> list[str]:
        """Who waits for ever."""
        found = []
        for node, process in self.simulation.processes.items():
            if process.held:
                found.append(f"node {node} holds {process.held}")
            if isinstance(process, LoCaMu):
                found += [f"node {node} {what}" for what in process.unfinished()]
        return found

    def _leaked(self) -> list[str]:
        """Who, with everybody back and everything delivered, has not forgotten it.

        Amid crashes a name for one who has left may stay: its relay forgot the message before it heard of the name
        (one of 3,300 such runs).
        """
        if self.down or (self.trial.changes and self.crashed):
            return []
        return [
            f"node {node} still answers for {process.answers_for} messages"
            for node, process in self.simulation.processes.items()
            if isinstance(process, LoCaMu) and process.answers_for
        ]
