"""Linear extensions: every dependency first, the same for the same graph, circles told."""

import random
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.spark.causal.extension import extend


def _extend(count: int, edges: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    src = np.array([a for a, _ in edges], np.int64)
    dst = np.array([b for _, b in edges], np.int64)
    place, circle = extend(count, src, dst)
    assert sorted(place.tolist()) == list(range(count))
    return np.argsort(place).tolist(), circle.tolist()


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 7), st.data())
def test_it_is_the_first_of_all_that_respect_the_edges(count: int, data: st.DataObject) -> None:
    """By brute force, on graphs without circles: edges lead from lower to higher in a random numbering."""
    name = data.draw(st.permutations(range(count)))
    pairs = [(name[a], name[b]) for b in range(count) for a in range(b)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    order, circle = _extend(count, edges)
    right = [one for one in permutations(range(count)) if all(one.index(a) < one.index(b) for a, b in edges)]
    assert tuple(order) == min(right)
    assert not any(circle)


@pytest.mark.parametrize("seed", range(50))
def test_around_circles_everything_else_is_in_order(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 40)
    edges = [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, count + 10))]
    order, circle = _extend(count, edges)
    reach = [{a} for a in range(count)]
    for _ in range(count):
        for a, b in edges:
            reach[a] |= reach[b]
    place = {one: index for index, one in enumerate(order)}
    for a in range(count):
        around = {b for b in range(count) if b in reach[a] and a in reach[b]}
        mine = len(around) > 1 or (a, a) in edges
        assert bool(circle[a]) == mine
        if mine:
            assert {b for b in range(count) if circle[b] == circle[a]} == around
            assert sorted(place[b] for b in around) == list(range(place[min(around)], place[min(around)] + len(around)))
    for a, b in edges:
        assert place[a] < place[b] or (circle[a] and circle[a] == circle[b])
    numbers = [circle[one] for one in order if circle[one]]
    assert sorted(numbers) == numbers  # counted as they stand
