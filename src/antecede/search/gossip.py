"""Random schedules for gossip with predecessor lists.

Brokers of overlapping groups publish to one group or several and answer what they read. Subscribers take and leave
groups and move from broker to broker. Packets are lost, repeated and overtake each other. Brokers crash, for good or
to come back with what they kept, and are suspected rightly and wrongly.

Causal order, each source's order, nothing twice and nothing invented are asked of every run. That no node misses a
message (`complete`) is asked where no node gave up on one. Giving up is an offence of its own (`gave-up`) where every
message can be obtained by asking: where no broker crashed and, with rounds, no message is so old that its round cannot
be told any more (`Plan.rounds_told`).

A fifth of the trials are long absences: brokers have logs, store few messages, crash for longer than that and come
back. Nothing may be lost then (`complete`, `agreement`), and no session may be broken off (`skipped`) unless retention
removes messages from logs.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations

from antecede.audit import Report
from antecede.protocols.gossip import Broker, Subscriber, groups_of, together
from antecede.protocols.gossip.options import GossipOptions
from antecede.protocols.gossip.rounds import RoundsBroker
from antecede.protocols.options import Founders, MakeProcess
from antecede.protocols.registry import options
from antecede.search import harness
from antecede.search.harness import NOTHING_LOST, ORDER, AppTracer, Run
from antecede.trace import Recorder, Row


class Trial(harness.Trial, frozen=True, kw_only=True):
    """What is searched."""

    version: str = "context"
    brokers: int = 5
    subscribers: int = 8
    groups: int = 3
    #: Probability that a broker, or a subscriber, takes a group from the beginning.
    overlap: float = 0.5
    actions: int = 40
    #: Probability that a message goes to more than one group.
    several: float = 0.3
    #: Subscriptions and unsubscriptions, and subscribers that move.
    changes: int = 6
    moves: int = 4
    window_of_time: float = 3000.0
    #: Probability that a crashed broker stays down.
    stay_down: float = 1.0
    fanout: int = 2
    view: int = 8
    round: float = 150.0
    #: Of gossip-rounds.
    colours: int = 32
    #: Rounds before a missing message is given up; 0: the protocol's default.
    patience: int = 0
    #: Messages a node holds at most.
    held: int = 1000
    #: Long absences: brokers have logs, and fetch what they missed from those of others (`gossip.catching_up`).
    #: `log_keeps`: messages of each source that retention leaves in a log; 0: all. `store`: messages in memory.
    log: bool = False
    log_keeps: int = 0
    store: int = 65_536

    @property
    def patient(self) -> bool:
        """Can every node obtain every message by asking long enough?"""
        return not self.crashes


def trial_of(seed: int) -> Trial:
    """A fifth of the trials are long absences."""
    return absence_of(seed) if seed % 5 == 4 else mixed_of(seed)


def mixed_of(seed: int) -> Trial:
    """Subscribers come, go and move, brokers crash for good or for a while, or nothing goes wrong."""
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
        patience=rng.choice([0, 0, 4]) if crashes else 1000,  # an in-order link may stand still for long
        held=rng.choice([8, 1000]),
    )


def absence_of(seed: int) -> Trial:
    """Brokers are away for longer than the others store messages, and all come back."""
    rng = random.Random(f"{seed}/absence")
    keeps = rng.choice([0, 0, 0, 12])
    return Trial(
        brokers=rng.choice([2, 3, 4, 8]),
        subscribers=0,
        groups=1 if keeps else rng.choice([1, 1, 2]),
        overlap=1.0 if keeps else 0.8,
        actions=rng.choice([60, 120]),
        answers=rng.choice([0.0, 0.15, 0.3]),
        several=rng.choice([0.0, 0.3]),
        changes=0,
        moves=0,
        window_of_time=rng.choice([3000.0, 8000.0]),
        fifo=rng.random() < 0.3,
        loss=rng.choice([0.0, 0.05, 0.2]),
        duplication=rng.choice([0.0, 0.1]),
        crashes=rng.choice([1, 2, 3]),
        stay_down=0.0,
        false_suspicions=rng.choice([0, 0, 4]),
        fanout=rng.choice([1, 2, 3]),
        view=rng.choice([3, 8]),
        patience=rng.choice([0, 4, 40]),
        held=rng.choice([8, 40, 1000]),
        log=True,
        log_keeps=keeps,
        store=rng.choice([1, 2, 4, 8]),
    )


def options_of(trial: Trial) -> GossipOptions:
    values: dict[str, object] = {
        "brokers": trial.brokers,
        "fanout": trial.fanout,
        "view": trial.view,
        "round": trial.round,
        "patience": trial.patience,
        "held": trial.held,
        "store": trial.store,
        "retain": 2 * trial.patience if trial.patient else 0,
        "durable": True,
    }
    if trial.version == "rounds":
        values["colours"] = trial.colours
    else:
        values["log"] = trial.log
    chosen = options(f"gossip-{trial.version}", values)
    assert isinstance(chosen, GossipOptions)
    return chosen


def make_gossip(seed: int, trial: Trial) -> MakeProcess:
    nodes = trial.brokers + trial.subscribers
    return options_of(trial).build_with_rng(
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


class _GroupTracer(AppTracer):
    """Records the topics a node takes: those that name at least one of its groups."""

    def __init__(self, recorder: Recorder, groups: Sequence[str]) -> None:
        super().__init__(recorder)
        self._topics = [together(chosen) for size in range(1, len(groups) + 1) for chosen in combinations(groups, size)]
        self._through: Counter[tuple[int, str]] = Counter()
        #: How often a node left a group.
        self.left = 0

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        if what not in ("subscribe", "unsubscribe"):
            super().changed(now, node, what, topic)
            return
        step = 1 if what == "subscribe" else -1
        self.left += step < 0
        for name in self._topics:
            if topic in groups_of(name):
                self._through[node, name] += step
                if self._through[node, name] == (1 if step == 1 else 0):
                    super().changed(now, node, what, name)


class GossipRun(Run[Trial]):
    draw = staticmethod(trial_of)

    def prepare(self) -> None:
        #: Messages that brokers had given up before they crashed.
        self.given_up_before = 0

    @property
    def nodes(self) -> range:
        return range(self.trial.brokers + self.trial.subscribers)

    @property
    def publishers(self) -> range:
        return range(self.trial.brokers)

    def founders(self) -> Founders:
        return founders_of(self.trial)

    def maker(self) -> MakeProcess:
        return make_gossip(self.seed, self.trial)

    def make_tracer(self) -> AppTracer:
        self.groups = _GroupTracer(self.recorder, self.topics)
        return self.groups

    @property
    def log_keeps(self) -> int | None:
        return self.trial.log_keeps or None

    @property
    def compacts(self) -> bool:
        return self.trial.log

    @property
    def broken(self) -> int:
        return self.groups.left if self.trial.log else 0

    def actions(self) -> Sequence[tuple[int, Callable[[], None]]]:
        return [
            (self.trial.actions, lambda: self._publish(self.rng.randrange(self.trial.brokers))),
            (self.trial.changes, self._change),
            (self.trial.moves, self._move),
        ]

    def answer(self, node: int) -> None:
        self.answers_left -= 1
        self._publish(node)

    def _publish(self, node: int) -> None:
        broker = self.simulation.processes.get(node)
        topics = broker.may_publish() if isinstance(broker, Broker) else []
        if not topics:
            return
        if self.trial.version == "rounds":
            self.publish(node, topics[0])
            return
        count = self.rng.randint(2, 3) if self.rng.random() < self.trial.several else 1
        self.publish(node, together(self.rng.sample(topics, min(count, len(topics)))))

    def _change(self) -> None:
        """A subscriber, or a broker's own application, takes a group or leaves one."""
        node = self.rng.choice(self.nodes)
        process = self.simulation.processes.get(node)
        if process is not None:
            group = self.rng.choice(self.topics)
            change = self.simulation.unsubscribe if process.takes(group) else self.simulation.subscribe
            change(node, group)

    def _move(self) -> None:
        """A subscriber suspects its broker and turns to another."""
        node = self.rng.choice(self.nodes[self.trial.brokers :])
        process = self.simulation.processes[node]
        assert isinstance(process, Subscriber)
        self.suspect_for_a_while(node, process.home, 500)

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def before_crash(self, node: int) -> None:
        if self.rng.random() < self.last_words_share:
            self._publish(node)
        self.given_up_before += self.simulation.processes[node].given_up

    def comes_back(self, node: int) -> bool:
        return self.rng.random() >= self.trial.stay_down

    def notice_crash(self, node: int, peer: int) -> None:
        """A broker that is back already was away as well: its subscribers must turn to another."""
        self.simulation.suspect(node, peer)
        if peer in self.simulation.processes:
            self.simulation.at(self.soon(100), partial(self.notice, node, peer))

    # -- the verdict --------------------------------------------------------------------------------------------

    def _given_up(self) -> int:
        return self.given_up_before + sum(process.given_up for process in self.simulation.processes.values())

    def rules(self, rows: Sequence[Row]) -> tuple[str, ...]:
        if self.trial.log:
            return NOTHING_LOST
        if self._given_up():
            return ORDER
        return (*ORDER, "complete") if self.trial.crashes else NOTHING_LOST

    def checks(self, rows: Sequence[Row], report: Report) -> Mapping[str, Sequence[str]]:
        brokers = [process for process in self.simulation.processes.values() if isinstance(process, RoundsBroker)]
        obtainable = self.trial.patient and all(broker.time <= broker.plan.rounds_told for broker in brokers)
        count = self._given_up()
        skipped = self.broken if not self.trial.log_keeps else 0
        return {
            "skipped": [f"{skipped} sessions were broken off, though every message is in a log"] if skipped else [],
            "blocked": self.blocked(report),
            "gave-up": [f"{count} messages, though all could be obtained"] if count and obtainable else [],
        }


search = GossipRun.search
