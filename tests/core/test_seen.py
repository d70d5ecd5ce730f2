"""Second copies are recognised, whatever the order, in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from antecede.core.seen import REMEMBERED, Seen


@given(st.lists(st.integers(1, 3000)))
def test_second_copies_are_recognised(numbers: list[int]) -> None:
    seen, taken = Seen(), set()
    for number in numbers:
        known = number in seen
        new = seen.add(number)
        assert new != known
        assert not (new and number in taken)
        assert new or number in taken or number <= max(taken) - REMEMBERED
        taken.add(number)
        assert number in seen
        assert len(seen) <= REMEMBERED


def test_what_comes_in_order_takes_no_room() -> None:
    seen = Seen()
    assert all(seen.add(number) for number in range(1, 5000))
    assert len(seen) == 0
