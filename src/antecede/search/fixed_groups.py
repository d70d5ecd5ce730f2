"""Random schedules for rivals whose groups do not change: safe links, message history, Δ-causal order, vector clocks.

Each knows no crashes, so links are what goes wrong: they reorder, repeat and, where the protocol is made for it, lose
packets. Every run must come to rest, with nothing held and nothing to wait for.
"""

import random
from collections.abc import Callable, Sequence
from typing import ClassVar

from antecede.protocols.delta_causal.options import DeltaCausalOptions
from antecede.protocols.message_history.options import HistoryOptions
from antecede.protocols.options import GroupOptions, MakeProcess, RngOptions
from antecede.protocols.probabilistic_clocks.options import ProbabilisticOptions
from antecede.protocols.safe_links.options import SafeLinksOptions
from antecede.search import harness
from antecede.search.harness import NOTHING_LOST, ORDER, Run
from antecede.trace import Row


class Trial(harness.Trial, frozen=True, kw_only=True):
    """What is searched: any of these protocols."""

    nodes: int = 8
    topics: int = 1
    #: Share of the nodes that take each topic.
    members: float = 0.7
    options: GroupOptions
    actions: int = 30


def _trial(rng: random.Random, options: GroupOptions, *, loss: Sequence[float] = (0.0,)) -> Trial:
    return Trial(
        nodes=rng.randrange(2, 11),
        topics=rng.choice([1, 1, 2]),
        members=rng.choice([0.5, 0.7, 1.0]),
        options=options,
        actions=rng.choice([10, 30, 60]),
        answers=rng.choice([0.05, 0.15, 0.3]),
        window_of_time=rng.choice([800.0, 2500.0, 8000.0]),
        fifo=rng.random() < 0.2,
        loss=rng.choice(loss),
        duplication=rng.choice([0.0, 0.0, 0.2]),
    )


class FixedGroupsRun(Run[Trial]):
    """One run of one of the protocols."""

    #: Does the protocol promise every message?
    complete: ClassVar[bool] = True

    @property
    def nodes(self) -> range:
        return range(self.trial.nodes)

    @property
    def across_topics(self) -> bool:
        return self.trial.options.across_topics

    def founders(self) -> dict[str, list[int]]:
        rng = random.Random(f"{self.seed}/members")
        count = max(2, round(self.trial.members * self.trial.nodes))
        return {f"t{topic}": sorted(rng.sample(self.nodes, count)) for topic in range(self.trial.topics)}

    def maker(self) -> MakeProcess:
        options, founders = self.trial.options, self.founders()
        if isinstance(options, RngOptions):
            return options.build_with_rng(
                self.trial.nodes, founders, lambda node: random.Random(f"{self.seed}/protocol at {node}")
            )
        return options.build_groups(self.trial.nodes, founders)

    def actions(self) -> Sequence[tuple[int, Callable[[], None]]]:
        return [(self.trial.actions, self._act)]

    def _act(self) -> None:
        if (found := self.somewhere()) is not None and self.may_publish(*found):
            self.publish(*found)

    def rules(self, rows: Sequence[Row]) -> tuple[str, ...]:
        return NOTHING_LOST if self.complete else ORDER


class SafeLinksRun(FixedGroupsRun):
    """Links come and go, with and without a memory of old messages. Links lose nothing."""

    @staticmethod
    def draw(seed: int) -> Trial:
        rng = random.Random(f"{seed}/trial")
        options = SafeLinksOptions(
            links=rng.randrange(4),
            changes=rng.choice([0, 3, 10, 25]),
            every=rng.choice([20.0, 80.0, 300.0]),
            forget=rng.random() < 0.6,
        )
        return _trial(rng, options)


class HistoryRun(FixedGroupsRun):
    """Acknowledgements that come soon or late, and impatient sources."""

    @staticmethod
    def draw(seed: int) -> Trial:
        rng = random.Random(f"{seed}/trial")
        options = HistoryOptions(ack=rng.choice([10.0, 100.0, 600.0]), retry=rng.choice([150.0, 1000.0]))
        return _trial(rng, options, loss=(0.0, 0.1, 0.3))


class DeltaCausalRun(FixedGroupsRun):
    """Deadlines from far too short to generous. A message may be lost, and order holds."""

    complete = False

    @staticmethod
    def draw(seed: int) -> Trial:
        rng = random.Random(f"{seed}/trial")
        options = DeltaCausalOptions(
            delta=rng.choice([50.0, 120.0, 400.0, 3000.0]),
            tick=rng.choice([5.0, 10.0, 60.0]),
            horizon=rng.choice([0.0, 1000.0, 8000.0]),
        )
        return _trial(rng, options, loss=(0.0, 0.1, 0.3))


class VectorClocksRun(FixedGroupsRun):
    """Probabilistic clocks with an entry for each process: a vector clock, which promises order."""

    @staticmethod
    def draw(seed: int) -> Trial:
        return _trial(random.Random(f"{seed}/trial"), ProbabilisticOptions(entries=0))
