"""Cursors of records that were taken a while ago."""

from antecede.protocols.logs import Gap, Header, LogCursor, Reader, Release, Trail, Trails


def take_all(reader: Reader[Header], trails: Trails) -> list[tuple[Trail, int]]:
    marks = []
    while (taken := reader.take()) is not None:
        if isinstance(taken, Gap):
            trails.begin()
        else:
            marks.append(trails.add(taken, taken.record))
    return marks


def test_a_number_that_was_given_up_before_the_cursor_may_come_behind_it() -> None:
    reader: Reader[Header] = Reader({1: LogCursor(0)}, whole=frozenset([1]))
    trails = Trails(reader, dict)
    for offset, number in enumerate((1, 3, 4, 5), 1):
        header = Header(7, number)
        reader.arrived(1, offset, header, header)
    (hole,) = reader.holes()
    reader.give_up(hole)
    marks = take_all(reader, trails)
    assert len(marks) == 4
    for trail, index in marks[1:]:
        cursor = trail.cursor(index)
        again: Reader[Header] = Reader(cursor.logs, whole=cursor.whole)
        late = Header(7, 2)
        again.arrived(1, 5, late, late)
        assert again.take() == Release(1, 5, late, (), late=True)


def test_a_gap_that_was_told_before_the_cursor_is_not_told_again() -> None:
    reader: Reader[Header] = Reader({1: LogCursor(0)}, whole=frozenset([1]))
    trails = Trails(reader, dict)
    reader.removed(1, 4)
    for offset in (4, 5, 6):
        header = Header(7, offset)
        reader.arrived(1, offset, header, header)
    (_, (trail, index), _) = take_all(reader, trails)
    cursor = trail.cursor(index)
    assert cursor.whole == frozenset()
    assert cursor.logs[1].gaps == ((1, 3),)
    again: Reader[Header] = Reader(cursor.logs, whole=cursor.whole)
    again.removed(1, 4)
    header = Header(7, 6)
    again.arrived(1, 6, header, header)
    assert again.take() == Release(1, 6, header, ())


def test_a_gap_that_waits_to_be_told_is_not_behind_the_cursor() -> None:
    """The application is slow: two gaps are ready behind the record that it takes before it is killed."""
    reader: Reader[Header] = Reader({1: LogCursor(0)}, whole=frozenset([1]))
    trails = Trails(reader, dict)
    header = Header(7, 1)
    reader.arrived(1, 1, header, header)
    reader.removed(1, 4)
    reader.removed(1, 6)
    taken = reader.take()
    assert isinstance(taken, Release)
    trail, index = trails.add(taken, header)
    again: Reader[Header] = Reader(trail.cursor(index).logs)
    again.removed(1, 9)
    assert again.take() == Gap(1, 2, 8)
    assert reader.take() == Gap(1, 2, 3)
    assert reader.cursor()[1].low == 3
    assert reader.take() == Gap(1, 4, 5)
    assert reader.cursor()[1].low == 5
