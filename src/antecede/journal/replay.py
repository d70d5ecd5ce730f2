"""Reads deliveries back in order, a page at a time, for feeds that begin in the past."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from antecede.core import Message
from antecede.core.errors import GapError
from antecede.journal.blocks import Delivered, decode_deliveries
from antecede.journal.topics import candidates
from antecede.journal.view import View


class Page(NamedTuple):
    """A part of a replay. Read on after `position`; it lies beyond the last item where some did not match."""

    items: list[Delivered]
    position: int


def replay(
    view: View,
    after: int,
    *,
    limit: int,
    matches: Callable[[Message], bool] | None,
    filters: Collection[str],
    rest: Callable[[], None],
) -> Page:
    """Up to about `limit` deliveries after position `after` that match (`Journal.read`).

    It ends where the view does: what is written meanwhile is not missing. `rest` is called between two blocks. Raises
    `GapError`.
    """
    items: list[Delivered] = []
    looked_at = 0
    ranges, end = candidates(view.execute, after, max(after, view.position), filters)
    for begin, wanted in ranges:
        reached = begin
        for first, last_of_block, time_us, block in view.batches(begin, wanted):
            if first > reached + 1:
                break
            for item in decode_deliveries(block).read(first, time_us):
                if item.position > begin and (matches is None or matches(item.message)):
                    items.append(item)
            looked_at += last_of_block - reached
            reached = last_of_block
            if len(items) >= limit or looked_at >= limit * 100:  # scanning must not keep the thread for ever
                return Page(items, reached)
            rest()
        if reached < wanted:  # retention was here since the caller looked
            raise GapError(after, view.removed + 1)
    return Page(items, max(after, end))
