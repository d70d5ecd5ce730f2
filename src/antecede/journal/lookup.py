"""Finding messages by source and sequence number: which are where, for readers that came from another node.

These run in the journal's reading thread. They rest on the order of a journal: of each source on a topic the sequence
numbers rise with positions, so its messages up to some number are those up to some position.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from antecede.core import Message
from antecede.journal.blocks import decode_deliveries
from antecede.journal.view import View

#: (topic, source).
StreamName: TypeAlias = tuple[str, int]


class Stretch(NamedTuple):
    """Messages of one source on one topic, by sequence number."""

    messages: list[Message]
    #: Numbers up to this one that are not among the messages are not in the journal.
    reached: int


def last_seqs(view: View, streams: Iterable[StreamName]) -> dict[StreamName, int]:
    """By topic and source: the sequence number of the last message that was delivered here and is still stored."""
    found: dict[StreamName, int] = {}
    for topic, source in streams:
        row = view.execute(
            "SELECT last_seq FROM ranges WHERE topic = ? AND source = ? ORDER BY first_seq DESC LIMIT 1",
            (topic, source),
        ).fetchone()
        if row is not None:
            found[topic, source] = int(row[0])
    return found


def first_after(view: View, after: int, last: int) -> dict[StreamName, int]:
    """By topic and source: the lowest sequence number delivered at positions after `after`, up to about `last`."""
    found: dict[StreamName, int] = {}
    begin = after
    section = view.section_at(after + 1)
    if section is not None and section.first <= after:  # it holds positions on both sides
        begin = section.last
        for batch in view.batches(after, begin):
            for index, message in enumerate(decode_deliveries(batch.block).messages):
                if batch.first + index > after:
                    stream = (message.topic, message.source)
                    found[stream] = min(message.seq, found.get(stream, message.seq))
    for topic, source, seq in view.execute(
        "SELECT topic, source, min(first_seq) FROM ranges WHERE at > ? AND at <= ? GROUP BY topic, source",
        (begin, last),
    ):
        found[topic, source] = min(seq, found.get((topic, source), seq))
    return found


def locate(view: View, wanted: Mapping[StreamName, int]) -> dict[StreamName, tuple[int, int]]:
    """By topic and source: the first message with at least this sequence number: its number, the position before it.

    A source of which there is none is left out.
    """
    found: dict[StreamName, tuple[int, int]] = {}
    sections: dict[int, dict[StreamName, int]] = {}
    for (topic, source), seq in wanted.items():
        row = view.execute(
            "SELECT first_seq, at FROM ranges WHERE topic = ? AND source = ? AND last_seq >= ? "
            "ORDER BY first_seq LIMIT 1",
            (topic, source, seq),
        ).fetchone()
        if row is not None:
            sections.setdefault(row[1], {})[topic, source] = max(seq, row[0])
    for at, first in sections.items():
        for position, message in _section(view, at):
            stream = (message.topic, message.source)
            if stream in first and message.seq >= first[stream]:
                found[stream] = (message.seq, position - 1)
                del first[stream]
                if not first:
                    break
    return found


#: Rows of messages with numbers from :first to :last: their first and last number, the section or block they are in.
_WITHIN: Final = (
    "SELECT first_seq, last_seq, {key} FROM {table} WHERE topic = :topic AND source = :source AND first_seq <= :last "
    "AND last_seq >= :first AND first_seq >= coalesce((SELECT first_seq FROM {table} "
    "WHERE topic = :topic AND source = :source AND first_seq <= :first ORDER BY first_seq DESC LIMIT 1), 0)"
)


def stretch(
    view: View,
    topic: str,
    source: int,
    first: int,
    last: int,
    bytes_max: int,
    *,
    fetched: bool = False,
) -> Stretch:
    """The messages `first` to `last` of a source: about `bytes_max` bytes of payload, and at least one message.

    `fetched`: look also among those that were fetched from other nodes.
    """
    wanted = {"topic": topic, "source": source, "first": first, "last": last}
    places = [(*row, False) for row in view.execute(_WITHIN.format(key="at", table="ranges"), wanted)]
    if fetched:
        places += [(*row, True) for row in view.execute(_WITHIN.format(key="number", table="fetched"), wanted)]
    found: dict[int, Message] = {}
    size = 0
    held, theirs = 0, list[Message]()  # the section that was read last, and what it has of the source
    for begin, end, key, was_fetched in sorted(places):
        if was_fetched:
            messages = _fetched(view, key)
        else:
            if key != held:
                held, theirs = key, _in_section(view, key, topic, source)
            messages = theirs
        for message in messages:
            if max(first, begin) <= message.seq <= min(last, end):
                if size < bytes_max:
                    found[message.seq] = message
                size += len(message.payload)
        if size >= bytes_max:
            return Stretch([found[seq] for seq in sorted(found)], max(found))
    return Stretch([found[seq] for seq in sorted(found)], last)


def _in_section(view: View, at: int, topic: str, source: int) -> list[Message]:
    """What the section that begins at position `at` has of a source on a topic."""
    return [message for _, message in _section(view, at) if message.source == source and message.topic == topic]


def _section(view: View, at: int) -> Iterator[tuple[int, Message]]:
    """The messages of the section that begins at position `at`, with their positions."""
    section = view.section_at(at)
    if section is not None:
        for batch in view.batches(section.first - 1, section.last):
            yield from enumerate(decode_deliveries(batch.block).messages, batch.first)


def _fetched(view: View, number: int) -> list[Message]:
    row = view.execute("SELECT block FROM fetched WHERE number = ?", (number,)).fetchone()
    return [] if row is None else decode_deliveries(row[0]).messages
