"""Random schedules for total notification order.

Nodes with overlapping subscriptions publish, answer what they read, join and leave topics, over an event service and
links with heavy-tailed delays. Links may reorder, lose and repeat packets; topics change their positions in the order;
nodes crash (also managers in the middle of timestamping), are suspected rightly or wrongly, and come back or not.

Among untagged notifications no two subscribers may disagree. Nothing may be lost or delivered twice. Order is causal
inside a topic, and across topics where publishers take one timestamp at a time. A node that is up must take the topics
it wants, and no others. Where nothing changes, every message can wait and timestamps take one way, nothing may be
tagged.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from antecede.audit import Report
from antecede.core import Process
from antecede.protocols.options import MakeProcess
from antecede.protocols.tno import OrderingModule, TotalOrder
from antecede.protocols.tno.options import SERVICES, TnoOptions
from antecede.protocols.tno.straight_service import straight_service
from antecede.search import harness
from antecede.search.harness import NOTHING_LOST, Run
from antecede.search.rough_links import rough_links
from antecede.sim.network import Network, fixed_per_link
from antecede.sim.units import ticks
from antecede.trace import Row

Service: TypeAlias = Literal["vcube-ps", "srpt-s", "scribe", "straight"]


class Trial(harness.Trial, frozen=True, kw_only=True):
    """What is searched."""

    nodes: int = 8
    topics: int = 4
    #: How many topics the order names; −1: all. The others are appended when they first appear.
    listed: int = -1
    #: The event service; straight: to every node, in no order (`straight_service`).
    ens: Service = "vcube-ps"
    mode: Literal["plus", "faithful"] = "plus"
    route: Literal["direct", "through"] = "direct"
    #: Events a subscriber holds, −1 for any number, and for how long, in u.t.; 0: for ever.
    buffer: int = -1
    ttl: float = 20_000.0
    #: Timestamps a publisher asks for at a time.
    window: int = 64
    replicas: int = 1
    #: U.t. after which an event that is numbered and not published is declared void. Without crashes: never.
    lease: float = 30_000.0
    #: Swaps: how much more popular a topic must be, 0 for an order that stays; how soon popularity saturates; and over
    #: how many recent events it is counted, 0 for all.
    beta: float = 0.0
    alpha: float = 1.0
    recent: int = 0
    answers: float = 0.1
    #: Probability that an action is to join or leave a topic instead of publishing.
    churn: float = 0.3
    #: Probability that a node takes a topic from the beginning; or for each node the numbers of its topics.
    founders: float | tuple[tuple[int, ...], ...] = 0.5
    #: Each link draws one delay instead of one a packet: some ways are always slower than others.
    fixed: bool = False
    #: Does the first node that crashes stay down?
    stays_down: bool = False

    @property
    def tags_nothing(self) -> bool:
        """Can every notification of this run be in order?"""
        waits = self.buffer < 0 and self.ttl == 0 and self.mode == "plus"
        steady = self.route == "through" and self.listed < 0 and not self.churn and not self.beta and not self.crashes
        return waits and steady


def trial_of(seed: int) -> Trial:
    """A third of the trials are with faults, in a fifth nothing may be tagged."""
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


def make_with(**parts: Callable[..., Any]) -> Callable[[int, Trial], MakeProcess]:
    """Makes the processes of a trial, with other `parts` of the ordering module: make_manager, make_clock, …"""

    def maker(seed: int, trial: Trial) -> MakeProcess:
        founders = founders_of(seed, trial)
        settings = options_of(trial).settings(trial.nodes, founders)
        if trial.ens == "straight":
            service = straight_service(founders)
        else:
            service = SERVICES[trial.ens](2000.0).build_groups(trial.nodes, founders)
        return lambda node: TotalOrder(OrderingModule(node, settings, **parts), service(node))

    return maker


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
        return {topic: [n for n in nodes if number in founders[n]] for number, topic in enumerate(topics_of(trial))}
    rng = random.Random(f"{seed}/founders")
    return {topic: [node for node in nodes if rng.random() < founders] for topic in topics_of(trial)}


def topics_of(trial: Trial) -> list[str]:
    return [f"t{number}" for number in range(trial.topics)]


class TnoRun(Run[Trial]):
    draw = staticmethod(trial_of)

    @property
    def nodes(self) -> range:
        return range(self.trial.nodes)

    def founders(self) -> dict[str, list[int]]:
        return founders_of(self.seed, self.trial)

    def maker(self) -> MakeProcess:
        return make_with()(self.seed, self.trial)

    def network(self) -> Network:
        trial, delays = self.trial, None
        if trial.fixed:
            delays = fixed_per_link(f"{self.seed}/network", lambda rng: ticks(min(2000, 30 * rng.paretovariate(1))))
        return rough_links(
            self.seed, loss=trial.loss, duplication=trial.duplication, fifo=trial.fifo, propagation=delays
        )

    def actions(self) -> Sequence[tuple[int, Callable[[], None]]]:
        return [(self.trial.actions, self._act)]

    def _act(self) -> None:
        if (found := self.somewhere()) is None:
            return
        if self.rng.random() < self.trial.churn:
            self.toggle(*found)
        elif found in self.wanted:
            self.publish(*found)

    def victims(self) -> Sequence[int]:
        victims = super().victims()
        self.gone = victims[:1] if self.trial.stays_down else []
        return victims

    def comes_back(self, node: int) -> bool:
        return node not in self.gone

    # -- the verdict --------------------------------------------------------------------------------------------

    def rules(self, rows: Sequence[Row]) -> tuple[str, ...]:
        return ("total", *NOTHING_LOST)

    @property
    def across_topics(self) -> bool:
        return self.trial.window == 1 and not self.trial.beta

    def stuck(self, process: Process) -> int:
        """The event service may hold messages that the ordering module no longer needs."""
        assert isinstance(process, TotalOrder)
        return process.module.held

    def checks(self, rows: Sequence[Row], report: Report) -> Mapping[str, Sequence[str]]:
        tagged = f"{report.tagged} notifications are tagged, though everything could be in order"
        return {
            "blocked": [*self.blocked(report), *self._unsettled()],
            "tagged": [tagged] if self.trial.tags_nothing and report.tagged else [],
        }

    def _unsettled(self) -> list[str]:
        """The nodes that never took, or never left, a topic as they were asked to."""
        found = []
        for node, process in self.simulation.processes.items():
            for topic in self.topics:
                if process.wants(topic) != process.takes(topic):
                    found.append(f"node {node} never {'took' if process.wants(topic) else 'left'} {topic}")
        return found


search = TnoRun.search
