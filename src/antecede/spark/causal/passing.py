"""Passes the rows of a batch through the gate all at once: the same order as `core.gate` row by row, in less time.

The gate looks up each dependency by name in a dictionary. Here all names of a batch become numbers of rows first, with
array operations. A dependency that was settled before the batch is left out. Rows in front of the first one that has to
wait are released without a look at each. For the others a loop over integers does what the gate does: a row waits for
the first of its dependencies that was not released, and looks for the next one when that is; rows freed together come
in the order in which they began to wait. `tests/spark/test_passing.py` holds the two to each other.

It is used where nothing changes but by releases: no position is settled beyond a hole, and no row comes late.
"""

from typing import Final, NamedTuple

import numpy as np

from antecede.audit.vectorised.columns import Ints
from antecede.spark.causal.headers import Columns

#: A table of all numbers between the lowest and the highest of each source may be so many times as long as the batch.
_SPARSE_MAX: Final = 4


class Passed(NamedTuple):
    """What became of the rows of a batch."""

    #: Released rows, in order.
    out: list[int]
    #: Rows that wait, in the order in which they came to wait for what they wait for now.
    waiting: list[int]
    #: How many rows were settled before or came twice.
    duplicates: int


def pass_rows(columns: Columns, level: Ints) -> Passed:
    """Pass rows in the order in which they came. `level`: by source, the number up to which all was settled before."""
    count = len(columns.source)
    rows = np.arange(count)
    name, owner, needed = _codes(columns, level)
    table = np.full(max(int(name.max(initial=0)), int(needed.max(initial=0))) + 1, count)
    table[name[::-1]] = rows[::-1]  # of several rows with one name, the one that came first
    offered = (table[name] == rows) & (name > 0)
    table[0] = count
    ahead = table[needed]
    blocked = (ahead >= owner) & offered[owner]
    begin = int(owner[blocked.argmax()]) if blocked.any() else count
    in_turn = np.flatnonzero(offered)
    at = int(np.searchsorted(in_turn, begin))
    out = in_turn[:at].tolist()
    waiting: list[int] = []
    if begin < count:
        left = ahead >= begin
        starts = np.concatenate([[0], np.cumsum(np.bincount(owner[left], minlength=count))])
        waiting = _in_turn(in_turn[at:].tolist(), begin, ahead[left].tolist(), starts.tolist(), out)
    return Passed(out, waiting, count - len(in_turn))


def _codes(columns: Columns, level: Ints) -> tuple[Ints, Ints, Ints]:
    """Give a number to each row's name, 0 if it was settled before; and to what rows wait for, 0 if it is not here.

    The latter is flat: the row that waits, and what it waits for. A source's previous row stands before what is named.
    """
    count = len(columns.source)
    rows = np.arange(count)
    above = columns.number - level[columns.source]
    span = np.zeros(len(level), np.int64)
    np.maximum.at(span, columns.source, above)
    need_above = columns.need_number - level[columns.need_source]
    inside = np.flatnonzero(need_above > 0)
    need_row = np.repeat(rows, np.diff(columns.starts))[inside]
    need_source, need_above = columns.need_source[inside], need_above[inside]
    behind = np.flatnonzero(above > 1)
    # A row's own previous one goes in front of its entries.
    at = np.searchsorted(need_row, behind)
    owner = np.insert(need_row, at, behind)
    source = np.insert(need_source, at, columns.source[behind])
    number = np.insert(need_above, at, above[behind] - 1)
    if int(span.sum()) > _SPARSE_MAX * count:
        return _ranked(columns.source, above, owner, source, number)
    base = np.cumsum(span) - span
    name = np.where(above > 0, base[columns.source] + above, 0)
    return name, owner, np.where(number <= span[source], base[source] + number, 0)


def _ranked(row_source: Ints, above: Ints, owner: Ints, source: Ints, number: Ints) -> tuple[Ints, Ints, Ints]:
    """The same where numbers lie far apart: names are sorted."""
    count = len(above)
    numbers, rank = np.unique(np.concatenate([above, number]), return_inverse=True)
    keys = np.concatenate([row_source, source]) * len(numbers) + rank
    codes = np.unique(keys, return_inverse=True)[1].astype(np.int64) + 1
    return np.where(above > 0, codes[:count], 0), owner, codes[count:]


def _in_turn(rows: list[int], begin: int, ahead: list[int], starts: list[int], out: list[int]) -> list[int]:
    """Release what can be released of `rows` to `out`. Returns the rows that wait.

    `ahead[starts[row] : starts[row + 1]]`: the rows that a row waits for. All rows before `begin` are released.
    """
    done = bytearray(b"\1" * begin) + bytearray(len(starts) - begin)
    next_at = starts[:-1]
    behind: dict[int, list[int]] = {}
    began: list[int] = []
    for row in rows:
        at, end = next_at[row], starts[row + 1]
        while at < end and done[ahead[at]]:
            at += 1
        if at < end:
            next_at[row] = at + 1
            began.append(row)
            if ahead[at] in behind:
                behind[ahead[at]].append(row)
            else:
                behind[ahead[at]] = [row]
            continue
        ready = [row]
        for here in ready:  # grows during the loop
            done[here] = 1
            out.append(here)
            for woken in behind.pop(here, ()):
                at, end = next_at[woken], starts[woken + 1]
                while at < end and done[ahead[at]]:
                    at += 1
                if at == end:
                    ready.append(woken)
                    continue
                next_at[woken] = at + 1
                began.append(woken)
                if ahead[at] in behind:
                    behind[ahead[at]].append(woken)
                else:
                    behind[ahead[at]] = [woken]
    last = {row: at for at, row in enumerate(began) if not done[row]}
    return sorted(last, key=last.__getitem__)
