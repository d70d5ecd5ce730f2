"""A random search for schedules in which total notification order goes wrong.

One seed is one run: nodes with overlapping subscriptions publish, answer what they read, join and leave topics, over an
event service and links with heavy-tailed delays; links may reorder, lose and repeat, topics change places, nodes crash
(managers of topics among them, in the middle of timestamping), are suspected rightly or wrongly, and come back or not.
The run goes on until nothing moves any more. Then the judge (`antecede.audit`) reads the trace: among untagged
notifications no two subscribers may disagree, nothing may be lost or given twice, order inside a topic is causal, and
across topics where publishers take one timestamp at a time. Whoever is up must take what it wants, and nothing else.
Where nothing changes, nothing is given up and timestamps take one way, nothing may be tagged.

    verdict = search(4711)                      # what seed 4711 draws
    verdict = search(4711, Trial(topics=6))     # with these sizes instead
    assert verdict.ok, verdict.words
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import msgspec

from antecede.audit import audit
from antecede.core import Message, Packet, Process
from antecede.protocols.options import MakeProcess
from antecede.protocols.tno import Manager, OrderingModule, Publisher, SubscriptionClock, TotalOrder
from antecede.protocols.tno.options import SERVICES, TnoOptions
from antecede.protocols.tno.straight_service import straight_service
from antecede.search.harness import Verdict, offences, run_to_rest
from antecede.search.rough_links import rough_links
from antecede.sim.engine import Simulation
from antecede.sim.network import Network, fixed_per_link
from antecede.sim.tracing import Tracer
from antecede.sim.units import ticks
from antecede.trace import Event, Recorder

#: A run that still moves after so many events, hundreds of times what it needs, never comes to rest.
EVENTS_MAX: Final = 500_000

_RULES: Final = ("total", "causal", "fifo", "exactly-once", "no-invention", "complete", "agreement")


Service: TypeAlias = Literal["vcube-ps", "srpt-s", "scribe", "straight"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched: sizes, options, faults, and how often things happen."""

    nodes: int = 8
    topics: int = 4
    #: How many of them the order names; −1: all. The others find their places as they come.
    listed: int = -1
    #: The event service; straight: to everybody, in no order (`straight_service`).
    ens: Service = "vcube-ps"
    mode: Literal["plus", "faithful"] = "plus"
    route: Literal["direct", "through"] = "direct"
    #: Events a subscriber holds, −1 for any number, and for how long, in u.t.; 0: for ever.
    buffer: int = -1
    ttl: float = 20_000.0
    #: Timestamps a publisher asks for at a time.
    window: int = 64
    replicas: int = 1
    #: When an event that is numbered and not published is declared void, in u.t.; where nobody crashes, never.
    lease: float = 30_000.0
    #: Swaps: how much more popular a topic must be, 0 for an order that stays; how soon popularity saturates; and of
    #: how many recent events it is counted, 0 for all.
    beta: float = 0.0
    alpha: float = 1.0
    recent: int = 0
    #: Things the applications do on their own; each delivery may cause one more.
    actions: int = 60
    #: Probability that a delivery is answered with a publication.
    answers: float = 0.1
    #: Probability that an action is to join or leave a topic instead of publishing.
    churn: float = 0.3
    #: Over how many u.t. the actions are spread. Hops take 100 on average.
    window_of_time: float = 4000.0
    #: Probability that a node takes a topic from the beginning; or for each node the numbers of those it takes.
    founders: float | tuple[tuple[int, ...], ...] = 0.5
    fifo: bool = False
    #: One delay a link, drawn once, instead of one a packet: some ways are always slower than others.
    fixed: bool = False
    loss: float = 0.0
    duplication: float = 0.0
    #: How many nodes crash, and whether the first of them stays down.
    crashes: int = 0
    stays_down: bool = False
    false_suspicions: int = 0

    @property
    def tags_nothing(self) -> bool:
        """Is this a run in which everything can be notified in order?"""
        waits = self.buffer < 0 and self.ttl == 0 and self.mode == "plus"
        steady = self.route == "through" and self.listed < 0 and not self.churn and not self.beta and not self.crashes
        return waits and steady


class ScheduleVerdict(Verdict, frozen=True, kw_only=True):
    """What came of one schedule."""

    trial: Trial
    #: Notifications tagged out of order, subscriptions that took effect, epochs of the order of topics.
    tagged: int
    joins: int
    epochs: int


def trial_of(seed: int) -> Trial:
    """The trial a seed draws when none is given: a third with faults, a fifth in which nothing may be tagged."""
    rng = random.Random(f"{seed}/trial")
    ens: Service = rng.choice(["vcube-ps", "vcube-ps", "vcube-ps", "srpt-s", "scribe", "straight"])
    strict = rng.random() < 0.2
    lossy = ens == "vcube-ps" and rng.random() < 0.5
    crashes = lossy and not strict and rng.random() < 0.7
    replicas = rng.choice([1, 3])
    return Trial(
        nodes=rng.choice([4, 6, 8, 8]),
        topics=rng.choice([2, 3, 4, 6]),
        listed=-1 if strict else rng.choice([-1, 1]),
        ens=ens,
        mode="plus" if strict or rng.random() < 0.7 else "faithful",
        route="through" if strict or rng.random() < 0.3 else "direct",
        buffer=-1 if strict else rng.choice([-1, -1, 0, 1, 5]),
        ttl=0.0 if strict else rng.choice([500.0, 20_000.0] if crashes else [0.0, 500.0, 20_000.0]),
        window=rng.choice([1, 4, 64]),
        replicas=replicas,
        lease=random.Random(f"{seed}/lease").choice([1000.0, 30_000.0]),
        beta=0.0 if strict else rng.choice([0.0, 0.0, 0.02, 0.1]),
        alpha=rng.choice([0.1, 1.0]),
        recent=rng.choice([0, 10]),
        churn=0.0 if strict else rng.choice([0.0, 0.1, 0.4]),
        window_of_time=rng.choice([1500.0, 4000.0, 8000.0]),
        founders=rng.choice([0.3, 0.6, 0.9]),
        answers=rng.choice([0.05, 0.15]),
        fifo=rng.random() < 0.5,
        fixed=rng.random() < 0.3,
        loss=rng.choice([0.0, 0.05, 0.2]) if lossy else 0.0,
        duplication=rng.choice([0.0, 0.1]) if lossy else 0.0,
        crashes=rng.choice([1, 2]) if crashes else 0,
        stays_down=replicas == 3 and rng.random() < 0.5,
        false_suspicions=rng.choice([0, 4]) if crashes else 0,
    )


def search(
    seed: int,
    trial: Trial | None = None,
    *,
    manager: Callable[..., Manager] = Manager,
    clock: Callable[..., SubscriptionClock] = SubscriptionClock,
    publisher: Callable[..., Publisher] = Publisher,
) -> ScheduleVerdict:
    """One run, judged. `manager`, `clock` and `publisher` put others in the place of TNO's: for mutations."""
    trial = trial or trial_of(seed)
    founders = founders_of(seed, trial)
    parts = {"make_manager": manager, "make_clock": clock, "make_publisher": publisher}
    return _Run(seed, trial, founders, maker(trial, founders, parts)).judge()


def maker(trial: Trial, founders: dict[str, list[int]], parts: dict[str, Callable[..., Any]]) -> MakeProcess:
    """`parts` of the ordering module."""
    settings = options_of(trial).settings(trial.nodes, founders)
    if trial.ens == "straight":
        service = straight_service(founders)
    else:
        service = SERVICES[trial.ens](2000.0).build_groups(trial.nodes, founders)

    def make(node: int) -> Process:
        return TotalOrder(OrderingModule(node, settings, **parts), service(node))

    return make


def options_of(trial: Trial) -> TnoOptions:
    listed = topics_of(trial)[: None if trial.listed < 0 else trial.listed]
    return TnoOptions(
        order=" ".join(listed),
        mode=trial.mode,
        route=trial.route,
        buffer=trial.buffer,
        ttl=trial.ttl,
        window=trial.window,
        replicas=trial.replicas,
        beta=trial.beta,
        alpha=trial.alpha,
        recent=trial.recent,
        retry=2000.0,
        tries=0,
        lease=trial.lease if trial.crashes else 0.0,
    )


def founders_of(seed: int, trial: Trial) -> dict[str, list[int]]:
    nodes, founders = range(trial.nodes), trial.founders
    if isinstance(founders, tuple):
        return {topic: [n for n in nodes if place in founders[n]] for place, topic in enumerate(topics_of(trial))}
    rng = random.Random(f"{seed}/founders")
    return {topic: [node for node in nodes if rng.random() < founders] for topic in topics_of(trial)}


def topics_of(trial: Trial) -> list[str]:
    return [f"t{number}" for number in range(trial.topics)]


class _Tracer(Tracer):
    """Leaves out control packets: half of a run, and no rule asks for them."""

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        if packet.messages:
            super().sent(now, node, to, number, packet, size)

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        if packet.messages:
            super().received(now, node, sender, number, packet, size)


class _Run:
    """One schedule."""

    def __init__(self, seed: int, trial: Trial, founders: dict[str, list[int]], make: MakeProcess) -> None:
        self.seed = seed
        self.trial = trial
        self.rng = random.Random(f"{seed}/actions")
        self.recorder = Recorder()
        tracer = _Tracer(self.recorder)
        self.simulation = Simulation(make, range(trial.nodes), self._network(), [tracer])
        self.simulation.on_delivery = self._answer
        self.answers_left = 2 * trial.actions
        self.asked = 0
        for topic, members in founders.items():
            for node in members:
                tracer.changed(0, node, "subscribe", topic)
        for _ in range(trial.actions):
            self.simulation.at(self._sometime(), self._act)
        for place, node in enumerate(self.rng.sample(range(trial.nodes), trial.crashes)):
            self.simulation.at(self._sometime(), partial(self._crash, node, trial.stays_down and place == 0))
        for _ in range(trial.false_suspicions):
            self.simulation.at(self._sometime(), self._suspect_wrongly)

    def _network(self) -> Network:
        trial = self.trial
        fixed = None
        if trial.fixed:
            fixed = fixed_per_link(f"{self.seed}/network", lambda rng: ticks(min(2000, 30 * rng.paretovariate(1))))
        return rough_links(
            self.seed, loss=trial.loss, duplication=trial.duplication, fifo=trial.fifo, propagation=fixed
        )

    def _sometime(self) -> int:
        return ticks(self.rng.uniform(0, self.trial.window_of_time))

    def _soon(self, mean: float) -> int:
        return self.simulation.now + ticks(self.rng.expovariate(1 / mean))

    # -- what applications do -----------------------------------------------------------------------------------

    def _node(self, node: int) -> TotalOrder | None:
        process = self.simulation.processes.get(node)
        assert process is None or isinstance(process, TotalOrder)
        return process

    def _act(self) -> None:
        node = self.rng.randrange(self.trial.nodes)
        topic = self.rng.choice(topics_of(self.trial))
        process = self._node(node)
        if process is None:
            return
        changes = self.rng.random() < self.trial.churn
        if process.wants(topic) and changes:
            self.simulation.unsubscribe(node, topic)
        elif process.wants(topic):
            self._publish(node, topic)
        elif changes:
            self.simulation.subscribe(node, topic)

    def _answer(self, node: int, message: Message) -> None:
        if self.answers_left and self.rng.random() < self.trial.answers:
            topic = self.rng.choice(topics_of(self.trial))
            process = self._node(node)
            if process is not None and process.wants(topic):
                self.answers_left -= 1
                self._publish(node, topic)

    def _publish(self, node: int, topic: str) -> None:
        self.asked += 1
        self.simulation.publish(node, topic, b"")

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def _others(self, node: int) -> list[int]:
        return [other for other in range(self.trial.nodes) if other != node]

    def _crash(self, node: int, for_good: bool) -> None:
        for topic in topics_of(self.trial):
            process = self._node(node)
            if process is not None and process.wants(topic) and self.rng.random() < 0.5:
                self._publish(node, topic)  # what is under way when it crashes
        self.simulation.crash(node)
        for other in self._others(node):
            self.simulation.at(self._soon(400), partial(self._notice, other, node))
        if not for_good:
            self.simulation.at(self._soon(self.trial.window_of_time / 3), partial(self._recover, node))

    def _recover(self, node: int) -> None:
        self.simulation.recover(node)
        for other in self._others(node):
            self.simulation.at(self._soon(400), partial(self._notice, other, node))
            self.simulation.at(self._soon(400), partial(self._notice, node, other))

    def _notice(self, node: int, peer: int) -> None:
        """The failure detector of `node` finds out how `peer` is."""
        if peer in self.simulation.processes:
            self.simulation.trust(node, peer)
        else:
            self.simulation.suspect(node, peer)

    def _suspect_wrongly(self) -> None:
        node, peer = self.rng.sample(range(self.trial.nodes), 2)
        self.simulation.suspect(node, peer)
        self.simulation.at(self._soon(800), partial(self._notice, node, peer))

    # -- the verdict --------------------------------------------------------------------------------------------

    def judge(self) -> ScheduleVerdict:
        simulation, trial = self.simulation, self.trial
        run_to_rest(simulation, trial.window_of_time, EVENTS_MAX)
        rows = list(self.recorder.rows())
        across = trial.window == 1 and not trial.beta
        report = audit(rows, rules=_RULES, across_topics=across)
        tagged = f"{report.tagged} notifications are tagged, though everything could be in order"
        more = {
            "blocked": self._blocked(report.messages),
            "tagged": [tagged] if trial.tags_nothing and report.tagged else [],
        }
        return ScheduleVerdict(
            seed=self.seed,
            trial=trial,
            offences=offences(report, simulation, more),
            messages=report.messages,
            deliveries=report.deliveries,
            packets=simulation.packets,
            tagged=report.tagged,
            joins=sum(row.event is Event.SUBSCRIBE for row in rows),
            epochs=max(
                (node.epoch for node in simulation.processes.values() if isinstance(node, TotalOrder)), default=0
            ),
        )

    def _blocked(self, published: int) -> list[str]:
        """Who waits for ever."""
        found = []
        for node, process in self.simulation.processes.items():
            assert isinstance(process, TotalOrder)
            if process.module.held:
                found.append(f"node {node} holds {process.module.held} messages for ever")
            found += [f"node {node} {what}" for what in process.unfinished()]
            for topic in topics_of(self.trial):
                if process.wants(topic) != process.module.takes(topic):
                    found.append(f"node {node} never {'took' if process.wants(topic) else 'left'} {topic}")
        if published < self.asked and not self.trial.crashes:
            found.append(f"{self.asked} publications were asked for, {published} made")
        return found
