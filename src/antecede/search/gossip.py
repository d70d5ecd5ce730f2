"""A random search for schedules in which gossip with predecessor lists goes wrong.

One seed is one run: brokers of overlapping groups publish to one group or several and answer what they read; the
subscribers take and leave groups and move from broker to broker; packets are lost, repeated and overtake each other;
brokers crash, for good or to come back with what they kept, and are suspected rightly and wrongly. The run goes on
until nothing moves any more; then the judge (`antecede.audit`) reads the trace.

Causal order, each source's order, nothing twice and nothing invented are asked of every run. That nobody misses a
message (`complete`) is asked where nobody had to give up on anything, and giving up is an offence of its own
(`gave-up`) where everything can be had by asking: where no broker crashed and, with rounds, nothing is so old that its
round cannot be told any more (`Plan.rounds_told`).

    verdict = search(4711)                      # what seed 4711 draws
    verdict = search(4711, Trial(brokers=8))    # with these sizes instead
"""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Final

import msgspec

from antecede.audit import audit
from antecede.core import Message, Packet
from antecede.protocols.gossip import Broker, Subscriber, groups_of, together
from antecede.protocols.gossip.options import GossipOptions
from antecede.protocols.gossip.rounds import RoundsBroker
from antecede.protocols.options import Founders, MakeProcess
from antecede.protocols.registry import options
from antecede.search.harness import Verdict, offences, run_to_rest
from antecede.search.rough_links import rough_links
from antecede.search.vcube_ps import holding, unfinished
from antecede.sim.engine import Simulation
from antecede.sim.tracing import Tracer
from antecede.sim.units import ticks
from antecede.trace import Recorder

#: A run that still moves after so many events, tens of times what it needs, never comes to rest.
EVENTS_MAX: Final = 400_000

_ORDER: Final = ("causal", "fifo", "exactly-once", "no-invention")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched: sizes, faults, and how often things happen."""

    version: str = "context"
    brokers: int = 5
    subscribers: int = 8
    groups: int = 3
    #: Probability that a broker, or a subscriber, takes a group from the beginning.
    overlap: float = 0.5
    #: Publications the applications make on their own, and the probability that a delivery is answered with one more.
    actions: int = 40
    answers: float = 0.15
    #: Probability that a message goes to more than one group.
    several: float = 0.3
    #: Subscriptions and unsubscriptions, and subscribers that move.
    changes: int = 6
    moves: int = 4
    #: Over how many u.t. all this is spread. Hops take 100 on average.
    window_of_time: float = 3000.0
    fifo: bool = False
    loss: float = 0.0
    duplication: float = 0.0
    #: How many brokers crash, how many of them for good, and how many suspicions are wrong.
    crashes: int = 0
    stay_down: float = 1.0
    false_suspicions: int = 0
    fanout: int = 2
    view: int = 8
    round: float = 150.0
    #: Of gossip-rounds.
    colours: int = 32
    #: Rounds before something is given up; 0: as by default.
    patience: int = 0
    #: Messages anybody holds back.
    held: int = 1000

    @property
    def patient(self) -> bool:
        """Can everybody have everything, if only he asks long enough?"""
        return not self.crashes


def trial_of(seed: int) -> Trial:
    """The trial a seed draws when none is given."""
    rng = random.Random(f"{seed}/trial")
    faulty = rng.random() < 0.7
    crashes = rng.choice([0, 0, 1, 2]) if faulty else 0
    return Trial(
        version=rng.choice(["context", "rounds"]),
        brokers=rng.choice([2, 4, 5, 8]),
        subscribers=rng.choice([2, 8, 12]),
        groups=rng.choice([1, 2, 3, 4]),
        overlap=rng.choice([0.3, 0.5, 0.8]),
        answers=rng.choice([0.05, 0.15, 0.3]),
        several=rng.choice([0.0, 0.3, 0.6]),
        changes=rng.choice([0, 6, 12]),
        moves=rng.choice([0, 4, 12]),
        window_of_time=rng.choice([1500.0, 3000.0, 8000.0]),
        fifo=rng.random() < 0.3,
        loss=rng.choice([0.0, 0.05, 0.05, 0.2]) if faulty else 0.0,
        duplication=rng.choice([0.0, 0.1]) if faulty else 0.0,
        crashes=crashes,
        stay_down=rng.choice([0.0, 0.5, 1.0]),
        false_suspicions=rng.choice([0, 4]) if faulty else 0,
        fanout=rng.choice([1, 2, 3]),
        view=rng.choice([3, 8]),
        colours=rng.choice([4, 8, 32]),
        patience=rng.choice([0, 0, 4]) if crashes else 1000,  # links may stand still for long, in order as they are
        held=rng.choice([8, 1000]),
    )


def search(seed: int, trial: Trial | None = None, make: Callable[[Trial, int], MakeProcess] | None = None) -> Verdict:
    """One run, judged. `make` puts other processes in the place of the protocol's: for mutations."""
    trial = trial or trial_of(seed)
    return _Run(seed, trial, (make or maker)(trial, seed)).judge()


def options_of(trial: Trial) -> GossipOptions:
    values: dict[str, object] = {
        "brokers": trial.brokers,
        "fanout": trial.fanout,
        "view": trial.view,
        "round": trial.round,
        "patience": trial.patience,
        "held": trial.held,
        "retain": 2 * trial.patience if trial.patient else 0,
        "durable": True,
    }
    if trial.version == "rounds":
        values["colours"] = trial.colours
    chosen = options(f"gossip-{trial.version}", values)
    assert isinstance(chosen, GossipOptions)
    return chosen


def maker(trial: Trial, seed: int) -> MakeProcess:
    nodes = trial.brokers + trial.subscribers
    return options_of(trial).build_chance(
        nodes, founders_of(trial), lambda node: random.Random(f"{seed}/protocol at {node}")
    )


def founders_of(trial: Trial) -> Founders:
    """The same for every seed of a trial: node numbers are interchangeable, schedules are not."""
    rng = random.Random("founders")
    members: dict[str, list[int]] = {f"g{number}": [] for number in range(1, trial.groups + 1)}
    for node in range(trial.brokers + trial.subscribers):
        taken = [group for group in members if rng.random() < trial.overlap]
        for group in taken or [rng.choice(list(members))]:
            members[group].append(node)
    return members


class _Tracer(Tracer):
    """Records who takes which topic: whoever takes one of its groups. Not the packets, which no rule asked reads."""

    def __init__(self, recorder: Recorder, groups: list[str]) -> None:
        super().__init__(recorder)
        self._topics = [together(chosen) for size in range(1, len(groups) + 1) for chosen in combinations(groups, size)]
        self._through: Counter[tuple[int, str]] = Counter()

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None: ...

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None: ...

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None: ...

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        if what not in ("subscribe", "unsubscribe"):
            super().changed(now, node, what, topic)
            return
        step = 1 if what == "subscribe" else -1
        for name in self._topics:
            if topic in groups_of(name):
                self._through[node, name] += step
                if self._through[node, name] == (1 if step == 1 else 0):
                    super().changed(now, node, what, name)


class _Run:
    """One schedule."""

    def __init__(self, seed: int, trial: Trial, make: MakeProcess) -> None:
        self.seed = seed
        self.trial = trial
        self.rng = random.Random(f"{seed}/actions")
        self.recorder = Recorder()
        founders = founders_of(trial)
        self.groups = sorted(founders)
        self.nodes = range(trial.brokers + trial.subscribers)
        self.subscribers = range(trial.brokers, trial.brokers + trial.subscribers)
        tracer = _Tracer(self.recorder, self.groups)
        network = rough_links(seed, loss=trial.loss, duplication=trial.duplication, fifo=trial.fifo)
        self.simulation = Simulation(make, self.nodes, network, [tracer])
        self.simulation.on_delivery = self._answer
        self.answers_left = 2 * trial.actions
        #: What brokers that crashed had given up.
        self.lost_counts = 0
        for group, members in founders.items():
            for node in members:
                tracer.changed(0, node, "subscribe", group)
        for _ in range(trial.actions):
            self.simulation.at(self._sometime(), self._publish_somewhere)
        for _ in range(trial.changes):
            self.simulation.at(self._sometime(), self._change)
        for _ in range(trial.moves):
            self.simulation.at(self._sometime(), self._move)
        for node in self.rng.sample(range(trial.brokers), min(trial.crashes, trial.brokers - 1)):
            self.simulation.at(self._sometime(), partial(self._crash, node))
        for _ in range(trial.false_suspicions):
            self.simulation.at(self._sometime(), self._suspect_wrongly)

    def _sometime(self) -> int:
        return ticks(self.rng.uniform(0, self.trial.window_of_time))

    def _soon(self, mean: float) -> int:
        return self.simulation.now + ticks(self.rng.expovariate(1 / mean))

    # -- what applications do -----------------------------------------------------------------------------------------

    def _publish_somewhere(self) -> None:
        self._publish(self.rng.randrange(self.trial.brokers))

    def _answer(self, node: int, message: Message) -> None:
        if node < self.trial.brokers and self.answers_left and self.rng.random() < self.trial.answers:
            self.answers_left -= 1
            self._publish(node)

    def _publish(self, node: int) -> None:
        broker = self.simulation.processes.get(node)
        if not isinstance(broker, Broker):
            return
        topics = broker.may_publish()
        if not topics:
            return
        if self.trial.version == "rounds":
            self.simulation.publish(node, topics[0], b"")
            return
        count = self.rng.randint(2, 3) if self.rng.random() < self.trial.several else 1
        chosen = self.rng.sample(topics, min(count, len(topics)))
        self.simulation.publish(node, together(chosen), b"")

    def _change(self) -> None:
        """A subscriber, or a broker's own application, takes a group or leaves one."""
        node = self.rng.choice(self.nodes)
        process = self.simulation.processes.get(node)
        if not isinstance(process, Broker | Subscriber):
            return
        group = self.rng.choice(self.groups)
        if group in process.takes_groups:
            self.simulation.unsubscribe(node, group)
        else:
            self.simulation.subscribe(node, group)

    def _move(self) -> None:
        node = self.rng.choice(self.subscribers)
        process = self.simulation.processes[node]
        assert isinstance(process, Subscriber)
        home = process.home
        self.simulation.suspect(node, home)
        self.simulation.at(self._soon(500), lambda: self._notice(node, home))

    # -- what goes wrong ----------------------------------------------------------------------------------------------

    def _crash(self, node: int) -> None:
        simulation = self.simulation
        if self.rng.random() < 0.5:
            self._publish(node)  # messages a broker does not live to look after are what giving up is about
        self.lost_counts += refused(simulation.processes[node])
        simulation.crash(node)
        for other in self.nodes:
            if other != node:
                simulation.at(self._soon(400), partial(self._notice_crash, other, node))
        if self.rng.random() >= self.trial.stay_down:
            simulation.at(self._soon(self.trial.window_of_time / 3), partial(self._recover, node))

    def _notice_crash(self, node: int, peer: int) -> None:
        """Also who comes back soon was away: its subscribers must turn to somebody."""
        self.simulation.suspect(node, peer)
        if peer in self.simulation.processes:
            self.simulation.at(self._soon(100), partial(self._notice, node, peer))

    def _recover(self, node: int) -> None:
        self.simulation.recover(node)
        for other in self.nodes:
            if other != node:
                self.simulation.at(self._soon(400), partial(self._notice, other, node))
                self.simulation.at(self._soon(400), partial(self._notice, node, other))

    def _notice(self, node: int, peer: int) -> None:
        """The failure detector of `node` finds out how `peer` is."""
        if peer in self.simulation.processes:
            self.simulation.trust(node, peer)
        else:
            self.simulation.suspect(node, peer)

    def _suspect_wrongly(self) -> None:
        if self.trial.brokers > 1:
            node, peer = self.rng.sample(range(self.trial.brokers), 2)
            self.simulation.suspect(node, peer)
            self.simulation.at(self._soon(800), partial(self._notice, node, peer))

    # -- the verdict --------------------------------------------------------------------------------------------------

    def judge(self) -> Verdict:
        simulation, trial = self.simulation, self.trial
        run_to_rest(simulation, trial.window_of_time, EVENTS_MAX)
        given_up = self.lost_counts + sum(refused(process) for process in simulation.processes.values())
        rules = _ORDER if given_up else (*_ORDER, "complete")
        if not given_up and not trial.crashes:
            rules = (*rules, "agreement")
        report = audit(self.recorder.rows(), rules=rules)
        more = {
            "blocked": [] if simulation.pending else self._blocked(),
            "gave-up": [f"{given_up} messages, though everything could be had"] if given_up and self._lasting else [],
        }
        return Verdict(
            seed=self.seed,
            offences=offences(report, simulation, more),
            messages=report.messages,
            deliveries=report.deliveries,
            packets=simulation.packets,
        )

    @property
    def _lasting(self) -> bool:
        """Could everything be had to the end?"""
        brokers = [process for process in self.simulation.processes.values() if isinstance(process, RoundsBroker)]
        return self.trial.patient and all(broker.time <= broker.plan.rounds_told for broker in brokers)

    def _blocked(self) -> list[str]:
        found = []
        for node, process in self.simulation.processes.items():
            if process.held:
                found.append(f"node {node} holds {', '.join(map(str, holding(process)))} for ever")
            found += [f"node {node} {what}" for what in unfinished(process)]
        return found


def refused(process: object) -> int:
    """How often a process went on without something."""
    if isinstance(process, Broker):
        return process.order.late + process.order.given_up
    assert isinstance(process, Subscriber)
    return process.reader.late + process.reader.given_up + process.forgone
