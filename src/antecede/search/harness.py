"""One random search: a function of a seed that makes a run, has it judged and reports what it found.

"No violation in ten thousand runs" is a claim about such a function. It runs in a test's loop, under hypothesis and as
tasks on Spark (`antecede search`). The seed alone replays a failure.

    verdict = search(4711)                      # the trial that seed 4711 draws
    verdict = search(4711, Trial(nodes=16))     # these sizes instead
    assert verdict.ok, verdict.words

The harness owns everything that the searches share: links, publications and answers, crashes, recoveries, suspicions,
the failure detector, and the judgement. A protocol's module subclasses `Run`. The order in which a run draws random
numbers is part of what a seed means: a change here that draws more, fewer or other numbers changes every pinned seed.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from antecede.audit import Report, audit
from antecede.core import Message, Packet, Process
from antecede.protocols.options import Founders, MakeProcess
from antecede.search.rough_links import rough_links
from antecede.sim.engine import Simulation
from antecede.sim.network import Network
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS, ticks
from antecede.trace import Recorder, Row

#: Rules of the audit that every protocol here keeps, whatever goes wrong.
ORDER = ("causal", "fifo", "exactly-once", "no-invention", "same-content")
#: Rules that hold as well unless a message is lost together with every node that had it.
NOTHING_LOST = (*ORDER, "complete", "agreement")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes, rates and faults of one run. Each protocol adds its own."""

    #: Actions the applications take on their own. Each delivery may cause one more.
    actions: int = 60
    #: Probability that a delivery is answered with a publication.
    answers: float = 0.15
    #: U.t. over which actions and faults are spread. A hop takes 100 on average.
    window_of_time: float = 4000.0
    #: Links do not reorder.
    fifo: bool = False
    #: Share of the packets that are lost, and that arrive twice.
    loss: float = 0.0
    duplication: float = 0.0
    #: Crashes, and suspicions of nodes that are up.
    crashes: int = 0
    false_suspicions: int = 0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    seed: int
    #: By broken promise, a rule of the audit or a check of the search ("blocked"): the first offence in words.
    offences: dict[str, str]
    messages: int
    deliveries: int
    packets: int
    #: Crashes that happened, and deliveries tagged as out of order.
    crashed: int = 0
    tagged: int = 0
    #: Sessions a node broke off because it missed messages that no node keeps any more: it left and joined, visibly.
    broken: int = 0

    @property
    def ok(self) -> bool:
        return not self.offences

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(self.offences)

    @property
    def words(self) -> str:
        return "\n".join(f"{rule}: {offence}" for rule, offence in self.offences.items())


#: Equal seeds give equal verdicts, in any process.
SearchSeed: TypeAlias = Callable[[int], Verdict]


class Search(NamedTuple):
    """A search as the command line lists it."""

    summary: str
    run: SearchSeed


class AppTracer(Tracer):
    """Records what applications see. Packets are most of a trace, and no rule judged here reads them."""

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None: ...

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None: ...

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None: ...


T = TypeVar("T", bound=Trial)


class Run(ABC, Generic[T]):
    """One run of a trial. A protocol's subclass says what is drawn, what happens and what is promised."""

    #: A run with more events than this, hundreds of times what it needs, never comes to rest.
    events_max: ClassVar[int] = 500_000
    #: Mean u.t. until a failure detector notices a crash or a recovery. A wrong suspicion lasts twice as long.
    noticed: ClassVar[float] = 400.0
    #: Probability that a node publishes on a topic just before it crashes.
    last_words_share: ClassVar[float] = 0.5

    def __init__(self, seed: int, trial: T, make: Callable[[int, T], MakeProcess] | None = None) -> None:
        self.seed = seed
        self.trial = trial
        self.rng = random.Random(f"{seed}/actions")
        self.prepare()
        founders = self.founders()
        self.topics = list(founders)
        #: By node and topic: the applications' last request was to take it.
        self.wanted = {(node, topic) for topic, members in founders.items() for node in members}
        #: Publications requested, answers still allowed, crashes that happened.
        self.asked = 0
        self.answers_left = 2 * trial.actions
        self.crashed = 0
        self.recorder = Recorder()
        self.tracer = self.make_tracer()
        make_process = make(seed, trial) if make is not None else self.maker()
        self.simulation = Simulation(
            make_process, self.nodes, self.network(), [self.tracer], log_keeps=self.log_keeps, compacts=self.compacts
        )
        self.simulation.on_delivery = self._answer
        for topic, members in founders.items():
            for node in members:
                self.tracer.changed(0, node, "subscribe", topic)
        self._schedule()

    @classmethod
    def search(cls, seed: int, trial: T | None = None, make: Callable[[int, T], MakeProcess] | None = None) -> Verdict:
        """Make one run and judge it. `make` replaces the protocol's processes: for mutations."""
        return cls(seed, cls.draw(seed) if trial is None else trial, make).judge()

    # -- what a protocol provides -------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def draw(seed: int) -> T:
        """The trial that `seed` draws when none is given."""

    @property
    @abstractmethod
    def nodes(self) -> range: ...

    @abstractmethod
    def founders(self) -> Founders:
        """By topic: the nodes that take it from the beginning."""

    @abstractmethod
    def maker(self) -> MakeProcess:
        """Makes the processes under test."""

    @abstractmethod
    def actions(self) -> Sequence[tuple[int, Callable[[], None]]]:
        """What happens at random times, and how often. The first entries are drawn first."""

    @abstractmethod
    def rules(self, rows: Sequence[Row]) -> tuple[str, ...]:
        """The rules of the audit that this run must keep."""

    # -- what a protocol may change -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Draw what comes before everything else."""

    @property
    def across_topics(self) -> bool:
        """Is causal order promised across topics, or within each only?"""
        return True

    @property
    def log_keeps(self) -> int | None:
        """How many messages of each source retention leaves in a node's log; None: all."""
        return None

    @property
    def compacts(self) -> bool:
        """Is what a node kept compacted before it recovers?"""
        return False

    @property
    def broken(self) -> int:
        """See `Verdict.broken`."""
        return 0

    def network(self) -> Network:
        trial = self.trial
        return rough_links(self.seed, loss=trial.loss, duplication=trial.duplication, fifo=trial.fifo)

    def make_tracer(self) -> Tracer:
        return AppTracer(self.recorder)

    @property
    def publishers(self) -> range:
        """The nodes that publish, crash and are suspected: all, unless some only read."""
        return self.nodes

    def victims(self) -> Sequence[int]:
        """The nodes to crash, one entry a crash. At least one node stays up."""
        return self.rng.sample(self.publishers, min(self.trial.crashes, len(self.publishers) - 1))

    def watchers(self, node: int) -> Sequence[int]:
        """The nodes whose failure detectors watch `node`."""
        return [other for other in self.nodes if other != node]

    def wrong_suspicion(self) -> tuple[int, int]:
        """A node, and the peer that it suspects although that is up."""
        node, peer = self.rng.sample(self.publishers, 2)
        return node, peer

    def may_publish(self, node: int, topic: str) -> bool:
        return (node, topic) in self.wanted

    def may_crash(self, node: int) -> bool:
        return True

    def comes_back(self, node: int) -> bool:
        return True

    def stuck(self, process: Process) -> int:
        """Messages that a process holds for ever although it need not."""
        return max(process.held, len(process.holding()))

    @property
    def may_wait(self) -> bool:
        """May publications wait at the end?"""
        return False

    def unfinished(self, process: Process) -> Sequence[str]:
        """What a process waits for, though it need not."""
        return process.unfinished()

    def checks(self, rows: Sequence[Row], report: Report) -> Mapping[str, Sequence[str]]:
        """Promises that a trace does not show, with their offences."""
        return {"blocked": self.blocked(report)}

    # -- what applications do -----------------------------------------------------------------------------------

    def somewhere(self) -> tuple[int, str] | None:
        """A random node and topic; None if the node is down."""
        node, topic = self.rng.randrange(len(self.nodes)), self.rng.choice(self.topics)
        return (node, topic) if node in self.simulation.processes else None

    def toggle(self, node: int, topic: str) -> None:
        """The node joins the topic, or leaves it."""
        if (node, topic) in self.wanted:
            self.wanted.discard((node, topic))
            self.simulation.unsubscribe(node, topic)
        else:
            self.wanted.add((node, topic))
            self.simulation.subscribe(node, topic)

    def publish(self, node: int, topic: str) -> None:
        self.asked += 1
        self.simulation.publish(node, topic, self.asked.to_bytes(4))  # no two contents are equal

    def answer(self, node: int) -> None:
        """Publish on a random topic, if the node may."""
        topic = self.rng.choice(self.topics)
        if self.may_publish(node, topic):
            self.answers_left -= 1
            self.publish(node, topic)

    def before_crash(self, node: int) -> None:
        """Publish now and then. Messages that a node sends and does not live to look after test agreement."""
        for topic in self.topics:
            if self.may_publish(node, topic) and self.rng.random() < self.last_words_share:
                self.publish(node, topic)

    def _answer(self, node: int, message: Message) -> None:
        if node in self.publishers and self.answers_left and self.rng.random() < self.trial.answers:
            self.answer(node)

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def crash(self, node: int) -> None:
        if node not in self.simulation.processes or not self.may_crash(node):
            return
        self.before_crash(node)
        self.crashed += 1
        self.simulation.crash(node)
        self.wanted -= {(node, topic) for topic in self.topics}
        for other in self.watchers(node):
            self.simulation.at(self.soon(self.noticed), partial(self.notice_crash, other, node))
        if self.comes_back(node):
            self.simulation.at(self.soon(self.trial.window_of_time / 3), partial(self.recover, node))

    def recover(self, node: int) -> None:
        self.simulation.recover(node)
        process = self.simulation.processes[node]
        # A request that had not taken effect when the node crashed is forgotten.
        self.wanted |= {(node, topic) for topic in self.topics if process.wants(topic)}
        for other in self.watchers(node):
            self.simulation.at(self.soon(self.noticed), partial(self.notice, other, node))
            self.simulation.at(self.soon(self.noticed), partial(self.notice, node, other))

    def notice_crash(self, node: int, peer: int) -> None:
        self.notice(node, peer)

    def notice(self, node: int, peer: int) -> None:
        """The failure detector of `node` finds out whether `peer` is up."""
        if peer in self.simulation.processes:
            self.simulation.trust(node, peer)
        else:
            self.simulation.suspect(node, peer)

    def suspect_wrongly(self) -> None:
        if len(self.publishers) > 1:
            self.suspect_for_a_while(*self.wrong_suspicion(), 2 * self.noticed)

    def suspect_for_a_while(self, node: int, peer: int, mean: float) -> None:
        self.simulation.suspect(node, peer)
        self.simulation.at(self.soon(mean), partial(self.notice, node, peer))

    # -- when ---------------------------------------------------------------------------------------------------

    def sometime(self) -> int:
        return ticks(self.rng.uniform(0, self.trial.window_of_time))

    def soon(self, mean: float) -> int:
        return self.simulation.now + ticks(self.rng.expovariate(1 / mean))

    def _schedule(self) -> None:
        for count, action in self.actions():
            for _ in range(count):
                self.simulation.at(self.sometime(), action)
        for node in self.victims():
            self.simulation.at(self.sometime(), partial(self.crash, node))
        for _ in range(self.trial.false_suspicions):
            self.simulation.at(self.sometime(), self.suspect_wrongly)

    # -- the verdict --------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Run until no event is left, or until `events_max`."""
        simulation = self.simulation
        while simulation.pending and simulation.steps < self.events_max:
            simulation.run(until=simulation.now + ticks(self.trial.window_of_time))

    def judge(self) -> Verdict:
        """Run until no event is left, or until `events_max`, and compare what happened with what is promised."""
        simulation = self.simulation
        self.rest()
        rows = list(self.recorder.rows())
        report = audit(rows, rules=self.rules(rows), across_topics=self.across_topics)
        offences = {rule.name: rule.example.words for rule in report.rules if rule.example is not None}
        if simulation.pending:
            offences["restless"] = f"{simulation.pending} events pending at {simulation.now / TICKS:.0f} u.t."
        offences |= {name: "; ".join(found) for name, found in self.checks(rows, report).items() if found}
        return Verdict(
            seed=self.seed,
            offences=offences,
            messages=report.messages,
            deliveries=report.deliveries,
            packets=simulation.packets,
            crashed=self.crashed,
            tagged=report.tagged,
            broken=self.broken,
        )

    def blocked(self, report: Report) -> list[str]:
        """The nodes that wait for ever, and publications that were never made."""
        found = []
        for node, process in self.simulation.processes.items():
            if held := self.stuck(process):
                names = ", ".join(map(str, process.holding()[:5]))
                found.append(f"node {node} holds {held} messages for ever: {names}")
            found += [f"node {node} {what}" for what in self.unfinished(process)]
        if report.messages < self.asked and not self.trial.crashes and not self.may_wait:
            found.append(f"{self.asked} publications were asked for, {report.messages} made")
        return found
