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

from itertools import pairwise
from typing import Any

from antecede.core.gate import Need
from antecede.spark.causal.by_id import ById
from antecede.spark.causal.headers import Headers
from antecede.spark.causal.steps import LATE


class WithHoles(ById):
    """One step of a key. A row's source and number together are its id."""

    def rename(self) -> None:
        """Make an id of each name; a row also names the next lower number of its source that is here."""
        headers = self.headers
        names = list(zip(headers.streams, headers.numbers, strict=True))
        by_source: dict[Any, set[int]] = {}
        for source, number in names:
            by_source.setdefault(source, set()).add(number)
        here = set(names)
        before = {(source, b): (source, a) for source, all_ in by_source.items() for a, b in pairwise(sorted(all_))}
        needs: list[Need] = []
        starts = [0]
        for row, name in enumerate(names):
            needs += [(need, 1) for need in headers.of(row) if need in here]
            if name in before:
                needs.append((before[name], 1))
            starts.append(len(needs))
        self.names = names
        self.headers = Headers(list(names), [1] * len(names), starts, needs)

    def release_circles(self) -> None:
        super().release_circles()  # no row waits for one that is not here: none is left
        highest = dict(self.highest)
        for at, row in enumerate(self.out):
            source, number = self.names[row]
            if number < highest.get(source, number):
                self.words[at] = LATE
                self.late += 1
            self.highest[source] = max(number, self.highest.get(source, number))
