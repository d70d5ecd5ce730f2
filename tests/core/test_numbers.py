"""Sets of sequence numbers, held against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from antecede.core.numbers import WINDOW, NumberSet, absorb


@given(st.integers(0, 20), st.sets(st.integers(1, 40)))
def test_a_run_is_absorbed(reached: int, numbers: set[int]) -> None:
    beyond = {number for number in numbers if number > reached}
    present = {*range(1, reached + 1), *beyond}
    end = absorb(reached, beyond)
    assert {*range(1, end + 1), *beyond} == present
    assert end + 1 not in present
    assert all(number > end for number in beyond)


@given(st.lists(st.integers(1, 3000)))
def test_second_copies_are_recognised(numbers: list[int]) -> None:
    seen, taken = NumberSet(), set()
    for number in numbers:
        known = number in seen
        new = seen.add(number)
        assert new != known
        assert not (new and number in taken)
        assert new or number in taken or number <= max(taken) - WINDOW
        taken.add(number)
        assert number in seen
        assert len(seen) <= WINDOW


def test_what_comes_in_order_takes_no_room() -> None:
    seen = NumberSet()
    assert all(seen.add(number) for number in range(1, 5000))
    assert len(seen) == 0
