"""A random search for schedules in which VCube-PS goes wrong: the evidence behind "0 violations in so many runs".

One seed is one run: nodes subscribe, unsubscribe, publish, answer what they read, rejoin, and (where the mode is made
for it) crash, are suspected rightly or wrongly and recover, at random times, over links with heavy-tailed delays that
may reorder, lose and repeat. The run goes on until nothing moves any more; then the judge (`antecede.audit`) reads the
trace, and a few questions are asked of the processes that a trace does not answer: is anybody blocked?

    verdict = search(4711)                      # what seed 4711 draws
    verdict = search(4711, Trial(nodes=16))     # with these sizes instead
    assert verdict.ok, verdict.words

The same function runs under hypothesis, in the test suite's loops and as tasks on Spark.
"""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from antecede.audit import audit
from antecede.core import Message, Process, TopicMessageId
from antecede.protocols.options import MakeProcess
from antecede.protocols.vcube_ps.options import VCubePsOptions
from antecede.search.harness import Verdict, offences, run_to_rest
from antecede.search.rough_links import rough_links
from antecede.sim.engine import Simulation
from antecede.sim.tracing import Tracer
from antecede.sim.units import ticks
from antecede.trace import Event, Recorder, Row

#: A run that still moves after so many events, thousands of times what it needs, never comes to rest.
EVENTS_MAX: Final = 2_000_000

_RULES: Final = ("causal", "fifo", "exactly-once", "no-invention", "complete", "agreement")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched: sizes, faults, and how often things happen."""

    nodes: int = 8
    topics: int = 1
    mode: str = "faithful"
    domain: str = "topic"
    window: int = 64
    aggregate: bool = False
    #: Things the applications do on their own; each delivery may cause one more.
    actions: int = 60
    #: Probability that a delivery is answered with a publication.
    answers: float = 0.15
    #: Probability that a member's action is to leave.
    leaves: float = 0.3
    #: Over how many u.t. the actions are spread. Hops take 100 on average.
    window_of_time: float = 4000.0
    #: Share of the nodes that are members from the beginning.
    founders: float = 0.5
    fifo: bool = False
    loss: float = 0.0
    duplication: float = 0.0
    #: How many nodes crash, how many of them stay down, and how many are suspected for nothing. Across topics a message
    #: may go down with all who had it while others know of it (`vcube_ps.order`), so there all come back.
    crashes: int = 0
    stay_down: float = 0.3
    false_suspicions: int = 0


class ScheduleVerdict(Verdict, frozen=True, kw_only=True):
    """What came of one schedule."""

    trial: Trial
    joins: int
    #: Sessions a node had to break off because what it missed was kept nowhere any more: it left and joined, visibly.
    broken: int


def trial_of(seed: int) -> Trial:
    """The trial a seed draws when none is given: half of them without faults, in either mode."""
    rng = random.Random(f"{seed}/trial")
    pipelined = rng.random() < 0.7
    faulty = pipelined and rng.random() < 0.7
    across = rng.random() < 0.3
    return Trial(
        nodes=rng.choice([4, 4, 8, 8, 8, 16]),
        mode="pipelined" if pipelined else "faithful",
        topics=rng.choice([2, 3]) if across else 1,
        domain="all" if across else "topic",
        window=rng.choice([1, 4, 64]),
        fifo=rng.random() < 0.5,
        founders=rng.choice([0.0, 0.5, 0.75, 1.0]),
        leaves=rng.choice([0.05, 0.3]),
        window_of_time=rng.choice([1500.0, 4000.0, 8000.0]),
        answers=rng.choice([0.05, 0.15]),
        loss=rng.choice([0.0, 0.05, 0.2, 0.4]) if faulty else 0.0,
        duplication=rng.choice([0.0, 0.1]) if faulty else 0.0,
        crashes=rng.choice([0, 1, 3]) if faulty else 0,
        stay_down=0.0 if across else rng.choice([0.3, 1.0]),
        false_suspicions=rng.choice([0, 4, 12]) if faulty else 0,
        aggregate=pipelined and rng.random() < 0.5,
    )


def search(
    seed: int, trial: Trial | None = None, make: Callable[[Trial], MakeProcess] | None = None
) -> ScheduleVerdict:
    """One run, judged. `make` puts other processes in the place of VCube-PS's: for mutations."""
    trial = trial or trial_of(seed)
    run = _Run(seed, trial, (make or maker)(trial))
    return run.judge()


def maker(trial: Trial) -> MakeProcess:
    return options_of(trial).build_groups(trial.nodes, founders_of(trial))


def options_of(trial: Trial) -> VCubePsOptions:
    chosen = ("mode", "domain", "window", "aggregate")
    return msgspec.convert({name: getattr(trial, name) for name in chosen}, VCubePsOptions)


def founders_of(trial: Trial) -> dict[str, list[int]]:
    """The same for every seed of a trial: node numbers are interchangeable, schedules are not."""
    rng = random.Random("founders")
    count = round(trial.founders * trial.nodes)
    return {topic: sorted(rng.sample(range(trial.nodes), count)) for topic in topics_of(trial)}


def topics_of(trial: Trial) -> list[str]:
    return [f"t{number}" for number in range(trial.topics)]


class _Tracer(Tracer):
    """Records, and counts who leaves without having been asked to."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.leaving: Counter[tuple[int, str]] = Counter()
        self.broken = 0

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        super().changed(now, node, what, topic)
        if what == "unsubscribe":
            if self.leaving[node, topic]:
                self.leaving[node, topic] -= 1
            else:
                self.broken += 1
        elif what == "crash":  # what was asked for and not done is forgotten
            for key in self.leaving:
                if key[0] == node:
                    self.leaving[key] = 0


class _Run:
    """One schedule."""

    def __init__(self, seed: int, trial: Trial, make: MakeProcess) -> None:
        self.seed = seed
        self.trial = trial
        self.rng = random.Random(f"{seed}/actions")
        self.recorder = Recorder()
        self.tracer = _Tracer(self.recorder)
        network = rough_links(seed, loss=trial.loss, duplication=trial.duplication, fifo=trial.fifo)
        self.simulation = Simulation(make, range(trial.nodes), network, [self.tracer])
        self.simulation.on_delivery = self._answer
        #: What each node was last asked to take; publications asked for; those still allowed as answers.
        self.wants = {(node, topic): False for node in range(trial.nodes) for topic in topics_of(trial)}
        self.asked = 0
        self.answers_left = 2 * trial.actions
        for topic, members in founders_of(trial).items():
            for node in members:
                self.wants[node, topic] = True
                self.tracer.changed(0, node, "subscribe", topic)
        for _ in range(trial.actions):
            self.simulation.at(self._sometime(), self._act)
        for node in self.rng.sample(range(trial.nodes), min(trial.crashes, trial.nodes - 1)):
            self.simulation.at(self._sometime(), partial(self._crash, node))
        for _ in range(trial.false_suspicions):
            self.simulation.at(self._sometime(), self._suspect_wrongly)

    def _sometime(self) -> int:
        return ticks(self.rng.uniform(0, self.trial.window_of_time))

    # -- what applications do -----------------------------------------------------------------------------------

    def _act(self) -> None:
        node = self.rng.randrange(self.trial.nodes)
        topic = self.rng.choice(topics_of(self.trial))
        if node not in self.simulation.processes:
            return
        if not self.wants[node, topic]:
            self.wants[node, topic] = True
            self.simulation.subscribe(node, topic)
        elif self.rng.random() < self.trial.leaves:
            self.wants[node, topic] = False
            self.tracer.leaving[node, topic] += 1
            self.simulation.unsubscribe(node, topic)
        else:
            self._publish(node, topic)

    def _answer(self, node: int, message: Message) -> None:
        if self.answers_left and self.rng.random() < self.trial.answers:
            topic = self.rng.choice(topics_of(self.trial))
            if self.wants[node, topic]:
                self.answers_left -= 1
                self._publish(node, topic)

    def _publish(self, node: int, topic: str) -> None:
        self.asked += 1
        self.simulation.publish(node, topic, b"")

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def _soon(self, mean: float) -> int:
        return self.simulation.now + ticks(self.rng.expovariate(1 / mean))

    def _others(self, node: int) -> list[int]:
        return [other for other in range(self.trial.nodes) if other != node]

    def _crash(self, node: int) -> None:
        simulation = self.simulation
        for topic in topics_of(self.trial):
            # Messages a node sent and does not live to look after are what agreement is about.
            if self.wants[node, topic] and self.rng.random() < 0.5:
                self._publish(node, topic)
        simulation.crash(node)
        for topic in topics_of(self.trial):
            self.wants[node, topic] = False
        for other in self._others(node):
            simulation.at(self._soon(400), partial(self._notice, other, node))
        if self.rng.random() >= self.trial.stay_down:
            simulation.at(self._soon(self.trial.window_of_time / 3), lambda: self._recover(node))

    def _recover(self, node: int) -> None:
        simulation = self.simulation
        simulation.recover(node)
        for topic in topics_of(self.trial):  # what was asked for and not done when it crashed is forgotten
            self.wants[node, topic] = wants(simulation.processes[node], topic)
        for other in self._others(node):
            simulation.at(self._soon(400), partial(self._notice, other, node))
            simulation.at(self._soon(400), partial(self._notice, node, other))

    def _notice(self, node: int, peer: int) -> None:
        """The failure detector of `node` finds out how `peer` is."""
        if peer in self.simulation.processes:
            self.simulation.trust(node, peer)
        else:
            self.simulation.suspect(node, peer)

    def _suspect_wrongly(self) -> None:
        node, peer = self.rng.sample(range(self.trial.nodes), 2)
        self.simulation.suspect(node, peer)
        self.simulation.at(self._soon(800), lambda: self._notice(node, peer))

    # -- the verdict --------------------------------------------------------------------------------------------

    def judge(self) -> ScheduleVerdict:
        simulation, trial = self.simulation, self.trial
        run_to_rest(simulation, trial.window_of_time, EVENTS_MAX)
        rows = list(self.recorder.rows())
        report = audit(rows, rules=_RULES, across_topics=trial.domain == "all")
        return ScheduleVerdict(
            seed=self.seed,
            trial=trial,
            offences=offences(report, simulation, {"blocked": self._blocked(rows, report.messages)}),
            messages=report.messages,
            deliveries=report.deliveries,
            joins=sum(row.event is Event.SUBSCRIBE for row in rows),
            broken=self.tracer.broken,
            packets=simulation.packets,
        )

    def _blocked(self, rows: list[Row], published: int) -> list[str]:
        """Who waits for ever, though it need not."""
        found = []
        lost = _Lost(rows, set(self.simulation.processes))
        for node, process in self.simulation.processes.items():
            held = holding(process)
            if process.held != len(held) or not all(lost.blocks(message) for message in held):
                found.append(f"node {node} holds {process.held} messages for ever")
            found += [f"node {node} {what}" for what in unfinished(process)]
        if not found and not self.trial.crashes and published < self.asked:
            found.append(f"{self.asked} publications were asked for, {published} made")
        return found


class _Lost:
    """Messages that went down with everybody who had them. Who holds something that depends on one waits rightly."""

    def __init__(self, rows: list[Row], up: set[int]) -> None:
        takes = {Event.PUBLISH, Event.DELIVER}
        self._there = {(row.topic, row.source, row.seq) for row in rows if row.event in takes and row.node in up}
        self._deps = {(row.topic, row.source, row.seq): row.deps for row in rows if row.event is Event.PUBLISH}
        self._known: dict[tuple[str, int, int], bool] = {}

    def blocks(self, message: tuple[str, int, int]) -> bool:
        """Is the message, or anything before it, with nobody who is up?"""
        known = self._known.get(message)
        if known is None:
            self._known[message] = False  # no circles: a message comes after what it depends on
            topic, source, seq = message
            before = (*self._deps[message], (topic, source, seq - 1)) if seq > 1 else self._deps[message]
            known = message not in self._there or any(self.blocks(earlier) for earlier in before)
            self._known[message] = known
        return known


def holding(process: Process) -> list[TopicMessageId]:
    """The messages a process holds, if it can say."""
    ask = getattr(process, "holding", None)
    return list(ask()) if ask is not None else []


def wants(process: Process, topic: str) -> bool:
    ask = getattr(process, "wants", None)
    return bool(ask is not None and ask(topic))


def unfinished(process: Process) -> list[str]:
    """What a process still waits for, if it can say."""
    ask = getattr(process, "unfinished", None)
    return list(ask()) if ask is not None else []
