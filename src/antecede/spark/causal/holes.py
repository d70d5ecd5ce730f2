"""Orders rows of a stream that was filtered: numbers have holes, and dependencies may never come.

A row waits for nothing beyond its batch. What is in neither this batch nor an earlier one counts as filtered out. That
is right where a row never comes in an earlier batch than a row it depends on: deliveries of nodes
(`format("antecede")`) are such streams, and so is a union of them, each message once for each node.

Within a batch rows keep the order in which they came, except that a row follows the rows it names and the lower numbers
of its source. So a row also stays behind rows that it depends on through one that was filtered out: a node's deliveries
come in causal order, and only rows of different nodes are put into one order here.

A row that comes in a later batch than a higher number of its source is marked "late". To tell it from a copy, every
name is remembered, as ids are (`ids`).
"""

import numpy as np

from antecede.spark.causal.by_id import ById
from antecede.spark.causal.headers import Columns, Headers
from antecede.spark.causal.steps import LATE


class WithHoles(ById):
    """One step of a key. A row's source and number together are its id."""

    def rename(self) -> None:
        """Make an id of each name; a row also names the next lower number of its source that is here."""
        streams, source, number, starts, need_source, need_number = self.headers.columns
        rows = np.arange(len(source))
        sources, numbers = np.concatenate([source, need_source]), np.concatenate([number, need_number])
        order = np.lexsort((numbers, sources))
        other = np.diff(sources[order], prepend=-1) != 0
        ids = np.empty(len(order), np.int64)
        ids[order] = np.cumsum(other | (np.diff(numbers[order], prepend=0) != 0)) - 1
        of_row, of_need = ids[: len(rows)], ids[len(rows) :]
        here = np.zeros(len(ids), np.bool_)
        here[of_row] = True
        renumbered = np.cumsum(here) - 1
        name = renumbered[of_row]
        owner = np.repeat(rows, np.diff(starts))[here[of_need]]
        named = renumbered[of_need[here[of_need]]]
        first = np.unique(name, return_index=True)[1]
        lower = np.diff(source[first], prepend=-1) == 0  # names are sorted: the one before is of the same source
        later = np.flatnonzero(lower[name])
        at = np.searchsorted(owner, later, side="right")
        owner, named = np.insert(owner, at, later), np.insert(named, at, name[later] - 1)
        starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(rows)))])
        names = [(streams[code], n) for code, n in zip(source[first].tolist(), number[first].tolist(), strict=True)]
        self.headers = Headers(Columns(names, name, np.ones_like(name), starts, named, np.ones_like(named)))

    def release_circles(self) -> None:
        super().release_circles()  # no row waits for one that is not here: none is left
        highest = dict(self.highest)
        names = self.headers.columns.streams
        for at, name in enumerate(self.headers.columns.source[self.out].tolist()):
            source, number = names[name]
            if number < highest.get(source, number):
                self.words[at] = LATE
                self.late += 1
            self.highest[source] = max(number, self.highest.get(source, number))
