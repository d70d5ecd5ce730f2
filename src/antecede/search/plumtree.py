"""Random schedules for Plumtree over HyParView: small views, joins and leaves, crashes, suspicions, lossy links.

Order and single delivery are promised whatever happens; with `order=none` only the latter. That every member gets every
message is judged in calm runs only: without loss, crashes, suspicions, changes of membership and small stores. In every
run the nodes must come to rest, hold nothing and wait for nothing.
"""

import random
from collections.abc import Callable, Sequence
from typing import Literal

from antecede.protocols.options import MakeProcess
from antecede.protocols.plumtree.options import PlumtreeOptions, ThicketOptions
from antecede.search import harness
from antecede.search.harness import NOTHING_LOST, ORDER, Run
from antecede.trace import Row


class Trial(harness.Trial, frozen=True, kw_only=True):
    """What is searched."""

    nodes: int = 10
    topics: int = 1
    #: Share of the nodes that take each topic from the beginning.
    members: float = 0.7
    order: Literal["causal", "none"] = "causal"
    active: int = 4
    passive: int = 6
    #: Messages that a node stores for those that ask.
    store: int = 65_536
    #: Joins and leaves.
    changes: int = 0
    actions: int = 30


def trial_of(seed: int) -> Trial:
    rng = random.Random(f"{seed}/trial")
    calm = rng.random() < 0.2
    return Trial(
        nodes=rng.randrange(3, 15),
        topics=rng.choice([1, 1, 2]),
        members=rng.choice([0.5, 0.7, 1.0]),
        order=rng.choice(["causal", "causal", "causal", "none"]),
        active=rng.choice([3, 4, 5]),
        passive=rng.choice([3, 6, 30]),
        store=rng.choice([3, _STORE_SMALL, 65_536]) if not calm else 65_536,
        changes=0 if calm else rng.choice([0, 0, 4, 12]),
        actions=rng.choice([10, 30, 60]),
        answers=rng.choice([0.05, 0.15, 0.3]),
        window_of_time=rng.choice([1500.0, 4000.0, 10_000.0]),
        fifo=rng.random() < 0.3,
        loss=0.0 if calm else rng.choice([0.0, 0.0, 0.1, 0.3]),
        duplication=rng.choice([0.0, 0.0, 0.2]),
        crashes=0 if calm else rng.choice([0, 0, 1, 3]),
        false_suspicions=0 if calm else rng.choice([0, 0, 4]),
    )


class PlumtreeRun(Run[Trial]):
    draw = staticmethod(trial_of)

    @property
    def nodes(self) -> range:
        return range(self.trial.nodes)

    @property
    def across_topics(self) -> bool:
        return False

    def founders(self) -> dict[str, list[int]]:
        rng = random.Random(f"{self.seed}/members")
        count = max(2, round(self.trial.members * self.trial.nodes))
        return {f"t{topic}": sorted(rng.sample(self.nodes, count)) for topic in range(self.trial.topics)}

    def options(self) -> PlumtreeOptions:
        trial = self.trial
        return PlumtreeOptions(
            order=trial.order,
            active=trial.active,
            passive=trial.passive,
            store=trial.store,
            attempts=64 if self.calm else 8,  # a link that is slow for long loses nothing there
        )

    def maker(self) -> MakeProcess:
        return self.options().build_with_rng(
            self.trial.nodes, self.founders(), lambda node: random.Random(f"{self.seed}/protocol at {node}")
        )

    def actions(self) -> Sequence[tuple[int, Callable[[], None]]]:
        return [(self.trial.actions, self._act), (self.trial.changes, self._change)]

    def _act(self) -> None:
        if (found := self.somewhere()) is not None and self.may_publish(*found):
            self.publish(*found)

    def _change(self) -> None:
        if (found := self.somewhere()) is not None:
            self.toggle(*found)

    def may_publish(self, node: int, topic: str) -> bool:
        """A node that no contact has answered does not take the topic that it wants."""
        return super().may_publish(node, topic) and self.simulation.processes[node].wants(topic)

    @property
    def may_wait(self) -> bool:
        """A node that leaves before it has joined does not publish."""
        return self.trial.changes > 0

    @property
    def calm(self) -> bool:
        trial = self.trial
        faults = trial.loss or trial.crashes or trial.false_suspicions or trial.changes
        return not faults and trial.store > _STORE_SMALL

    def rules(self, rows: Sequence[Row]) -> tuple[str, ...]:
        rules = NOTHING_LOST if self.calm else ORDER
        return rules if self.trial.order == "causal" else tuple([rule for rule in rules if rule not in _OF_ORDER])


class ThicketRun(PlumtreeRun):
    """The same with two to four trees."""

    def options(self) -> PlumtreeOptions:
        plain = super().options()
        return ThicketOptions(
            order=plain.order,
            active=plain.active + 2,
            passive=plain.passive,
            store=plain.store,
            attempts=plain.attempts,
            trees=2 + self.seed % 3,
            fanout=self.seed % 5,
        )


_STORE_SMALL = 20
_OF_ORDER = ("causal", "fifo")

search = PlumtreeRun.search
