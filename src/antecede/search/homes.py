"""Homes of partitions change while a run lasts: what the nodes do about it, and what must be true of it.

Nodes join the cluster and leave it, crash, and lose their directories. They learn of each other at different times, so
they name different homes for a while. New homes fetch, former homes let go, by the rules that live nodes run
(`protocols.homes`). Questions between nodes take time, and answers get lost.

The judge counts for itself. A publication is *acknowledged* when `copies` other homes, by the roster of its publisher,
have said that they keep it. It must be at every home in the end, unless `replicas` nodes were lost, or `copies` nodes
beside its publisher: as homes change, the publisher may become one of those that keep it.
A node that begins to take a partition then reads all of them from the homes.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from antecede.core import Message, Process
from antecede.core.partitions import homes
from antecede.core.process import Acknowledgement
from antecede.protocols.homes.copies import kept_at
from antecede.protocols.homes.reading import Candidates, candidates, fetch
from antecede.protocols.homes.records import (
    Answer,
    Ask,
    AskHome,
    Question,
    ReadHere,
    Step,
    Steps,
    Store,
    StreamPage,
)
from antecede.search.home_nodes import ABSENT, LEFT, PAGE, PRESENT, Directory, Entry, Gap, Memory
from antecede.sim.units import ticks

if TYPE_CHECKING:
    from antecede.search.vcube_ps import VCubePsRun

#: Mean u.t. until a question or an answer arrives, and until a node takes a question for lost.
_WAY: Final = 100.0
_PATIENCE: Final = 800.0
#: U.t. between two looks of a node at its partitions, about; and how long a node that is said to leave counts as gone.
_PAUSE: Final = 300.0
_LEAVING: Final = 100_000.0
#: Looks of every node after the last fault, at most, until everything must have settled.
_ROUNDS_MAX: Final = 150


class HomeLife:
    """The homes of one run."""

    def __init__(self, run: "VCubePsRun") -> None:
        self._run = run
        self._trial = run.trial
        self._simulation = run.simulation
        self._rng = random.Random(f"{run.seed}/homes")
        members = range(self._trial.members)
        self._truth: dict[int, Entry] = dict.fromkeys(members, (0, PRESENT))
        self._directories = {node: Directory(self._truth) for node in run.nodes}
        self._memories = {node: Memory(node, self._trial.replicas, ticks(_LEAVING)) for node in run.nodes}
        #: Nodes that were lost with their directories, as the trace names them.
        self.lost: set[int] = set()
        #: Publications that were acknowledged, with their publishers as the trace names them.
        self.acknowledged: dict[tuple[str, int, int], int] = {}
        #: What happened, for tests of the search.
        self.happened: Counter[str] = Counter()
        #: The faults are over.
        self._calm = False
        self._simulation.on_acknowledged = self._on_acknowledged
        self._schedule()

    def _schedule(self) -> None:
        trial, until = self._trial, 1.5 * self._trial.window_of_time
        for node in self._run.nodes:
            at = self._rng.uniform(0, _PAUSE)
            while at < until:
                self._simulation.at(ticks(at), partial(self._look, node))
                at += self._rng.uniform(0.5, 1.5) * _PAUSE
        for count, change in ((trial.grows, self._grow), (trial.shrinks, self._shrink)):
            for _ in range(count):
                self._simulation.at(ticks(self._rng.uniform(0.05, 0.95) * trial.window_of_time), change)

    # -- the run tells -------------------------------------------------------------------------------------------

    def is_member(self, node: int) -> bool:
        """Is this node in the cluster, and means to stay?"""
        entry = self._directories[node].roster.get(node, (0, ABSENT))
        return entry[1] == PRESENT and not self._memories[node].leaves

    def toggle(self, node: int, topic: str) -> None:
        """A client of the node opens a feed of the topic, or closes it."""
        memory = self._memories[node]
        if topic in memory.feeds:
            memory.feeds.discard(topic)
            return
        memory.feeds.add(topic)
        if not self._simulation.processes[node].wants(topic):
            memory.duties.take_in_passing(self._run.topics.index(topic))
            self._subscribe(node, topic)

    def published(self, node: int, message: Message) -> None:
        self._memories[node].waiting[message.topic].append(message)

    def delivered(self, node: int, message: Message) -> None:
        self._directories[node].stored[message.topic, message.source][message.seq] = message

    def joined(self, node: int, topic: str) -> None:
        """The node takes the topic from now on. It lacks the messages before its join."""
        directory = self._directories[node]
        for source, reached in self._simulation.processes[node].delivered(topic).items():
            directory.gaps.append(Gap(topic, source, 1, reached))

    def crashed(self, node: int) -> None:
        self._memories[node] = Memory(node, self._trial.replicas, ticks(_LEAVING))

    def recovered(self, node: int) -> None:
        """The node has started. It knows which nodes have left, and asks another one for its roster."""
        self._vacate(node, self._directories[node].roster)
        others = [other for other in self._simulation.processes if other != node]
        if others:
            known = self._directories[self._rng.choice(others)].roster
            self._later(_WAY, partial(self._merge, node, dict(known)))

    def lose(self, node: int) -> None:
        """The node is down, and its directory is gone."""
        self.lost.add(self._run.watcher.owner(node))
        self._directories[node] = Directory({})
        self.crashed(node)
        self.happened["lost"] += 1

    def hear_forgotten(self, node: int, gone: int, epoch: int) -> None:
        """A node is told that another one is gone for good."""
        entry = {gone: (epoch, ABSENT)}
        if node in self._simulation.processes:
            self._merge(node, entry)
        self._truth[gone] = max(self._truth.get(gone, (0, ABSENT)), (epoch, ABSENT))

    def reused(self, node: int, epoch: int) -> None:
        """Another node has got the number of one that was forgotten."""
        self._directories[node] = Directory(self._truth)
        self._announce(node, (epoch, PRESENT))

    # -- the cluster ---------------------------------------------------------------------------------------------

    def _members(self, node: int) -> list[int]:
        return [one for one, entry in self._directories[node].roster.items() if entry[1] == PRESENT]

    def _announce(self, node: int, entry: Entry) -> None:
        """The entry of `node` changes. The others hear of it at different times; some much later."""
        self._truth[node] = entry
        self._merge(node, {node: entry})
        for other in self._run.nodes:
            if other != node:
                mean = self._run.noticed * (1 if self._rng.random() < 0.7 else 6)
                self._later(mean, partial(self._merge, other, {node: entry}))

    def _merge(self, node: int, news: Mapping[int, Entry]) -> None:
        if node in self._simulation.processes or node in news:
            roster = self._directories[node].roster
            for one, entry in news.items():
                roster[one] = max(entry, roster.get(one, entry))
            self._vacate(node, news)

    def _vacate(self, node: int, news: Mapping[int, Entry]) -> None:
        """Nodes that have left are down, and do not come back."""
        roster = self._directories[node].roster
        for one in news:
            if roster[one][1] == LEFT and one != node:
                self._simulation.vacate(node, one)
                self._simulation.suspect(node, one)

    def _grow(self) -> None:
        """A node that was never in the cluster joins it."""
        new = [node for node in self._run.nodes if node not in self._truth and node in self._simulation.processes]
        if new:
            node = self._rng.choice(new)
            self._directories[node].roster.update(self._truth)
            self._announce(node, (0, PRESENT))
            self.happened["joined"] += 1

    def _shrink(self) -> None:
        """A node begins to leave the cluster."""
        up = [node for node in self._simulation.processes if self.is_member(node)]
        if len(up) > max(2, self._trial.replicas):
            self._memories[self._rng.choice(up)].leaves = True

    def _go(self, node: int) -> None:
        """The node has left: it is gone, with its directory."""
        entry = self._directories[node].roster[node]
        self._announce(node, (entry[0], LEFT))
        self._simulation.crash(node)
        self._run.ownerless.add(node)
        self.crashed(node)
        self._directories[node] = Directory({})
        self.happened["left"] += 1
        for other in self._run.watchers(node):
            self._later(self._run.noticed, partial(self._run.notice, other, node))

    # -- what a node does now and then ---------------------------------------------------------------------------

    def _look(self, node: int) -> None:
        process = self._simulation.processes.get(node)
        if process is None:
            return
        memory, topics = self._memories[node], self._run.topics
        duties = memory.duties
        duties.find_homes(len(topics), self._members(node), self._simulation.now)
        if memory.handed_over:
            self._take_leave(node, process)
            return
        for partition, topic in enumerate(topics):
            needed = partition in duties.homes or topic in memory.feeds
            if needed and not process.wants(topic):
                self._subscribe(node, topic)
            elif not needed and self._takes(node, topic) and duties.may_leave(partition):
                duties.left(partition)
                self._unsubscribe(node, topic)
        for gap in self._lacking(node):
            if self._run.topics.index(gap.topic) in duties.homes:
                self._fill(node, gap)
        for partition, topic in enumerate(topics):
            needed = partition in duties.homes or topic in memory.feeds
            if memory.leaves or not (needed or duties.is_passing(partition)):
                self._ask_homes(node, partition, process)
        self._count_copies(node)
        if memory.leaves:
            taken = [number for number, topic in enumerate(topics) if process.wants(topic)]
            memory.handed_over = duties.may_go(taken)

    def _take_leave(self, node: int, process: Process) -> None:
        """The homes have everything: leave every topic, then the cluster, once other nodes have its publications."""
        for topic in self._run.topics:
            if process.wants(topic):
                self._unsubscribe(node, topic)
        copies = self._memories[node].copies
        for topic in self._run.topics:
            others = process.members(topic) - {node}
            last = process.last_published(topic)
            if process.takes(topic) or (others and all(copies[topic].reached.get(one, 0) < last for one in others)):
                return
        self._go(node)

    def _takes(self, node: int, topic: str) -> bool:
        process = self._simulation.processes[node]
        return process.takes(topic) and process.wants(topic)

    def _subscribe(self, node: int, topic: str) -> None:
        self._run.wanted.add((node, topic))
        self._simulation.subscribe(node, topic)

    def _unsubscribe(self, node: int, topic: str) -> None:
        self._run.wanted.discard((node, topic))
        self._run.watcher.leaving[node, topic] += 1
        self._simulation.unsubscribe(node, topic)
        self.happened["let go"] += 1

    def _lacking(self, node: int) -> list[Gap]:
        filled = self._memories[node].filled
        return [gap for gap in self._directories[node].gaps if gap not in filled]

    def _fill(self, node: int, gap: Gap) -> None:
        filled = self._memories[node].filled

        def done(whole: bool) -> None:
            if whole:
                filled.add(gap)

        steps = fetch(*gap, partial(self._candidates, node, gap.topic), lambda slot, messages: True)
        self._start(node, gap, steps, done)

    def _ask_homes(self, node: int, partition: int, process: Process) -> None:
        memory, topic = self._memories[node], self._run.topics[partition]
        if self._takes(node, topic):
            ask = memory.duties.hand_over if memory.leaves else memory.duties.let_go
            steps = ask(partition, topic, self._members(node), process.delivered(topic), self._simulation.now)
            self._start(node, partition, steps, lambda _: None)

    def _candidates(self, node: int, topic: str) -> Candidates:
        members = self._members(node)
        kept_at = self._memories[node].duties.homes_of(self._run.topics.index(topic), members)
        takers = self._simulation.processes[node].members(topic)
        left = [one for one, entry in self._directories[node].roster.items() if entry[1] != PRESENT]
        return candidates(node, kept_at, takers, [one for one in members if one != node], left)

    # -- procedures ----------------------------------------------------------------------------------------------

    def _start(self, node: int, key: object, steps: Steps[Any], done: Callable[[Any], None]) -> None:
        memory = self._memories[node]
        if key not in memory.busy:
            memory.busy.add(key)
            self._go_on(node, memory, key, steps, done, None)

    def _go_on(
        self, node: int, memory: Memory, key: object, steps: Steps[Any], done: Callable[[Any], None], answer: Any
    ) -> None:
        """The procedure takes its next steps, unless the node crashed."""
        while self._memories[node] is memory:
            try:
                step = steps.send(answer)
            except StopIteration as ended:
                memory.busy.discard(key)
                done(ended.value)
                return
            if isinstance(step, Ask):
                self._ask(node, step, partial(self._go_on, node, memory, key, steps, done))
                return
            answer = self._take(node, step)

    def _take(self, node: int, step: Step) -> Any:
        directory = self._directories[node]
        if isinstance(step, ReadHere):
            return directory.read(*step)
        assert isinstance(step, Store)
        for message in step.messages:
            directory.stored[message.topic, message.source][message.seq] = message
            self.happened["fetched"] += 1
        return None

    def _ask(self, node: int, step: Ask, then: Callable[[Answer | None], None]) -> None:
        """The question arrives, is answered, and the answer arrives; or the node waits in vain."""
        lost = not self._calm and self._rng.random() < self._trial.loss
        known = step.slot in self._members(node)  # else the node has no address of it

        def arrive() -> None:
            if lost or not known or step.slot not in self._simulation.processes:
                self._later(_PATIENCE, partial(then, None))
            else:
                self._later(_WAY, partial(then, self._answer(step.slot, step.question)))

        self._later(_WAY, arrive)

    def _answer(self, node: int, question: Question) -> Answer:
        process, duties = self._simulation.processes[node], self._memories[node].duties
        reached = process.delivered(question.name)
        if isinstance(question, AskHome):
            if question.leaving >= 0:
                duties.expect_leave(question.leaving, self._simulation.now)
            lacks = any(gap.topic == question.name for gap in self._lacking(node))
            partition = self._run.topics.index(question.name)
            member = self._takes(node, question.name)
            return duties.state(0, partition, member=member, lacks=lacks, reached=reached)
        delivered = reached.get(question.source, 0)
        last = min(question.last, delivered)
        found = self._directories[node].read(question.name, question.source, question.first, last)
        return StreamPage(0, tuple(found), found[-1].seq if len(found) == PAGE else last, delivered)

    def _later(self, mean: float, do: Callable[[], None]) -> None:
        self._simulation.at(self._simulation.now + ticks(self._rng.expovariate(1 / mean)), do)

    # -- acknowledgements ----------------------------------------------------------------------------------------

    def _on_acknowledged(self, node: int, told: Acknowledgement) -> None:
        """A peer keeps what `node` published, up to some number."""
        if self._memories[node].copies[told.topic].note(told.peer, told.seq, told.floor):
            self._acknowledge(node, told.topic)

    def _acknowledge(self, node: int, topic: str) -> None:
        """Acknowledge publications that enough homes keep."""
        memory, counted = self._memories[node], self._others(node, topic)
        keeps = memory.copies[topic].keeps
        waiting = memory.waiting[topic]
        memory.waiting[topic] = []
        for message in waiting:
            if sum([keeps(peer, message.seq) for peer in counted]) >= self._trial.copies:
                self.acknowledged[message.id] = self._run.watcher.owner(node)
            else:
                memory.waiting[topic].append(message)

    def _others(self, node: int, topic: str) -> set[int]:
        """The other homes of the topic, as a node knows them."""
        return {*homes(self._run.topics.index(topic), self._members(node), self._trial.replicas)} - {node}

    def _count_copies(self, node: int) -> None:
        """Publications wait for copies at homes that joined behind them: ask whether these have fetched them."""
        memory = self._memories[node]
        for topic, waiting in memory.waiting.items():
            copies = memory.copies[topic]
            for home in sorted(self._others(node, topic)) if waiting else ():
                if seqs := copies.may_keep(home, [message.seq for message in waiting]):
                    steps = kept_at(home, topic, node, seqs)
                    self._start(node, ("counts", topic, home), steps, partial(self._confirm, node, topic, home))

    def _confirm(self, node: int, topic: str, home: int, kept: set[int]) -> None:
        self._memories[node].copies[topic].confirm(home, kept)
        self._acknowledge(node, topic)

    # -- the end -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """The faults are over. Let every node learn of the others, and the homes do what they have to do."""
        self._run.rest()
        self._calm = True
        for round_ in range(_ROUNDS_MAX):
            for node in self._simulation.processes:
                self._merge(node, self._truth)
            if not self.unsettled():
                break
            for node in list(self._simulation.processes):
                self._look(node)
            # Nodes may wait for each other's retransmissions, which come more and more seldom.
            pause = min(_LEAVING / 5, _PAUSE * 1.1**round_)
            until = self._simulation.now + ticks(pause)
            self._simulation.at(until, lambda: None)
            self._simulation.run(until)
        self._run.rest()
        self.readers = self._read_everything()

    def _read_everything(self) -> dict[str, int]:
        """By topic: a node that did not take it, and does now, and has read its past."""
        readers = {}
        for topic in self._run.topics:
            up = [node for node in self._simulation.processes if self.is_member(node)]
            if strangers := [node for node in up if not self._simulation.processes[node].wants(topic)]:
                readers[topic] = self._rng.choice(strangers)
                self.toggle(readers[topic], topic)
        self._run.rest()
        for topic, node in readers.items():
            for gap in self._lacking(node):
                if gap.topic == topic:
                    self._fill(node, gap)
        self._run.rest()
        return readers

    def _homes(self, partition: int) -> tuple[int, ...]:
        members = [one for one, entry in self._truth.items() if entry[1] == PRESENT]
        return homes(partition, members, self._trial.replicas)

    def unsettled(self) -> list[str]:
        """Homes that lack something, former homes that have not let go, and nodes that have not left."""
        found = []
        for partition, topic in enumerate(self._run.topics):
            kept_at = self._homes(partition)
            for node, process in self._simulation.processes.items():
                memory = self._memories[node]
                if node in kept_at and not self._takes(node, topic):
                    found.append(f"node {node} is a home of {topic} and does not take it")
                elif node in kept_at and any(gap.topic == topic for gap in self._lacking(node)):
                    found.append(f"node {node} is a home of {topic} and has not fetched its past")
                elif node not in kept_at and process.wants(topic) and topic not in memory.feeds:
                    found.append(f"node {node} is no home of {topic} and has not let go")
        found += [f"node {node} has not left" for node in self._simulation.processes if self._memories[node].leaves]
        return found

    def missing(self) -> list[str]:
        """Acknowledged messages that a home or a reader of the past has not."""
        found = []
        copies = self._trial.copies
        for (topic, source, seq), publisher in self.acknowledged.items():
            if len(self.lost) >= self._trial.replicas or len(self.lost - {publisher}) >= copies:
                continue
            holders = [*self._homes(self._run.topics.index(topic))]
            holders += [self.readers[topic]] if topic in self.readers else []
            lacking = [node for node in holders if not self._directories[node].holds(topic, source, seq)]
            found += [f"node {node} lacks {topic}/{source}.{seq} which {copies} homes kept" for node in lacking]
        return found
