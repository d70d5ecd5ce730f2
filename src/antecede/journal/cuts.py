"""Translates between positions of one journal and frontiers, which hold at every node.

A *frontier* has, by stream, the last message up to some point. Within a journal the sequence numbers of a stream rise
with positions. So the frontier at a position is found by bisection over the index of each stream, without a look at the
messages between; and a message is found by its number.
"""

from collections.abc import Mapping
from typing import Final

from antecede.journal.blocks import decode_deliveries, decode_lean
from antecede.journal.lookup import StreamName, locate
from antecede.journal.view import View

#: The last range of a stream that begins at or before a number.
_RANGE: Final = (
    "SELECT first_seq, last_seq, at FROM ranges WHERE topic = ? AND source = ? AND first_seq <= ? "
    "ORDER BY first_seq DESC LIMIT 1"
)
_HIGHEST: Final = (1 << 63) - 1


def frontier_at(view: View, position: int, present: Mapping[StreamName, int]) -> dict[StreamName, int]:
    """By topic and source: the last message at or before `position`. `present`: the same for the last position.

    A message may be there in number only: it was delivered before this node took the topic, or retention removed it.
    """
    section = view.section_at(position)
    split = section is not None and section.last > position
    begin = section.first - 1 if section is not None and split else position
    found = {stream: _last_until(view, *stream, begin, seq) for stream, seq in present.items()}
    if split:  # a section with deliveries on both sides of the position
        for batch in view.batches(begin, position):
            for message in decode_deliveries(batch.block).messages[: position - batch.first + 1]:
                stream = (message.topic, message.source)
                if stream in found:
                    found[stream] = max(message.seq, found[stream])
    return found


def _last_until(view: View, topic: str, source: int, at: int, present: int) -> int:
    """The last message of a stream in sections that begin at or before position `at`."""
    row = view.execute(_RANGE, (topic, source, _HIGHEST)).fetchone()
    if row is None or row[2] <= at:
        return present
    (lowest,) = view.execute(
        "SELECT first_seq FROM ranges WHERE topic = ? AND source = ? ORDER BY first_seq LIMIT 1", (topic, source)
    ).fetchone()
    low, high, found = int(lowest), int(row[0]) - 1, int(lowest) - 1
    while low <= high:
        middle = (low + high) // 2
        first, last, where = view.execute(_RANGE, (topic, source, middle)).fetchone()
        if where <= at:
            found, low = max(found, int(last)), max(middle, int(last)) + 1
        else:
            high = int(first) - 1
    return found


def first_of(view: View, wanted: Mapping[StreamName, int], last: int) -> int:
    """The position before the first of these messages, or of later ones of their streams; `last`: there are none."""
    begin = min([position for _, position in locate(view, wanted).values()], default=last)
    section = None if begin >= last else view.section_at(begin + 1)
    if section is None:
        return min(begin, last)
    for batch in view.batches(begin, section.last):
        for at, one in enumerate(decode_lean(batch.block).messages):
            if one.seq >= wanted.get((one.topic, one.source), _HIGHEST):
                return batch.first + at - 1
    return begin


def end_of(view: View, wanted: Mapping[StreamName, int]) -> int:
    """The last position of the batches that hold these messages, or the messages before them; 0: there are none."""
    ends = [0]
    for (topic, source), seq in wanted.items():
        row = view.execute(_RANGE, (topic, source, seq)).fetchone()
        section = None if row is None else view.section_at(row[2])
        if section is None:
            continue
        for batch in view.batches(section.first - 1, section.last):
            for one in decode_lean(batch.block).messages:
                if one.seq <= seq and one.source == source and one.topic == topic:
                    ends.append(batch.last)
                    break
    return max(ends)


def holes(view: View, topic: str, source: int, after: int, last: int) -> list[tuple[int, int]]:
    """The first and last numbers of messages behind `after` up to `last` that are not in the journal."""
    found: list[tuple[int, int]] = []
    reached = after
    for first_seq, last_seq in view.execute(
        "SELECT first_seq, last_seq FROM ranges WHERE topic = ? AND source = ? AND first_seq >= coalesce((SELECT "
        "first_seq FROM ranges WHERE topic = ? AND source = ? AND first_seq <= ? ORDER BY first_seq DESC LIMIT 1), 0) "
        "AND first_seq <= ? "
        "ORDER BY first_seq",
        (topic, source, topic, source, after + 1, last),
    ):
        if first_seq > reached + 1:
            found.append((reached + 1, int(first_seq) - 1))
        reached = max(reached, int(last_seq))
    return [*found, (reached + 1, last)] if reached < last else found
