"""The chain against itself, against small cases worked out by hand, and against dice."""

import random
from itertools import pairwise

import pytest

from antecede.experiments.kim_ahn.epidemic_model import all_reached, mean_reached, rounds_to_all, spread


def by_dice(nodes: int, fanout: int, rng: random.Random, loss: float, crash: float) -> int:
    """The model's own assumptions, played: every pair independently."""
    told = fanout / (nodes - 1) * (1 - loss) * (1 - crash)
    have, rounds = 1, 0
    while have < nodes:
        have += sum(rng.random() < 1 - (1 - told) ** have for _ in range(nodes - have))
        rounds += 1
    return rounds


def test_two_processes() -> None:
    """One other, told with probability 0.9: after r rounds it has it with probability 1 − 0.1^r."""
    after = spread(2, 1, 3, loss=0.1, crash=0.0)
    assert [round(all_reached(one), 6) for one in after] == [0, 0.9, 0.99, 0.999]
    assert rounds_to_all(2, 1, loss=0.1, crash=0.0) == pytest.approx(1 / 0.9)


def test_three_processes_and_no_loss() -> None:
    """Each of two others is told with probability 1/2: 1/4 none, 1/2 one, 1/4 both."""
    first = spread(3, 1, 1, loss=0.0, crash=0.0)[1]
    assert first.tolist() == pytest.approx([0, 0.25, 0.5, 0.25])
    assert mean_reached(first) == pytest.approx(2.0)


@pytest.mark.parametrize("fanout", [1, 3])
def test_it_is_a_distribution_that_only_grows(fanout: int) -> None:
    after = spread(125, fanout, 20)
    assert all(one.sum() == pytest.approx(1.0) for one in after)
    means = [mean_reached(one) for one in after]
    assert means == sorted(means)


def test_dice_agree() -> None:
    rng = random.Random(7)
    played = [by_dice(64, 2, rng, 0.05, 0.01) for _ in range(400)]
    assert sum(played) / len(played) == pytest.approx(rounds_to_all(64, 2), rel=0.03)


def test_growth_is_logarithmic() -> None:
    """Doubling the processes adds about as many rounds each time."""
    rounds = [rounds_to_all(nodes, 3) for nodes in (64, 128, 256, 512)]
    steps = [later - earlier for earlier, later in pairwise(rounds)]
    assert all(0.5 < step < 1.0 for step in steps), steps
