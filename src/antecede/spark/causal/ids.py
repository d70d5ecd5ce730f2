"""Remembers which ids of a key were released. A batch costs what its own rows cost, however many ids came before.

Ids are kept as digests of 16 bytes, sorted, in segments that never change once written. A batch adds a segment of its
own. It is merged with smaller ones before it, as in a log-structured merge tree: an id is rewritten a few times, and
there are few segments. A store (Spark's state) holds the segments in parts, and gives each back by its number.

A segment that never changes can be cached: a worker reads each once (`_cache`), whichever worker runs the next batch.

Ids are forgotten by whole segments: those behind the newest `horizon_rows`, or older than `horizon_ms` by the clock.
Segments hold at most an eighth of the horizon, so at most that much more is kept.
"""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np

Digests: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_DIGEST_BYTES: Final = 16
#: The most ids of a segment: merging them takes some 0.2 s.
_SEGMENT_IDS_MAX: Final = 1 << 20
#: The most ids of a part, which is one value of the store: 1 MiB.
_PART_IDS: Final = 1 << 16
_SEGMENTS_OF_HORIZON: Final = 8
#: Of the segments that one worker has read.
_CACHE_BYTES: Final = 256 << 20


class Store(Protocol):
    """Holds parts of segments, by the number of the segment and of the part."""

    def read(self, segment: int, part: int) -> bytes: ...
    def write(self, segment: int, part: int, ids: bytes) -> None: ...
    def remove(self, segment: int, part: int) -> None: ...


class Segment(msgspec.Struct, array_like=True, frozen=True):
    """Ids that were released from `oldest_ms` to `newest_ms` of the clock."""

    number: int
    #: Names the segment among all of all keys and queries, for the cache.
    name: bytes
    count: int
    oldest_ms: int
    newest_ms: int


class Horizon(NamedTuple):
    """How far back ids are remembered; None: without a limit."""

    rows: int | None = None
    ms: int | None = None

    @property
    def span_ms_max(self) -> float:
        return inf if self.ms is None else self.ms / _SEGMENTS_OF_HORIZON

    @property
    def segment_max(self) -> int:
        return (
            _SEGMENT_IDS_MAX if self.rows is None else max(1, min(_SEGMENT_IDS_MAX, self.rows // _SEGMENTS_OF_HORIZON))
        )


_cache: "OrderedDict[bytes, Digests]" = OrderedDict()


def digests(ids: Iterable[Any]) -> Digests:
    """The digests of ids: two columns of 64 bits."""
    joined = b"".join([hashlib.blake2b(_plain(one), digest_size=_DIGEST_BYTES).digest() for one in ids])
    return np.frombuffer(joined, ">u8").astype(np.uint64).reshape(-1, 2)


def _plain(one: Any) -> bytes:
    if isinstance(one, str):
        return one.encode()
    return one if isinstance(one, bytes) else str(one).encode()


class SeenIds:
    """The ids of one key that were released."""

    def __init__(self, segments: Sequence[Segment], store: Store) -> None:
        """`segments`: oldest first."""
        self.segments = list(segments)
        self._store = store

    @property
    def count(self) -> int:
        return sum(segment.count for segment in self.segments)

    def among(self, asked: Digests) -> Flags:
        """Of each digest: was its id released, and is it remembered?"""
        found = np.zeros(len(asked), np.bool_)
        if not self.segments or not len(asked):
            return found
        order = np.argsort(asked[:, 0])  # a search in order is several times as fast
        asked = asked[order]
        for segment in self.segments:
            found |= _member(self._load(segment), asked)
        back = np.empty(len(found), np.bool_)
        back[order] = found
        return back

    def add(self, new: Digests, clock_ms: int, horizon: Horizon) -> None:
        """Remember ids that were just released, and forget those behind the horizon."""
        self._forget(len(new), clock_ms, horizon)
        if not len(new):
            return
        merged = [new]
        count, oldest_ms = len(new), clock_ms
        while self.segments and self.segments[-1].count < 2 * count:
            last = self.segments[-1]
            if last.count + count > horizon.segment_max or clock_ms - last.oldest_ms > horizon.span_ms_max:
                break
            oldest_ms = last.oldest_ms
            merged.append(self._load(last))
            count += last.count
            self._remove(self.segments.pop())
        number = self.segments[-1].number + 1 if self.segments else 0
        ids = np.concatenate(merged)
        for begin in range(0, count, horizon.segment_max):  # a batch may be larger than a segment
            self._write(number, _sorted(ids[begin : begin + horizon.segment_max]), oldest_ms, clock_ms)
            number += 1

    def _forget(self, more: int, clock_ms: int, horizon: Horizon) -> None:
        newer = self.count + more
        while self.segments:
            oldest = self.segments[0]
            newer -= oldest.count
            enough = horizon.rows is not None and newer >= horizon.rows
            if not enough and (horizon.ms is None or oldest.newest_ms >= clock_ms - horizon.ms):
                return
            self._remove(self.segments.pop(0))

    def _load(self, segment: Segment) -> Digests:
        if segment.name in _cache:
            _cache.move_to_end(segment.name)
            return _cache[segment.name]
        parts = [self._store.read(segment.number, part) for part in range(_parts(segment.count))]
        ids = np.frombuffer(b"".join(parts), "<u8").astype(np.uint64, copy=False).reshape(-1, 2)
        _keep(segment.name, ids)
        return ids

    def _write(self, number: int, ids: Digests, oldest_ms: int, newest_ms: int) -> None:
        segment = Segment(number, os.urandom(8), len(ids), oldest_ms, newest_ms)
        for part in range(_parts(len(ids))):
            each = ids[part * _PART_IDS : (part + 1) * _PART_IDS]
            self._store.write(number, part, each.astype("<u8", copy=False).tobytes())
        _keep(segment.name, ids)
        self.segments.append(segment)

    def _remove(self, segment: Segment) -> None:
        # The cache keeps it until it is full: a task that is run again needs it once more.
        for part in range(_parts(segment.count)):
            self._store.remove(segment.number, part)


def _parts(count: int) -> int:
    return -(-count // _PART_IDS)


def _sorted(ids: Digests) -> Digests:
    return ids[np.lexsort((ids[:, 1], ids[:, 0]))]


def _member(there: Digests, asked: Digests) -> Flags:
    """Of each digest: is it among the sorted ones?"""
    high, low = there[:, 0], there[:, 1]
    at = np.minimum(np.searchsorted(high, asked[:, 0]), len(high) - 1)
    same = high[at] == asked[:, 0]
    found: Flags = same & (low[at] == asked[:, 1])
    # The first halves of two digests are equal once in many billions.
    for row in np.flatnonzero(same & ~found).tolist():
        end = int(np.searchsorted(high, asked[row, 0], side="right"))
        found[row] = bool((low[at[row] : end] == asked[row, 1]).any())
    return found


def _keep(name: bytes, ids: Digests) -> None:
    _cache[name] = ids
    _cache.move_to_end(name)
    kept = sum(one.nbytes for one in _cache.values())
    while kept > _CACHE_BYTES and len(_cache) > 1:
        kept -= _cache.popitem(last=False)[1].nbytes
