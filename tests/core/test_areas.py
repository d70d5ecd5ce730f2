"""Cells of an area as topics: paths, discs and the fewest filters for them."""

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.core.areas import cell_of, cells_touched, corners, filters, from_degrees, topic_of
from antecede.wire.topics import TopicFilter

ONE = st.floats(0, 1)
LEVEL = st.integers(0, 4)


def test_a_path_is_coarse_first_and_quarters_count_from_the_south_west() -> None:
    assert cell_of(0.1, 0.1, 1) == (0,)
    assert cell_of(0.9, 0.1, 1) == (1,)
    assert cell_of(0.1, 0.9, 1) == (2,)
    assert cell_of(0.6, 0.9, 3) == (3, 2, 2)
    assert topic_of((3, 2, 2)) == "area/3/2/2"
    assert cell_of(1, 1, 2) == (3, 3)


@given(ONE, ONE, LEVEL)
def test_a_point_lies_in_its_cell_and_in_all_larger_ones(x: float, y: float, level: int) -> None:
    cell = cell_of(x, y, level)
    for depth in range(level + 1):
        west, south, east, north = corners(cell[:depth])
        assert west <= x <= east
        assert south <= y <= north
        assert cell_of(x, y, depth) == cell[:depth]


@settings(max_examples=50)
@given(ONE, ONE, st.floats(0, 0.7), LEVEL)
def test_the_cells_touched_are_those_with_a_point_in_the_disc(x: float, y: float, radius: float, level: int) -> None:
    """Against all cells, one by one."""
    near = []
    for cell in product(range(4), repeat=level):
        west, south, east, north = corners(cell)
        if math.dist((x, y), (min(max(x, west), east), min(max(y, south), north))) <= radius:
            near.append(cell)
    assert cells_touched(x, y, radius, level) == near


@settings(max_examples=50)
@given(ONE, ONE, st.floats(0, 0.7), LEVEL)
def test_filters_take_the_cells_touched_and_no_others(x: float, y: float, radius: float, level: int) -> None:
    touched = {topic_of(cell) for cell in cells_touched(x, y, radius, level)}
    chosen = filters(x, y, radius, level)
    taking = [TopicFilter(pattern).matches for pattern in chosen]
    for cell in product(range(4), repeat=level):
        topic = topic_of(cell)
        assert sum(matches(topic) for matches in taking) == (topic in touched)
    assert len(chosen) <= len(touched)


def test_a_whole_quarter_is_one_filter() -> None:
    assert filters(0.25, 0.25, 0.2, 2) == ["area/0/#"]
    assert filters(0.5, 0.5, 1, 3) == ["area/#"]


def test_degrees() -> None:
    assert from_degrees(0, 0) == (0.5, 0.5)
    assert from_degrees(90, -180) == (0, 1)
    with pytest.raises(UsageError, match="not on the Earth"):
        from_degrees(91, 0)


def test_refusals() -> None:
    with pytest.raises(UsageError, match="outside the area"):
        cell_of(1.1, 0, 2)
    with pytest.raises(UsageError, match="level"):
        cell_of(0, 0, 27)
