"""Fills columns from stored deliveries by whole arrays: an object per message would cost more than its bytes.

A stored message is msgpack: each field starts with its length, so the end of one field is the beginning of the next.
Messages are therefore walked side by side. Each has a cursor into the bytes of the chunk; one step reads the same field
of all messages and moves every cursor behind it, in a dozen array operations. msgspec finds where the messages begin:
it skips over them without looking inside.

Only messages as our own encoder writes them are walked. Any client may send another payload; then `Unusual` is raised
and `plain` reads the chunk, with equal results. No cursor leaves its message: every step is checked against the end.
"""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from antecede.core import ProtocolError
from antecede.core.limits import SLOTS_MAX
from antecede.journal.blocks import skim
from antecede.spark.topics.chunks import Chunk
from antecede.spark.topics.frontiers import Window
from antecede.wire.envelope import open_all

Ints: TypeAlias = npt.NDArray[Any]
Bools: TypeAlias = npt.NDArray[Any]


class Unusual(Exception):
    """Bytes that our own encoder does not write."""


def packed_columns(chunk: Chunk, kinds: Mapping[str, pa.DataType], takes: Callable[[str], bool]) -> dict[str, pa.Array]:
    """Fill columns as `plain_columns` does. Raises `Unusual` and `DamagedError`."""
    rows = _open(chunk)
    messages, some = _messages(rows.data, rows.span, chunk.window)
    rows = rows if some is None else rows.some(some)
    envelopes = _envelopes(rows.data, messages.payload)
    topics = _slices(rows.data, envelopes.topic)
    wanted = _wanted(topics, takes)
    if wanted is not None:
        rows, messages, envelopes = rows.some(wanted), messages.some(wanted), envelopes.some(wanted)
        topics = topics.take(pa.array(wanted))
    fill: dict[str, Callable[[pa.DataType], pa.Array]] = {
        # `_wanted` has decoded them as UTF-8.
        "topic": lambda kind: pa.Array.from_buffers(kind, len(topics), topics.buffers()),
        "source": lambda kind: pa.array(messages.source.astype(np.int32), kind),
        "seq": lambda kind: pa.array(messages.seq, kind),
        "deps": lambda kind: _lists(kind, messages.deps),
        "payload": lambda kind: _slices(rows.data, envelopes.body),
        "headers": lambda kind: _maps(kind, len(rows.position), envelopes.headers),
        "published": lambda kind: pa.array(envelopes.time_us).view(kind),
        "delivered": lambda kind: pa.array(rows.time_us).view(kind),
        "held_us": lambda kind: pa.array(rows.held_us, kind),
        "position": lambda kind: pa.array(rows.position, kind),
        "clock": lambda kind: pa.array(messages.clock, kind, mask=messages.clock == 0),
    }
    return {name: fill[name](kind) for name, kind in kinds.items()}


# -- what the walk finds
# -----------------------------------------------------------------------------------------------------


class _Spans(NamedTuple):
    """A range of bytes for each row."""

    begin: Ints
    end: Ints

    def some(self, which: Ints) -> "_Spans":
        return _Spans(self.begin[which], self.end[which])


class _Rows(NamedTuple):
    """The messages of a chunk: their bytes, and the columns stored beside them."""

    data: "_Bytes"
    span: _Spans
    position: Ints
    time_us: Ints
    held_us: Ints

    def some(self, which: Ints) -> "_Rows":
        return _Rows(self.data, self.span.some(which), self.position[which], self.time_us[which], self.held_us[which])


class _Deps(NamedTuple):
    """The number of dependencies of each row; and the dependencies of all rows, one after the other."""

    counts: Ints
    source: Ints
    seq: Ints

    def some(self, which: Ints) -> "_Deps":
        kept = np.zeros(len(self.counts), bool)
        kept[which] = True
        entries = np.repeat(kept, self.counts)
        return _Deps(self.counts[which], self.source[entries], self.seq[entries])


class _Messages(NamedTuple):
    source: Ints
    seq: Ints
    deps: _Deps
    payload: _Spans
    #: 0: unknown.
    clock: Ints

    def some(self, which: Ints) -> "_Messages":
        deps, payload = self.deps.some(which), self.payload.some(which)
        return _Messages(self.source[which], self.seq[which], deps, payload, self.clock[which])


class _Envelopes(NamedTuple):
    topic: _Spans
    time_us: Ints
    body: _Spans
    #: The headers of rows that have any, by row.
    headers: dict[int, dict[str, str]]

    def some(self, which: Ints) -> "_Envelopes":
        headers = self.headers
        if headers:
            headers = {row: headers[at] for row, at in enumerate(which.tolist()) if at in headers}
        return _Envelopes(self.topic.some(which), self.time_us[which], self.body.some(which), headers)


# -- walking -----------------------------------------------------------------------------------------------------------

#: Added after the last message, so that eight bytes can be read at any index.
_PADDING: Final = bytes(8)

_NOT: Final = 255


class _Kind(NamedTuple):
    """A type of msgpack values, by first byte: how many bytes of a number or length follow, or the number itself.

    `_NOT`: the byte begins a value of another type.
    """

    extra: Ints
    low: Ints


def _kind(inside: range, behind: Mapping[int, int]) -> _Kind:
    extra, low = np.full(256, _NOT, np.uint8), np.zeros(256, np.int64)
    extra[list(inside)] = 0
    low[list(inside)] = np.arange(len(inside))
    for first, count in behind.items():
        extra[first] = count
    return _Kind(extra, low)


_NUMBER: Final = _kind(range(0x00, 0x80), {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8})
_ARRAY: Final = _kind(range(0x90, 0xA0), {0xDC: 2, 0xDD: 4})
_TEXT: Final = _kind(range(0xA0, 0xC0), {0xD9: 1, 0xDA: 2, 0xDB: 4})
_BYTES: Final = _kind(range(0), {0xC4: 1, 0xC5: 2, 0xC6: 4})
_NO_HEADERS: Final = 0x80
_NOTHING: Final = 0x90

#: With more dependencies in one message, reading message by message is faster than so many steps.
_STEPS_MAX: Final = 2000


class _Bytes:
    """The bytes of a chunk, readable at many indices at once."""

    def __init__(self, blocks: list[bytes]) -> None:
        self.all = b"".join([*blocks, _PADDING])
        self.single = np.frombuffer(self.all, np.uint8)
        #: The eight bytes from each index on, as one number.
        self.eight = np.ndarray((len(self.all) - 7,), ">u8", self.all, strides=(1,))


class _Walk:
    """A cursor for each row."""

    def __init__(self, data: _Bytes, span: _Spans) -> None:
        self._data = data
        self.at, self._end = span

    def read(self, kind: _Kind) -> Ints:
        """Read the next number, or the length of the next value, of each row."""
        first = self._data.single.take(self.at)
        extra = kind.extra.take(first)
        least, most = extra.min(initial=_NOT), extra.max(initial=0)
        if most == _NOT:
            raise Unusual
        number = kind.low.take(first)
        if most:
            # Usually all rows have one width. Otherwise, rows without extra bytes are their own number.
            longer = slice(None) if least else np.flatnonzero(extra)
            bits = 64 - 8 * extra[longer].astype(np.uint64)
            number[longer] = self._data.eight[self.at[longer] + 1].astype(np.uint64) >> bits
            if number.min() < 0:  # above 2**63 − 1
                raise Unusual
        self._move(1 + extra.astype(np.int64))
        return number

    def skip(self, kind: _Kind) -> _Spans:
        """Skip a text or bytes, and return where it is."""
        size = self.read(kind)
        begin = self.at
        self._move(size)
        return _Spans(begin, self.at)

    def only(self, which: Ints) -> "_Walk":
        return _Walk(self._data, _Spans(self.at[which], self._end[which]))

    def _move(self, by: Ints) -> None:
        self.at = self.at + by
        if (self.at > self._end).any():
            raise Unusual


def _open(chunk: Chunk) -> _Rows:
    """Locate the wanted messages."""
    blocks = [skim(piece.block) for piece in chunk.pieces]
    sizes = np.fromiter(map(len, chain.from_iterable(block.messages for block in blocks)), np.int64)
    count = np.array([len(block.messages) for block in blocks], np.int64)
    first_row = np.cumsum(count) - count
    of_block = np.repeat(np.arange(len(blocks)), count)
    length = np.array([len(piece.block) for piece in chunk.pieces], np.int64)
    first_at = np.cumsum(length) - length + np.array([block.begin for block in blocks], np.int64)
    before = np.concatenate([[0], np.cumsum(sizes)])
    at = (first_at - before[first_row])[of_block] + before[:-1]
    offset = np.arange(len(sizes)) - first_row[of_block]
    held_us = np.zeros(len(sizes), np.int64)
    for row, piece, block in zip(first_row.tolist(), chunk.pieces, blocks, strict=True):
        if piece.offsets is not None:
            offset[row : row + len(block.messages)] = piece.offsets
        for index, us in block.held_us.items():
            held_us[row + index] = us
    position = np.array([piece.first for piece in chunk.pieces], np.int64)[of_block] + offset
    time_us = np.array([piece.time_us for piece in chunk.pieces], np.int64)[of_block]
    data = _Bytes([piece.block for piece in chunk.pieces])
    rows = _Rows(data, _Spans(at, at + sizes), position, time_us, held_us)
    inside = (position > chunk.after) & (position <= chunk.last)
    return rows if inside.all() else rows.some(np.flatnonzero(inside))


def _messages(data: _Bytes, span: _Spans, window: Window | None) -> tuple[_Messages, Ints | None]:
    """Walk the fields of `core.Message`. Also returns which rows the window chooses; None: all."""
    walk = _Walk(data, span)
    fields = walk.read(_ARRAY)
    if fields.min(initial=5) < 5:
        raise Unusual
    # The partition; the topic of the application is in the envelope.
    base = _bases(data, walk.skip(_TEXT))
    source, seq = base + walk.read(_NUMBER), walk.read(_NUMBER)
    chosen = None if window is None else window.choose(source, seq)
    if chosen is not None:  # before the dependencies, which cost most
        walk, fields = walk.only(chosen), fields[chosen]
        base, source, seq = base[chosen], source[chosen], seq[chosen]
    deps = _pairs(walk)
    deps = deps._replace(source=deps.source + np.repeat(base, deps.counts))
    payload = walk.skip(_BYTES)
    walk = walk.only(np.arange(len(seq)))  # a copy: `payload` has its cursors as ends
    some = np.flatnonzero(fields > 5)
    empty = data.single.take(walk.at[some]) == _NOTHING
    walk.at[some[empty]] += 1
    some = some[~empty]
    if len(some):
        across = walk.only(some)
        deps = _joined(deps, _pairs(across, data), some)
        walk.at[some] = across.at
    clock = np.zeros(len(seq), np.int64)
    timed = np.flatnonzero(fields > 6)
    if len(timed):
        clock[timed] = walk.only(timed).read(_NUMBER)
    return _Messages(source, seq, deps, payload, clock), chosen


def _bases(data: _Bytes, name: _Spans) -> Ints:
    """What the streams of a partition begin with, by its name (`core.partitions`): `p5`, or any other for the first."""
    size = name.end - name.begin
    first, *digits = [data.single.take(name.begin + at).astype(np.int64) for at in range(4)]
    number = np.zeros_like(size)
    for at, digit in enumerate(digits, 1):
        number = np.where(at < size, 10 * number + digit - ord("0"), number)
    return np.where((first == ord("p")) & (size > 1) & (size < 5), number * SLOTS_MAX, 0)


def _pairs(walk: _Walk, names_in: _Bytes | None = None) -> _Deps:
    """Walk an array of pairs of numbers: first the first pairs of all rows, then the second pairs, and so on.

    `names_in`: a partition's name, in these bytes, is in front of each pair; its base is added to the source.
    """
    count = walk.read(_ARRAY)
    if count.max(initial=0) > _STEPS_MAX:
        raise Unusual
    first = np.cumsum(count) - count
    source, seq = np.zeros(int(count.sum()), np.int64), np.zeros(int(count.sum()), np.int64)
    left = np.flatnonzero(count)
    index = 0
    while len(left):
        pairs = walk.only(left)
        if (pairs.read(_ARRAY) != (2 if names_in is None else 3)).any():
            raise Unusual
        base = 0 if names_in is None else _bases(names_in, pairs.skip(_TEXT))
        source[first[left] + index] = base + pairs.read(_NUMBER)
        seq[first[left] + index] = pairs.read(_NUMBER)
        walk.at[left] = pairs.at
        index += 1
        left = left[count[left] > index]
    return _Deps(count, source, seq)


def _joined(deps: _Deps, across: _Deps, rows: Ints) -> _Deps:
    """Dependencies of all rows, followed in each of `rows` by those across partitions."""
    counts = deps.counts.copy()
    counts[rows] += across.counts
    order = np.argsort(
        np.concatenate([np.repeat(np.arange(len(counts)), deps.counts), np.repeat(rows, across.counts)]), kind="stable"
    )
    return _Deps(
        counts, np.concatenate([deps.source, across.source])[order], np.concatenate([deps.seq, across.seq])[order]
    )


def _envelopes(data: _Bytes, payload: _Spans) -> _Envelopes:
    """Walk the fields of `wire.envelope.Envelope`."""
    walk = _Walk(data, payload)
    fields = walk.read(_ARRAY)
    if fields.min(initial=3) < 3:
        raise Unusual
    topic = walk.skip(_TEXT)
    time_us = walk.read(_NUMBER)
    body = walk.skip(_BYTES)
    headers: dict[int, dict[str, str]] = {}
    for row in np.flatnonzero(~_bare(data, fields, walk.at, payload.end)).tolist():
        try:
            (opened,) = open_all([data.all[payload.begin[row] : payload.end[row]]])
        except ProtocolError:
            raise Unusual from None
        if opened.headers:
            headers[row] = opened.headers
    return _Envelopes(topic, time_us, body, headers)


def _bare(data: _Bytes, fields: Ints, at: Ints, end: Ints) -> Bools:
    """Which envelopes have no headers, and after them nothing but perhaps the two numbers of a staged batch."""
    empty = data.single[at] == _NO_HEADERS
    bare: Bools = empty & (fields == 4) & (at + 1 == end)
    marked = np.flatnonzero(empty & (fields == 5))
    if len(marked):
        walk = _Walk(data, _Spans(at[marked] + 1, end[marked]))
        if (walk.read(_ARRAY) != 2).any():
            raise Unusual
        walk.read(_NUMBER)
        walk.read(_NUMBER)
        bare[marked] = walk.at == end[marked]
    return bare


# -- columns -----------------------------------------------------------------------------------------------------------


def _wanted(topics: pa.Array, takes: Callable[[str], bool]) -> Ints | None:
    """The rows whose topic is taken; None if all are."""
    encoded = topics.dictionary_encode()
    try:
        taken = np.array([takes(word.decode()) for word in encoded.dictionary.to_pylist()], bool)
    except UnicodeDecodeError:
        raise Unusual from None
    if taken.all():
        return None
    return np.flatnonzero(taken[encoded.indices.to_numpy()])


def _slices(data: _Bytes, span: _Spans) -> pa.Array:
    """The ranges as one column: Arrow gets ranges and gaps alternately, and every second one is taken."""
    count = len(span.begin)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2], bounds[1::2] = span
    every = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data.all)])
    return every.take(pa.array(np.arange(0, 2 * count, 2)))


def _lists(kind: pa.DataType, deps: _Deps) -> pa.Array:
    columns = [pa.array(deps.source.astype(np.int32)), pa.array(deps.seq)]
    pairs = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(_offsets(deps.counts)), pairs, type=kind)


def _maps(kind: pa.DataType, count: int, headers: Mapping[int, dict[str, str]]) -> pa.Array:
    sizes = np.zeros(count, np.int64)
    for row, words in headers.items():
        sizes[row] = len(words)
    names = pa.array([name for words in headers.values() for name in words], pa.string())
    values = pa.array([value for words in headers.values() for value in words.values()], pa.string())
    return pa.MapArray.from_arrays(pa.array(_offsets(sizes)), names, values, type=kind)


def _offsets(sizes: Ints) -> Ints:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
