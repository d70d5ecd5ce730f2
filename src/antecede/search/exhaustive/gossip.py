"""Gossip in the version with immediate predecessors (gossip-context), with three brokers.

Fan-out and views have room for all brokers, so a push goes to each. Where a broker still draws one of two others (for a
digest), they have turns: random choices are not explored. A message leaves its broker in a round, so the timers of
rounds expire at any moment, up to the bound.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from antecede.core import Process
from antecede.protocols.gossip.options import ContextOptions
from antecede.search.exhaustive.model import Bounds, Happening, Model, Step, join, publish, waiting
from antecede.search.harness import NOTHING_LOST, ORDER

T = TypeVar("T")


class _Turns:
    """A generator that draws one after the other, so that each has its turn."""

    def __init__(self) -> None:
        self._drawn = 0

    def random(self) -> float:
        return 0.0

    def randrange(self, stop: int, /) -> int:
        self._drawn += 1
        return self._drawn % stop

    def choice(self, among: Sequence[T], /) -> T:
        return among[self.randrange(len(among))]

    def sample(self, among: Sequence[T], k: int) -> list[T]:
        first = self.randrange(len(among))
        return [*among[first:], *among[:first]][:k]


def rules(processes: Mapping[int, Process], happened: Sequence[Happening]) -> tuple[str, ...]:
    """A broker that crashed may take a message with it. Brokers that give it up promise order only."""
    if len(processes) == _NODES:
        return NOTHING_LOST
    return ORDER if any(process.given_up for process in processes.values()) else (*ORDER, "complete")


def unfinished(process: Process) -> list[str]:
    """Without a crash no message need be given up."""
    gave_up = [f"gave {process.given_up} messages up"] if process.given_up else []
    return [*waiting(process), *gave_up]


def model(
    summary: str,
    script: Mapping[int, Sequence[Step]],
    topics: Mapping[str, Sequence[int]],
    young: int = 2,
    **bounds: int,
) -> Model:
    options = ContextOptions(fanout=2, view=4, young=2, rest=8, retain=64, patience=32)
    return Model(
        summary=summary,
        nodes=_NODES,
        make=options.build_with_rng(_NODES, topics, lambda node: _Turns()),
        founders=topics,
        script=script,
        bounds=Bounds(**bounds),
        rules=rules,
        unfinished=waiting if bounds.get("crashes") else unfinished,
    )


_NODES = 3
_ALL = {"g": (0, 1, 2)}
#: No broker takes all groups: what lies between two messages of a group may be in groups that a reader does not take.
_TRIANGLE = {"a": (0, 1), "b": (1, 2), "c": (0, 2)}

MODELS = {
    "gossip": model(
        "gossip: one group, one message of each broker",
        {node: publish("g") for node in range(_NODES)},
        _ALL,
        timers=3,
        crashes=1,
    ),
    "gossip-suspicion": model(
        "gossip: one group, one message", {0: publish("g")}, _ALL, crashes=1, timers=2, suspicions=1
    ),
    "gossip-loss": model("gossip: one group, one message", {0: publish("g")}, _ALL, timers=2, losses=2),
    "gossip-loss-two": model(
        "gossip: one group, two messages", {0: publish("g"), 1: publish("g")}, _ALL, timers=2, losses=2
    ),
    "gossip-join": model(
        "gossip: two groups, a broker joins the second",
        {0: (*publish("a"), *publish("b")), 2: join("b")},
        {"a": (0, 1, 2), "b": (0, 1)},
        timers=3,
    ),
    "gossip-join-suspicions": model(
        "gossip: two groups, a broker joins the second",
        {0: (*publish("b"), *publish("a")), 1: join("b")},
        {"a": (0, 1), "b": (0, 2)},
        timers=2,
        suspicions=2,
    ),
    "gossip-triangle": model(
        "gossip: three groups of two brokers, three messages",
        {0: (*publish("c"), *publish("a")), 1: publish("b")},
        _TRIANGLE,
        timers=3,
    ),
}
