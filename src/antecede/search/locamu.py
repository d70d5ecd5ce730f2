"""Random schedules for LoCaMu, on small graphs, within its fault model.

On a line, a star or a random tree of 5 to 12 nodes, members publish and answer what they read while nodes crash and
come back (or never do), are suspected rightly and wrongly, and links reorder, lose and repeat packets. At no time are
more than f nodes down on any path of 2f + 1.

A message that a survivor has must reach every member. The exception: a message is lost for good with its publisher.
Whatever a relay processed after that message waits for it. Then only order is judged, and that nothing comes twice.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Final, Literal

import msgspec

from antecede.audit import Report
from antecede.overlay.extended import Extended
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import line, random_tree, star
from antecede.protocols.locamu import LoCaMu, Timing
from antecede.protocols.options import MakeProcess
from antecede.search import harness
from antecede.search.harness import NOTHING_LOST, ORDER, Run
from antecede.sim.units import ticks
from antecede.trace import Event, Row


class Trial(harness.Trial, frozen=True, kw_only=True):
    """What is searched."""

    shape: Literal["line", "star", "random"] = "random"
    nodes: int = 8
    f: int = 1
    topics: int = 1
    #: Share of the nodes that take each topic from the beginning.
    members: float = 0.7
    actions: int = 12
    window_of_time: float = 3000.0
    #: Probability that up to f nodes stay down if they crash, and whether these publish, too.
    stay_down: float = 0.0
    last_words: bool = False
    #: Joins and leaves.
    changes: int = 0


def trial_of(seed: int) -> Trial:
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
        window_of_time=rng.choice([1000.0, 3000.0, 6000.0]),
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


#: Acknowledgements and retransmissions, for hops of 100 u.t.
TIMING: Final = Timing(ack_us=ticks(50), ack_every=16, retry_us=ticks(1000))


def make_locamu(base: BaseGraph, members: dict[str, list[int]], f: int) -> MakeProcess:
    graph = Extended(base, f)
    founding = {topic: base.directions(taken) for topic, taken in members.items()}
    return lambda node: LoCaMu(graph.around(node), founding, TIMING)


class LocamuRun(Run[Trial]):
    noticed = 300.0
    last_words_share = 0.3
    draw = staticmethod(trial_of)

    @property
    def nodes(self) -> range:
        return range(self.trial.nodes)

    def prepare(self) -> None:
        """Draw the nodes that never come back once they crash."""
        dead = min(self.trial.f, self.trial.nodes // 4) if self.rng.random() < self.trial.stay_down else 0
        self.doomed = set(self.rng.sample(self.nodes, dead))

    def founders(self) -> dict[str, list[int]]:
        return members_of(self.seed, self.trial)

    def maker(self) -> MakeProcess:
        return make_locamu(self._graph, self.founders(), self.trial.f)

    def actions(self) -> Sequence[tuple[int, Callable[[], None]]]:
        return [(self.trial.actions, self._act), (self.trial.changes, self._change)]

    def _act(self) -> None:
        if (found := self.somewhere()) is not None:
            self.publish(*found)

    def _change(self) -> None:
        if (found := self.somewhere()) is not None:
            self.toggle(*found)

    def may_publish(self, node: int, topic: str) -> bool:
        """A node need not be a member to publish."""
        return True

    def publish(self, node: int, topic: str) -> None:
        if self.trial.last_words or node not in self.doomed:
            super().publish(node, topic)

    # -- faults, within the fault model -------------------------------------------------------------------------

    @cached_property
    def _graph(self) -> BaseGraph:
        return graph_of(self.seed, self.trial)

    @cached_property
    def _paths(self) -> list[frozenset[int]]:
        """Every path of at most 2f + 1 nodes, on which at most f may be down."""
        paths = (self._graph.path(a, b) for a, b in combinations(self.nodes, 2))
        return [frozenset(path) for path in paths if len(path) <= 2 * self.trial.f + 1]

    @property
    def _down(self) -> set[int]:
        return set(self.nodes) - set(self.simulation.processes)

    def victims(self) -> Sequence[int]:
        crashes = self.trial.crashes
        return [*self.doomed, *self.rng.choices(self.nodes, k=crashes)][:crashes]

    def may_crash(self, node: int) -> bool:
        down = self._down | {node}
        return all(len(path & down) <= self.trial.f for path in self._paths)

    def comes_back(self, node: int) -> bool:
        return node not in self.doomed

    def watchers(self, node: int) -> Sequence[int]:
        return list(self._graph.distances(node, self.trial.f + 1))[1:]

    def wrong_suspicion(self) -> tuple[int, int]:
        node = self.rng.randrange(self.trial.nodes)
        return node, self.rng.choice(self.watchers(node))

    # -- the verdict --------------------------------------------------------------------------------------------

    def rules(self, rows: Sequence[Row]) -> tuple[str, ...]:
        return ORDER if self._is_something_lost(rows) else NOTHING_LOST

    def checks(self, rows: Sequence[Row], report: Report) -> Mapping[str, Sequence[str]]:
        if self._is_something_lost(rows):
            return {}
        return {"blocked": self.blocked(report), "leaked": self._leaked()}

    def _processes(self) -> dict[int, LoCaMu]:
        return {node: process for node, process in self.simulation.processes.items() if isinstance(process, LoCaMu)}

    def _is_something_lost(self, rows: Sequence[Row]) -> bool:
        """Does no node that is up have a message of a publisher that is down, or ever had it?"""
        processes = self._processes()
        there = {
            (row.topic, row.source, row.seq) for row in rows if row.event is Event.DELIVER and row.node in processes
        }
        there |= {entry.message.id for process in processes.values() for entry in process.state.log.entries}
        down = self._down
        last_words = (row for row in rows if row.event is Event.PUBLISH and row.node in down)
        return any((row.topic, row.source, row.seq) not in there for row in last_words)

    def _leaked(self) -> list[str]:
        """The nodes that still keep messages although every node is up and everything is delivered.

        With joins amid crashes the name of a node that has left may stay: its relay forgot the message before it heard
        the name (one of 3,300 such runs). These runs are not judged.
        """
        if self._down or (self.trial.changes and self.crashed):
            return []
        return [
            f"node {node} still answers for {process.answers_for} messages"
            for node, process in self._processes().items()
            if process.answers_for
        ]


search = LocamuRun.search
