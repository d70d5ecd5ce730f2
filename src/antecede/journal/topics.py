"""The topic index of a journal: it tells which deliveries cannot be on a wanted topic, so that readers skip them.

Deliveries are indexed by *spans* of some thousand, in whole batches. The row of a span is a Bloom filter of its topics
and of their parents: `a/b/c` is entered as `a/b/c`, `a/` and `a/b/`. A filter that begins with a wildcard skips
nothing. About one span in eighty is read in vain; none is skipped that holds a wanted topic. What no row covers is
read: the newest deliveries, up to about those that the log's own index lacks (`index.TAIL_BYTES`), those of spans that
a crash cut off, and journals of earlier versions.

The table is made with the first row. Versions that do not know it ignore it, and leave what they write uncovered.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

TABLE: Final = """
CREATE TABLE IF NOT EXISTS topic_spans (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, bloom BLOB NOT NULL);
"""

#: Runs a statement of SQL on a connection.
Execute: TypeAlias = Callable[..., sqlite3.Cursor]

#: Deliveries of a span, at least. A rare message costs its reader one span; every span costs a row.
SPAN: Final = 1024

#: Ten bits an entry with four of them set give one wrong answer in eighty.
_BITS_PER_ENTRY: Final = 10
_BITS_SET: Final = 4

#: Parents of a topic that are entered. Deeper ones are looked for by the last of these.
_PARENTS_MAX: Final = 8

#: Rows that a reader looks at in one question.
_ROWS_MAX: Final = 4096


class Span(NamedTuple):
    """The topics of the deliveries at positions `first` to `last`."""

    first: int
    last: int
    topics: Collection[str]


class Gathering:
    """Gathers the topics of deliveries until they fill a span."""

    def __init__(self) -> None:
        self._first = self._next = 0
        self._topics: set[str | None] = set()

    def add(self, first: int, topics: Sequence[str | None]) -> Span | None:
        """Take the topics of a batch, whose first delivery has position `first`; the span, once it is full.

        None: the delivery is on no topic of an application, and no reader asks for it.
        """
        if first != self._next:
            self._first = first
            self._topics.clear()
        self._next = first + len(topics)
        self._topics.update(topics)
        return self.take() if self._next - self._first >= SPAN else None

    def take(self) -> Span | None:
        """The span as far as it was gathered; None: it is empty."""
        if self._first == self._next:
            return None
        span = Span(self._first, self._next - 1, [topic for topic in self._topics if topic is not None])
        self._first = self._next
        self._topics.clear()
        return span


def store_span(connection: sqlite3.Connection, span: Span) -> None:
    """Write the row of a span, within a transaction."""
    connection.execute(TABLE)
    connection.execute("INSERT OR REPLACE INTO topic_spans VALUES (?, ?, ?)", (span.first, span.last, _bloom(span)))


def forget_spans(connection: sqlite3.Connection, removed: int) -> None:
    """Remove the rows of deliveries that retention has removed, up to position `removed`."""
    if _has_spans(connection.execute):
        connection.execute("DELETE FROM topic_spans WHERE first <= ? AND last <= ?", (removed, removed))


def drop_spans_after(connection: sqlite3.Connection, position: int) -> None:
    """Remove the rows of deliveries behind `position`, which a power failure took: others will stand there."""
    if _has_spans(connection.execute):
        connection.execute("DELETE FROM topic_spans WHERE last > ?", (position,))


def candidates(execute: Execute, after: int, last: int, filters: Collection[str]) -> tuple[list[tuple[int, int]], int]:
    """Where deliveries after position `after` up to `last` may be on a topic that one of the filters takes; without
    filters, everywhere.

    Returns ranges in order, each behind its first position up to its second; and how far the index was looked at.
    """
    entries = _wanted(filters) if filters else None
    if entries is None or not _has_spans(execute):
        return [(after, last)], last
    rows = execute(
        "SELECT first, last, bloom FROM topic_spans WHERE first >= coalesce((SELECT max(first) FROM topic_spans"
        " WHERE first <= ?), 0) AND first <= ? ORDER BY first LIMIT ?",
        (after + 1, last, _ROWS_MAX),
    ).fetchall()
    if len(rows) == _ROWS_MAX:
        last = min(last, rows[-1][1])
    ranges: list[tuple[int, int]] = []
    begin = after
    for first, end, bloom in rows:
        if end > begin and not _may_hold(bloom, first, entries):
            if first - 1 > begin:
                ranges.append((begin, first - 1))
            begin = end
    if begin < last:
        ranges.append((begin, last))
    return ranges, last


def _has_spans(execute: Execute) -> bool:
    return execute("SELECT 1 FROM sqlite_master WHERE name = 'topic_spans'").fetchone() is not None


def _entries(topics: Iterable[str]) -> set[str]:
    """Topics and their parents; a parent ends with a slash."""
    entries: set[str] = set()
    for topic in topics:
        entries.add(topic)
        end = -1
        for _ in range(_PARENTS_MAX):
            end = topic.find("/", end + 1)
            if end < 0:
                break
            entries.add(topic[: end + 1])
    return entries


def _wanted(filters: Iterable[str]) -> list[bytes] | None:
    """The entries of which a span must hold one, if it holds a topic that a filter takes. None: it may hold any."""
    entries: list[str] = []
    for pattern in filters:
        levels = pattern.split("/")
        plain = next((at for at, level in enumerate(levels) if level in ("+", "#")), len(levels))
        if plain == len(levels):
            entries.append(pattern)
        elif plain == 0:
            return None
        else:
            entries.append("".join([f"{level}/" for level in levels[: min(plain, _PARENTS_MAX)]]))
            if levels[plain] == "#":  # takes the parent itself too
                entries.append("/".join(levels[:plain]))
    return [entry.encode() for entry in entries]


def _bits(entry: bytes, first: int, size: int) -> list[int]:
    """The bits of an entry in the filter of the span that begins at position `first`.

    The position takes part: spans mostly hold the same topics, and must not all give the same wrong answer.
    """
    begin = crc32(entry, first)
    step = (begin * 0x9E3779B1 >> 8) & 0xFFFFFF | 1  # by the golden ratio: well mixed, and cheap
    return [at % size for at in range(begin, begin + _BITS_SET * step, step)]


def _bloom(span: Span) -> bytes:
    entries = _entries(span.topics)
    bloom = bytearray(max(1, -(-len(entries) * _BITS_PER_ENTRY // 8)))
    for entry in entries:
        for bit in _bits(entry.encode(), span.first, 8 * len(bloom)):
            bloom[bit >> 3] |= 1 << (bit & 7)
    return bytes(bloom)


def _may_hold(bloom: bytes, first: int, entries: Iterable[bytes]) -> bool:
    size = 8 * len(bloom)
    return any(all(bloom[bit >> 3] >> (bit & 7) & 1 for bit in _bits(entry, first, size)) for entry in entries)
