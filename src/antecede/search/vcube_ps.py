"""Random schedules for VCube-PS.

Nodes subscribe, unsubscribe, publish, answer what they read and rejoin, over links with heavy-tailed delays that may
reorder, lose and repeat packets. In the mode that allows for it, nodes crash, are suspected rightly or wrongly, and
recover.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import msgspec

from antecede.audit import Report
from antecede.core import Message, Process
from antecede.core.epochs import epoch_of, within_epoch
from antecede.core.partitions import homes
from antecede.protocols.options import MakeProcess
from antecede.protocols.vcube_ps.options import VCubePsOptions
from antecede.protocols.vcube_ps.records import Forgotten
from antecede.search import harness
from antecede.search.harness import NOTHING_LOST, AppTracer, Run, Verdict
from antecede.search.homes import HomeLife
from antecede.sim.units import ticks
from antecede.trace import Event, Recorder, Row


class Trial(harness.Trial, frozen=True, kw_only=True):
    """What is searched."""

    nodes: int = 8
    topics: int = 1
    mode: str = "faithful"
    domain: str = "topic"
    window: int = 64
    aggregate: bool = False
    #: Probability that a member's action is to leave.
    leaves: float = 0.3
    #: Share of the nodes that are members from the beginning.
    founders: float = 0.5
    #: Probability that the action of a node outside is to publish, not to join. If above 0, nodes outside also answer
    #: and leave last words.
    outside: float = 0.0
    drop_stable: bool = False
    #: Compact what a node kept before it recovers, log or not.
    compacts: bool = False
    #: Long absences: nodes have logs, hold few messages in memory and fetch what they missed (`vcube_ps.catching_up`).
    #: `log_keeps`: messages of each source that retention leaves in a log; 0: all.
    log: bool = False
    log_keeps: int = 0
    retain: int = 100_000
    burst: int = 64
    chunk: int = 1024
    held_bytes: int = 64 * 1024 * 1024
    patience: float = 0.0
    #: Probability that a crashed node stays down. Across topics a message may be lost with all nodes that had it while
    #: others depend on it (`vcube_ps.order`), so there all come back.
    stay_down: float = 0.3
    #: Nodes that are forgotten, each after it crashed, and the probability that another node gets its number.
    forgets: int = 0
    reuses: float = 0.7
    #: Homes of each topic (`search.homes`); 0: none, and applications alone say which node takes a topic. With homes,
    #: `forgets` nodes lose their directories.
    replicas: int = 0
    #: Homes that must keep a publication before it is acknowledged.
    copies: int = 1
    #: Nodes in the cluster from the beginning, nodes that join it, and nodes that leave.
    members: int = 0
    grows: int = 0
    shrinks: int = 0


def trial_of(seed: int) -> Trial:
    """In an eighth of the pipelined trials nodes are forgotten. In a third of the other partitions homes change.

    Both are drawn apart: other seeds mean what they did.
    """
    trial, rng = _trial_of(seed), random.Random(f"{seed}/forgetting")
    if trial.mode == "pipelined" and rng.random() < 1 / 8:
        return msgspec.structs.replace(trial, forgets=rng.choice([1, 1, 2]), stay_down=0.0)
    if trial.outside and random.Random(f"{seed}/changing homes").random() < 1 / 3:
        return homes_of(seed)
    return trial


def _trial_of(seed: int) -> Trial:
    """A fifth are long absences, two fifths partitions. Half of the others are without faults, in either mode."""
    if seed % 5 == 4:
        return absence_of(seed)
    if seed % 5 in (1, 3):
        return partitions_of(seed)
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


def absence_of(seed: int) -> Trial:
    """Nodes are away for longer than the others hold messages in memory, and all come back."""
    rng = random.Random(f"{seed}/absence")
    across = rng.random() < 0.3
    return Trial(
        mode="pipelined",
        nodes=rng.choice([3, 4, 4, 8]),
        topics=2 if across else 1,
        domain="all" if across else "topic",
        window=rng.choice([1, 2, 4, 8]),
        actions=rng.choice([60, 120]),
        answers=rng.choice([0.0, 0.15]),
        leaves=rng.choice([0.0, 0.02, 0.1]),
        window_of_time=rng.choice([2000.0, 4000.0, 8000.0]),
        founders=rng.choice([0.75, 1.0]),
        fifo=rng.random() < 0.5,
        loss=rng.choice([0.0, 0.05, 0.2]),
        duplication=rng.choice([0.0, 0.1]),
        crashes=rng.choice([1, 2, 3]),
        stay_down=0.0,
        false_suspicions=rng.choice([0, 0, 4]),
        aggregate=rng.random() < 0.3,
        log=True,
        log_keeps=rng.choice([0, 0, 0, 20]),
        retain=rng.choice([2, 4, 8]),
        burst=rng.choice([1, 2, 4]),
        chunk=rng.choice([2, 3, 8]),
        held_bytes=rng.choice([1 << 20, 2000, 600]),
        patience=rng.choice([0.0, 500.0, 3000.0]),
    )


def partitions_of(seed: int) -> Trial:
    """Several topics in one causal domain, most of them taken by few, and nodes that publish without taking."""
    rng = random.Random(f"{seed}/partitions")
    log = rng.random() < 0.7
    faulty = rng.random() < 0.8
    return Trial(
        mode="pipelined",
        nodes=rng.choice([3, 4, 4, 8]),
        topics=rng.choice([2, 3, 4, 8]),
        domain="all" if rng.random() < 0.9 else "topic",
        window=rng.choice([1, 2, 4, 8]),
        actions=rng.choice([60, 120]),
        answers=rng.choice([0.05, 0.15, 0.3]),
        leaves=rng.choice([0.02, 0.1, 0.3]),
        outside=rng.choice([0.3, 0.7, 0.9]),
        window_of_time=rng.choice([1500.0, 4000.0, 8000.0]),
        founders=rng.choice([0.25, 0.5, 0.75]),
        fifo=rng.random() < 0.5,
        loss=rng.choice([0.0, 0.05, 0.2]) if faulty else 0.0,
        duplication=rng.choice([0.0, 0.1]) if faulty else 0.0,
        crashes=rng.choice([0, 1, 2, 3]) if faulty else 0,
        stay_down=0.0,
        false_suspicions=rng.choice([0, 4, 12]) if faulty else 0,
        aggregate=rng.random() < 0.3,
        compacts=rng.random() < 0.5,
        log=log,
        retain=rng.choice([2, 4, 8]) if log else 100_000,
        burst=rng.choice([1, 2, 4]) if log else 64,
        chunk=rng.choice([2, 3, 8]) if log else 1024,
        held_bytes=rng.choice([1 << 20, 20_000, 6000]) if log else 1 << 20,
        patience=rng.choice([0.0, 500.0, 3000.0]),
        drop_stable=rng.random() < 0.7,
    )


def homes_of(seed: int) -> Trial:
    """Partitions with homes, in a cluster that grows and shrinks."""
    rng = random.Random(f"{seed}/homes of partitions")
    replicas = rng.choice([1, 2, 2, 3])
    nodes, members = rng.choice([(4, 2), (6, 3), (8, 4), (8, 6)])
    return msgspec.structs.replace(
        partitions_of(seed),
        nodes=nodes,
        topics=rng.choice([1, 2, 4]),
        domain="all",
        log=True,
        retain=rng.choice([16, 32]),
        drop_stable=True,
        outside=0.5,
        leaves=rng.choice([0.05, 0.2]),
        replicas=replicas,
        copies=rng.randint(1, replicas),
        members=max(members, replicas),
        grows=rng.choice([1, 2, 4]),
        shrinks=rng.choice([0, 1, 2]),
        forgets=rng.choice([0, 1, replicas - 1]),
    )


def options_of(trial: Trial) -> VCubePsOptions:
    chosen = ["mode", "domain", "window", "aggregate", "log", "retain", "burst", "chunk", "held_bytes", "patience"]
    chosen.append("drop_stable")
    return msgspec.convert({name: getattr(trial, name) for name in chosen}, VCubePsOptions)


def founders_of(trial: Trial) -> dict[str, list[int]]:
    """The same for every seed of a trial: node numbers are interchangeable, schedules are not."""
    if trial.replicas:
        members = range(trial.members)
        return {f"t{number}": sorted(homes(number, members, trial.replicas)) for number in range(trial.topics)}
    rng = random.Random("founders")
    count = round(trial.founders * trial.nodes)
    return {f"t{number}": sorted(rng.sample(range(trial.nodes), count)) for number in range(trial.topics)}


class _Watcher(AppTracer):
    """Counts the nodes that leave a topic without having been asked to, and looks at Lamport times."""

    #: Is told the same, where nodes are homes.
    homes: HomeLife | None = None

    def __init__(self, recorder: Recorder, *, timed: bool, nodes: int) -> None:
        """`timed`: the protocol stamps Lamport times."""
        super().__init__(recorder)
        self.timed = timed
        self._nodes = nodes
        #: By number: the epoch of its owner. For the audit each owner is a node of its own.
        self.epochs: Counter[int] = Counter()
        #: By node and topic: requests to leave that have not taken effect.
        self.leaving: Counter[tuple[int, str]] = Counter()
        self.broken = 0
        #: By node: the highest Lamport time of what it published or delivered; and messages that are not above it.
        self.times: Counter[int] = Counter()
        self.untimely: list[str] = []

    def owner(self, number: int) -> int:
        """The node, in the trace, that has this number now."""
        return number + self._nodes * self.epochs[number]

    def name(self, topic: str, source: int, seq: int) -> tuple[str, int, int]:
        """The name of a message in the trace: by the node that published it."""
        return topic, source + self._nodes * epoch_of(seq), within_epoch(seq)

    def _traced(self, message: Message) -> Message:
        if not self.epochs:
            return message
        topic, source, seq = self.name(*message.id)
        named = [self.name(topic, *one) for one in message.deps] + [self.name(*one) for one in message.across]
        return Message(topic, source, seq, (), message.payload, tuple(named), message.clock)

    def published(self, now: int, node: int, message: Message) -> None:
        if self.homes is not None:
            self.homes.published(node, message)
        node, message = self.owner(node), self._traced(message)
        super().published(now, node, message)
        if self.times[node] >= message.clock and self.timed:
            self.untimely.append(f"{message.id} has Lamport time {message.clock}, its node was at {self.times[node]}")
        self.times[node] = message.clock

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        if self.homes is not None:
            self.homes.delivered(node, message)
        node, message = self.owner(node), self._traced(message)
        super().delivered(now, node, message, out_of_order=out_of_order)
        self.times[node] = max(self.times[node], message.clock)

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        super().changed(now, self.owner(node), what, topic)
        if what == "subscribe" and self.homes is not None:
            self.homes.joined(node, topic)
        if what == "unsubscribe":
            if self.leaving[node, topic]:
                self.leaving[node, topic] -= 1
            else:
                self.broken += 1
        elif what == "crash":  # a request that had not taken effect is forgotten
            for key in self.leaving:
                if key[0] == node:
                    self.leaving[key] = 0


class VCubePsRun(Run[Trial]):
    events_max = 2_000_000
    draw = staticmethod(trial_of)

    @property
    def nodes(self) -> range:
        return range(self.trial.nodes)

    def founders(self) -> dict[str, list[int]]:
        return founders_of(self.trial)

    def maker(self) -> MakeProcess:
        return options_of(self.trial).build_groups(self.trial.nodes, self.founders())

    def make_tracer(self) -> AppTracer:
        self.watcher = _Watcher(self.recorder, timed=self.trial.mode == "pipelined", nodes=self.trial.nodes)
        return self.watcher

    def actions(self) -> Sequence[tuple[int, Callable[[], None]]]:
        return [(self.trial.actions, self._act)]

    def _act(self) -> None:
        """A node that is outside joins or publishes; a member leaves or publishes."""
        if (found := self.somewhere()) is None:
            return
        node, topic = found
        if self.homes is not None:
            if not self.homes.is_member(node):
                return
            if self.rng.random() < self.trial.leaves:
                self.homes.toggle(node, topic)
            else:
                self.publish(node, topic)
        elif found not in self.wanted and not (self.trial.outside and self.rng.random() < self.trial.outside):
            self.toggle(node, topic)
        elif found in self.wanted and self.rng.random() < self.trial.leaves:
            self.watcher.leaving[found] += 1
            self.toggle(node, topic)
        else:
            self.publish(node, topic)

    def may_publish(self, node: int, topic: str) -> bool:
        return self.trial.outside > 0 or super().may_publish(node, topic)

    def comes_back(self, node: int) -> bool:
        return self.rng.random() >= self.trial.stay_down

    # -- nodes that are gone for good ---------------------------------------------------------------------------

    def _schedule(self) -> None:
        super()._schedule()
        self.homes = self.watcher.homes = HomeLife(self) if self.trial.replicas else None
        #: Numbers without an owner.
        self.ownerless: set[int] = set()
        self.fate = random.Random(f"{self.seed}/fate")
        for _ in range(self.trial.forgets):
            self.simulation.at(ticks(self.fate.uniform(0.1, 0.9) * self.trial.window_of_time), self._lose)

    def _after(self, mean: float, do: Callable[[], None]) -> None:
        self.simulation.at(self.simulation.now + ticks(self.fate.expovariate(1 / mean)), do)

    def _lose(self) -> None:
        """A node crashes, if it is up, and does not come back. An operator says so some time later."""
        node = self.fate.randrange(self.trial.nodes)
        if node not in self.ownerless and len(self.ownerless) < self.trial.nodes - 2:
            self.crash(node)
            self.ownerless.add(node)
            if self.homes is not None:
                self.homes.lose(node)
            self._after(2 * self.noticed, partial(self._forget, node))

    def _forget(self, node: int) -> None:
        epoch = self.watcher.epochs[node] + 1
        others = [other for other in self.nodes if other in self.simulation.processes]
        told = [other for other in others if self.fate.random() < 0.7] or others[:1]
        for other in told:
            self._after(self.noticed, partial(self._hear_forgotten, other, node, epoch))
        self._after(self.trial.window_of_time, partial(self._remind, node, epoch))
        if told and self.fate.random() < self.trial.reuses:
            self._after(self.trial.window_of_time / 4, partial(self._reuse, node, epoch))

    def _remind(self, node: int, epoch: int) -> None:
        """Every node that is up hears of it in the end: a node that was told may have crashed."""
        for other in self.nodes:
            if other != node:
                self._hear_forgotten(other, node, epoch)

    def _hear_forgotten(self, node: int, gone: int, epoch: int) -> None:
        self.simulation.forget(node, gone, epoch)
        if self.homes is not None:
            self.homes.hear_forgotten(node, gone, epoch)

    def _reuse(self, node: int, epoch: int) -> None:
        """Another node gets the number, with an empty directory."""
        self.watcher.epochs[node] = epoch
        self.ownerless.discard(node)
        if self.homes is not None:
            self.homes.reused(node, epoch)
        self.simulation.replace(node, [Forgotten(node, epoch)])
        if self.homes is not None:
            self.homes.recovered(node)
        for other in self.watchers(node):
            self._after(self.noticed, partial(self.notice, other, node))
            self._after(self.noticed, partial(self.notice, node, other))

    def crash(self, node: int) -> None:
        super().crash(node)
        if self.homes is not None:
            self.homes.crashed(node)

    def recover(self, node: int) -> None:
        if node not in self.ownerless:
            super().recover(node)
            if self.homes is not None:
                self.homes.recovered(node)

    # -- the verdict --------------------------------------------------------------------------------------------

    def judge(self) -> Verdict:
        if self.homes is not None:
            self.homes.settle()
        return super().judge()

    def rules(self, rows: Sequence[Row]) -> tuple[str, ...]:
        return NOTHING_LOST

    @property
    def across_topics(self) -> bool:
        return self.trial.domain == "all"

    @property
    def broken(self) -> int:
        return self.watcher.broken

    @property
    def log_keeps(self) -> int | None:
        return self.trial.log_keeps or None

    @property
    def compacts(self) -> bool:
        return self.trial.log or self.trial.compacts

    def checks(self, rows: Sequence[Row], report: Report) -> Mapping[str, Sequence[str]]:
        found = dict(super().checks(rows, report))
        # What a node published outside is in no log of its own. A joiner that suspected it wrongly may find it gone.
        # Or all nodes that had it in their logs were forgotten.
        gone = self.trial.log_keeps or (self.trial.outside and self.trial.false_suspicions)
        if self.trial.log and not gone and self.broken and not self.lost.from_logs:
            found["skipped"] = [f"{self.broken} sessions were broken off, though every message is in a log"]
        found["lamport"] = self.watcher.untimely
        if self.homes is not None:
            found["homes"] = self.homes.unsettled()
            found["kept"] = self.homes.missing()
        return found

    @cached_property
    def lost(self) -> "_Lost":
        return _Lost(list(self.recorder.rows()), {self.watcher.owner(node) for node in self.simulation.processes})

    @property
    def idle(self) -> list[str]:
        """The topics that no node takes. Publishers that are outside may wait there."""
        processes = self.simulation.processes.values()
        return [topic for topic in self.topics if not any(process.takes(topic) for process in processes)]

    @property
    def may_wait(self) -> bool:
        return self.trial.forgets > 0 or self.trial.shrinks > 0 or (self.trial.outside > 0 and bool(self.idle))

    def unfinished(self, process: Process) -> Sequence[str]:
        rightly = tuple([f"queued on {topic}, waits for nodes []" for topic in self.idle])
        return [what for what in super().unfinished(process) if not what.endswith(rightly)]

    def stuck(self, process: Process) -> int:
        """A process may hold messages that depend on lost ones."""
        held = [self.watcher.name(*one) for one in process.holding()]
        return 0 if process.held == len(held) and all(map(self.lost.blocks, held)) else super().stuck(process)


class _Lost:
    """Messages that no node has any more. A node that holds a message which depends on one waits rightly."""

    def __init__(self, rows: list[Row], up: set[int]) -> None:
        takes = {Event.PUBLISH, Event.DELIVER}
        self._there = {(row.topic, row.source, row.seq) for row in rows if row.event in takes and row.node in up}
        self._deps = {(row.topic, row.source, row.seq): row.deps for row in rows if row.event is Event.PUBLISH}
        delivered = [(row, (row.topic, row.source, row.seq)) for row in rows if row.event is Event.DELIVER]
        #: Messages that were delivered, and by no node that is up: they are in no log.
        self.from_logs = {name for _, name in delivered} - {name for row, name in delivered if row.node in up}
        self._known: dict[tuple[str, int, int], bool] = {}

    def blocks(self, message: tuple[str, int, int]) -> bool:
        """Does no node that is up have the message, or one before it?"""
        known = self._known.get(message)
        if known is None:
            self._known[message] = False  # no circles: a message comes after what it depends on
            topic, source, seq = message
            before = (*self._deps[message], (topic, source, seq - 1)) if seq > 1 else self._deps[message]
            known = message not in self._there or any(self.blocks(earlier) for earlier in before)
            self._known[message] = known
        return known


search = VCubePsRun.search
