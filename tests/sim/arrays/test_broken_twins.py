"""A twin that is wrong somewhere must differ from the engine: each of these puts one mistake in."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from antecede.sim import RunSpec
from antecede.sim.arrays import flow, order, queues
from antecede.sim.arrays.queues import Ints
from tests.sim.arrays.comparing import Story, story_of_arrays, story_of_engine

#: Short ways and long queues: an eighth of all deliveries wait for others.
CROWDED = RunSpec(
    protocol="vcube-ps",
    nodes=48,
    network="peersim:delay=2",
    workload="uniform:window=30,messages=4,publishers=0.5",
    options={"mode": "faithful"},
)


def _delivers_at_once(self: order.Order, number: int, needs: Sequence[int]) -> None:
    """What has come is delivered."""


def _forgets_its_stamps(plain: Callable[..., Ints]) -> Callable[..., Ints]:
    """A barrier holds what was delivered since the run began, not since the last stamp."""
    return lambda self, number, node, since, until: plain(self, number, node, 0, until)


def _ties_of_a_step(plain: Callable[..., Ints]) -> Callable[..., Ints]:
    """What is delivered in the events just behind the stamp is taken for earlier."""
    return lambda self, number, node, since, until: plain(self, number, node, since, until + 40)


def _always_before(words: NDArray[np.uint64], coin: Ints, group: Ints, rank: Ints) -> NDArray[np.bool_]:
    """Every event is before its node's turn."""
    return np.ones(len(coin), np.bool_)


def _coins_of_their_own(words: NDArray[np.uint64], coin: Ints, group: Ints, rank: Ints) -> NDArray[np.bool_]:
    """The events of a node and step do not share its turn."""
    return queues.as_bits(words[coin]) == 1


def _first_completes(plain: Callable[..., list[int]]) -> Callable[..., list[int]]:
    """The first of several acknowledgements of a step completes a message, in the place of the last."""
    return lambda self, events, acks: plain(self, events, acks[::-1])


DIFFERS_IN: dict[str, Callable[[Story], object]] = {
    "packets": lambda story: story.packets,
    "barriers": lambda story: story.published,
    "deliveries": lambda story: story.deliveries,
}


def test_unbroken() -> None:
    assert story_of_arrays(CROWDED) == story_of_engine(CROWDED)


@pytest.mark.parametrize(
    ("owner", "name", "broken", "where"),
    [
        (order.Order, "_wait", _delivers_at_once, "deliveries"),
        (order.Order, "_frontier", _forgets_its_stamps(order.Order._frontier), "barriers"),
        (order.Order, "_frontier", _ties_of_a_step(order.Order._frontier), "barriers"),
        (queues, "_before_their_turn", _always_before, "packets"),
        (queues, "_before_their_turn", _coins_of_their_own, "packets"),
        (flow.Flow, "_acknowledged", _first_completes(flow.Flow._acknowledged), "packets"),
    ],
)
def test_broken(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, broken: Callable[..., object], where: str
) -> None:
    right = story_of_engine(CROWDED)
    monkeypatch.setattr(owner, name, broken)
    wrong = story_of_arrays(CROWDED)
    assert DIFFERS_IN[where](wrong) != DIFFERS_IN[where](right)
