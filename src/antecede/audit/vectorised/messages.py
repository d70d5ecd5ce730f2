"""Numbers messages, and finds the numbers of many names at once."""

from typing import Final

import numpy as np

from antecede.audit.vectorised.columns import Bools, Ints, Topics

#: A look-up table may be so many times larger than its contents; otherwise a sorted search is used.
_WASTE_MAX: Final = 8
_SMALL: Final = 1 << 16
#: So many names are looked up at once: their arrays stay in the cache, and a stray name slows down its block alone.
_BLOCK: Final = 1 << 15


class Messages:
    """Distinct messages; the number of a message is its index."""

    def __init__(self, topic: Ints, source: Ints, seq: Ints, base: "Messages | None" = None) -> None:
        """`base`: the first of these messages, indexed already. The others get an index of their own."""
        self.topic, self.source, self.seq = (np.asarray(column, np.int64) for column in (topic, source, seq))
        #: By message: the number of its (topic, source), in their order.
        self.stream: Ints = np.zeros(0, np.int64)
        self._sources = int(self.source.max()) + 1 if len(self.source) else 1
        names = self.topic * self._sources + self.source
        self._streams, self.stream = np.unique(names, return_inverse=True)
        self._base = base
        if base is not None:
            known = len(base)
            self._more = Messages(self.topic[known:], self.source[known:], self.seq[known:])
            return
        self._square = self._table_of_names()
        self._stream_of = self._table_of_streams()
        self._slots, self._offset, self._top = self._table_of_seqs()

    def __len__(self) -> int:
        return len(self.seq)

    def key(self, message: int, topics: Topics) -> tuple[str, int, int]:
        return topics.names[int(self.topic[message])], int(self.source[message]), int(self.seq[message])

    def find(self, topic: Ints, source: Ints, seq: Ints) -> Ints:
        """The numbers of the messages with these names; −1 for unknown names."""
        if not len(self) or not len(seq):
            return np.full(len(seq), -1, np.int64)
        if self._base is not None:
            return self._find_in_both(self._base, topic, source, seq)
        if self._square is None:
            return self._find_by_stream(topic, source, seq)
        found = np.empty(len(seq), np.int64)
        for begin in range(0, len(seq), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            name = topic[block], source[block], seq[block]
            found[block] = self._look_up(*name) if self._all_within(*name) else self._find_by_stream(*name)
        return found

    def _look_up(self, topic: Ints, source: Ints, seq: Ints) -> Ints:
        assert self._square is not None
        name = topic.astype(np.int64)
        name *= self._sources
        name += source
        name *= self._seqs
        name += seq
        return self._square.take(name)

    def _find_by_stream(self, topic: Ints, source: Ints, seq: Ints) -> Ints:
        stream = self._find_stream(topic, source)
        known = seq <= self._top.take(
            stream
        )  # for a stream that was not found this compares with the last one; undone below
        known &= (stream >= 0) & (seq >= 1)
        if self._slots is None:
            return self._search(stream, seq, known)
        slot = self._offset.take(stream) + seq
        return np.where(known, self._slots.take(np.where(known, slot, 0)), -1)

    def extended(self, topic: Ints, source: Ints, seq: Ints) -> "Messages":
        """These messages and further ones, whose numbers follow."""
        return Messages(
            np.concatenate([self.topic, topic]),
            np.concatenate([self.source, source]),
            np.concatenate([self.seq, seq]),
            base=self,
        )

    def _find_in_both(self, base: "Messages", topic: Ints, source: Ints, seq: Ints) -> Ints:
        found = base.find(topic, source, seq)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            more = self._more.find(topic[unknown], source[unknown], seq[unknown])
            found[unknown] = np.where(more >= 0, more + len(base), -1)
        return found

    def _table_of_names(self) -> Ints | None:
        """A table of all possible names, unless most of them do not exist. With it, finding is one look-up."""
        self._seqs = int(self.seq.max()) + 1 if len(self) else 1
        self._topics = int(self.topic.max()) + 1 if len(self) else 1
        size = float(self._topics) * self._sources * self._seqs
        if size > max(_SMALL, _WASTE_MAX * len(self)):
            return None
        square = np.full(int(size), -1, np.int64)
        square[(self.topic * self._sources + self.source) * self._seqs + self.seq] = np.arange(len(self))
        return square

    def _all_within(self, topic: Ints, source: Ints, seq: Ints) -> bool:
        low = min(topic.min(), source.min(), seq.min())
        return bool(low >= 0 and topic.max() < self._topics and source.max() < self._sources and seq.max() < self._seqs)

    def _table_of_streams(self) -> Ints | None:
        size = int(self._streams[-1]) + 1 if len(self._streams) else 0
        if size > max(_SMALL, _WASTE_MAX * len(self)):
            return None
        streams = np.full(size, -1, np.int64)
        streams[self._streams] = np.arange(len(self._streams))
        return streams

    def _find_stream(self, topic: Ints, source: Ints) -> Ints:
        name = np.asarray(topic, np.int64) * self._sources + source
        plain = topic.min() >= 0 and source.min() >= 0 and source.max() < self._sources
        if plain and self._stream_of is not None and name.max() < len(self._stream_of):
            return self._stream_of.take(name)
        known = (source >= 0) & (source < self._sources) & (topic >= 0) & (name <= self._streams[-1])
        if self._stream_of is not None:
            return np.where(known, self._stream_of[np.where(known, name, 0)], -1)
        index = np.minimum(np.searchsorted(self._streams, name), len(self._streams) - 1)
        return np.where(known & (self._streams[index] == name), index, -1)

    def _table_of_seqs(self) -> tuple[Ints | None, Ints, Ints]:
        top = np.zeros(len(self._streams), np.int64)
        np.maximum.at(top, self.stream, self.seq)
        offset = np.concatenate([[0], np.cumsum(top.astype(float))])  # floats, because a seq may be absurdly large
        if offset[-1] > max(_SMALL, _WASTE_MAX * len(self)):
            return None, np.zeros(0, np.int64), top
        offset = offset.astype(np.int64)
        slots = np.full(int(offset[-1]) + 1, -1, np.int64)
        slots[offset[self.stream] + self.seq] = np.arange(len(self))
        return slots, offset[:-1], top

    def _search(self, stream: Ints, seq: Ints, known: Bools) -> Ints:
        """Find by rank instead of by value, because the numbers of a source have wide holes."""
        values, rank = np.unique(self.seq, return_inverse=True)
        names = self.stream * len(values) + rank
        order = np.argsort(names)
        at = np.minimum(np.searchsorted(values, seq), len(values) - 1)
        known = known & (values[at] == seq)
        name = stream * len(values) + at
        index = np.minimum(np.searchsorted(names, name, sorter=order), len(names) - 1)
        found = order[index]
        return np.where(known & (names[found] == name), found, -1)


def distinct(topic: Ints, source: Ints, seq: Ints) -> Ints:
    """The indices of the first of each name, in order."""
    order = np.lexsort((np.arange(len(seq)), seq, source, topic))
    names = np.stack([topic[order], source[order], seq[order]])
    new = np.ones(len(order), bool)
    new[1:] = (names[:, 1:] != names[:, :-1]).any(axis=0)
    return np.sort(order[new])
