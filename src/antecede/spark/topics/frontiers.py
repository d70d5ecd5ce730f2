"""Frontiers: by stream, the last message that a reader has had. A frontier holds at every node that has the partition.

A stream is what one node publishes in one partition (`core.partitions`). Its messages come in the order of their
sequence numbers at every node. So the messages between two frontiers are the same everywhere, whatever their positions.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from antecede.core.epochs import behind_seam
from antecede.core.limits import PARTITIONS_MAX, SLOTS_MAX
from antecede.core.partitions import split_stream

Frontier: TypeAlias = Mapping[int, int]
Ints: TypeAlias = npt.NDArray[Any]

_STREAMS: Final = PARTITIONS_MAX * SLOTS_MAX


def of_partitions(frontier: Frontier, partitions: Iterable[int]) -> dict[int, int]:
    """The part of a frontier that belongs to these partitions."""
    wanted = frozenset(partitions)
    return {stream: seq for stream, seq in frontier.items() if split_stream(stream)[0] in wanted}


def rows_between(had: Frontier, until: Frontier) -> int:
    """How many messages there are behind `had` up to `until`; of a slot with a new owner only those of the new one."""
    return sum([max(0, seq - behind_seam(seq, had.get(stream, 0))) for stream, seq in until.items()])


def covers(one: Frontier, other: Frontier) -> bool:
    """Is everything up to `other` also up to `one`?"""
    return all(seq <= one.get(stream, 0) for stream, seq in other.items())


def highest(one: Frontier, other: Frontier) -> dict[int, int]:
    """The frontier behind both."""
    return {stream: max(one.get(stream, 0), other.get(stream, 0)) for stream in sorted({*one, *other})}


class Window:
    """Chooses the messages of a chunk that are behind one frontier, up to another; and notes how far it got."""

    def __init__(self, had: Frontier, until: Frontier | None) -> None:
        """`until`: messages of streams that it does not name are not wanted. None: there is no end."""
        self._had = had
        self._until = until
        self._low = _levels(had, 0)
        self._high = None if until is None else _levels(until, 0)
        #: By stream: the last of the messages chosen so far.
        self.reached: dict[int, int] = {}

    def choose(self, streams: Ints, seqs: Ints) -> Ints | None:
        """The indexes of the messages that are wanted; None: all are."""
        at = np.minimum(streams, _STREAMS - 1)
        wanted = seqs > self._low.take(at)
        if self._high is not None:
            wanted &= seqs <= self._high.take(at)
        some = None if wanted.all() else np.flatnonzero(wanted)
        last = np.zeros(_STREAMS, np.int64)
        # Of equal indexes the last value stays: of each stream its last message.
        last[at if some is None else at[some]] = seqs if some is None else seqs[some]
        found = np.flatnonzero(last)
        self.reached.update(zip(found.tolist(), last[found].tolist(), strict=True))
        return some

    def takes(self, stream: int, seq: int) -> bool:
        """`choose` for one message."""
        if seq <= self._had.get(stream, 0) or (self._until is not None and seq > self._until.get(stream, 0)):
            return False
        self.reached[stream] = seq
        return True


def _levels(frontier: Frontier, default: int) -> Ints:
    levels = np.full(_STREAMS, default, np.int64)
    if frontier:
        levels[np.fromiter(frontier.keys(), np.int64)] = np.fromiter(frontier.values(), np.int64)
    return levels
