"""Cursors: the quick way to write many is the slow one's, and where a reader is follows from what it was given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.wire.cursors import MessageId, ReaderPosition, Trail, parse_cursor, positions_of
from antecede.wire.requests import Begun, Info, Items

_RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50), st.integers(1, 4)), min_size=1, max_size=6)
_SEEN = st.none() | st.dictionaries(st.integers(0, 3), st.integers(0, 50))


@given(ids=_RUNS, seen=_SEEN, epoch=st.sampled_from([0, 7]), tagged=st.frozensets(st.integers(0, 23)))
def test_many_cursors_are_those_of_each(
    ids: list[tuple[int, int, int]], seen: dict[int, int] | None, epoch: int, tagged: frozenset[int]
) -> None:
    trail = Trail(2, epoch, seen, tuple(ids), tagged)
    positions = list(range(100, 100 + sum(count for _, _, count in ids)))
    cursors = list(trail.cursors(positions))
    assert cursors == [trail.cursor(index, position) for index, position in enumerate(positions)]
    for text, position in zip(cursors, positions, strict=True):
        cursor = parse_cursor(text)
        assert (cursor.node, cursor.position, cursor.epoch) == (2, position, epoch or None)


@given(ids=_RUNS, tagged=st.frozensets(st.integers(0, 23)))
def test_a_reader_is_behind_the_last_message_that_it_was_given(
    ids: list[tuple[int, int, int]], tagged: frozenset[int]
) -> None:
    """The cursor of the reader is that of its last message; a message out of order does not count."""
    count = sum(run[2] for run in ids)
    reader = ReaderPosition()
    assert reader.begin_at(Info(2, 0, 0), None) == (-1, ())
    reader.begun(Begun(1, 99, ((0, 1), (1, 2))))
    record = Items(1, 0, (b"",) * count, ((100, count),), tuple(ids), out_of_order=tuple(sorted(tagged)))
    positions = positions_of(record)
    *_, last = reader.take(record, positions).cursors(positions)
    assert reader.cursor == last
    # It goes on there at the same node, and by its messages at another one.
    assert reader.go_on_at(Info(2, 0, 0)) == (99 + count, tuple((reader.seen or {}).items()))
    assert reader.go_on_at(Info(3, 0, 0)) == (0, tuple((reader.seen or {}).items()))


@pytest.mark.parametrize("wrong", ["", "3", "3.0", "p1/3", "p1000/3.1", "p256/0.1", "262144.1", "1.2.3", " 3.1"])
def test_a_message_id_that_no_cluster_has_is_refused(wrong: str) -> None:
    assert MessageId.parse("p255/1023.7") == MessageId(262_143, 7)
    with pytest.raises(UsageError, match="message id"):
        MessageId.parse(wrong)
