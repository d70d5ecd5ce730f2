"""Retention: removes deliveries by age and by size, and keeps what readers and peers still need.

Whole blocks are removed, oldest first. A named cursor holds back what its reader has not read; the node holds back what
its peers may still ask for (`needed_from`). When age or size call for more, the answer names what held it back and at
which position: a reader that never comes back is for an operator to decide.

Age is the time that the node has been running since the delivery. A wrong clock ages nothing, and neither does a time
for which the node was off. Each call notes the running time and the last position; what was there `age_us` ago by these
notes may go.
"""

import sqlite3
from typing import Final

import msgspec

from antecede.journal.fetched import retain_fetched
from antecede.journal.joins import forget_joins
from antecede.journal.topics import forget_spans

#: Notes of age that are kept: deliveries stay longer than asked by up to this part of the age.
_NOTES: Final = 256


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a journal. None: no bound of that kind."""

    #: Of running time.
    age_us: int | None = None
    #: Of the stored deliveries; the file is larger by other tables and free pages.
    bytes_max: int | None = None


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of `retain` did."""

    #: The last position removed, now or before.
    removed: int
    #: Deliveries and bytes removed now.
    deliveries: int
    bytes: int
    #: Bytes of deliveries that are left.
    bytes_left: int
    #: What held back a removal, and the last position it allows to remove: cursors by name, and "node".
    held_back: dict[str, int]


def retain(
    connection: sqlite3.Connection, wanted: Retention, ran_us: int, needed_from: int | None, stored_bytes: int
) -> Retained:
    """Remove what `wanted` calls for, within a transaction. `ran_us`: how long the node has run."""
    cut = max(_cut_by_age(connection, wanted, ran_us), _cut_by_size(connection, wanted, stored_bytes))
    holders = dict(connection.execute("SELECT name, position FROM cursors").fetchall())
    if needed_from is not None:
        holders["node"] = needed_from - 1
    held_back = {name: position for name, position in sorted(holders.items()) if position < cut}
    allowed = min([cut, *held_back.values()])
    (removed,) = connection.execute("SELECT value FROM facts WHERE name = 'removed'").fetchone()
    deliveries, freed, last = connection.execute(
        "SELECT coalesce(sum(last - first + 1), 0), coalesce(sum(length(block)), 0), max(last) "
        "FROM deliveries WHERE last <= ?",
        (allowed,),
    ).fetchone()
    if last is not None:
        removed = last
        connection.execute("DELETE FROM deliveries WHERE first <= ?", (last,))
        connection.execute("DELETE FROM ranges WHERE at <= ?", (last,))
        # Memberships stay: they are few, and the audit of what is left needs them.
        connection.execute("DELETE FROM changes WHERE position < ? AND NOT membership", (last,))
        connection.execute("UPDATE facts SET value = ? WHERE name = 'removed'", (last,))
        forget_joins(connection, last)
        forget_spans(connection, last)
        connection.execute("PRAGMA incremental_vacuum(4000)").fetchall()  # in steps: the file shrinks over time
    before_us = None if wanted.age_us is None else ran_us - wanted.age_us
    room = None if wanted.bytes_max is None else max(0, wanted.bytes_max - stored_bytes + freed)
    retain_fetched(connection, before_us, room)
    return Retained(
        removed=removed, deliveries=deliveries, bytes=freed, bytes_left=stored_bytes - freed, held_back=held_back
    )


def _cut_by_age(connection: sqlite3.Connection, wanted: Retention, ran_us: int) -> int:
    """The last position old enough to be removed; 0: none. Notes how far the journal is by now."""
    connection.execute("UPDATE facts SET value = ? WHERE name = 'ran_us'", (ran_us,))
    if wanted.age_us is None:
        return 0
    (noted,) = connection.execute("SELECT max(ran_us) FROM ages").fetchone()
    if noted is None or ran_us - noted >= wanted.age_us // _NOTES:
        connection.execute("INSERT OR REPLACE INTO ages SELECT ?, position FROM tail", (ran_us,))
    old, cut = connection.execute(
        "SELECT max(ran_us), coalesce(max(position), 0) FROM ages WHERE ran_us <= ?", (ran_us - wanted.age_us,)
    ).fetchone()
    connection.execute("DELETE FROM ages WHERE ran_us < ?", (old,))
    return int(cut)


def _cut_by_size(connection: sqlite3.Connection, wanted: Retention, stored_bytes: int) -> int:
    if wanted.bytes_max is None:
        return 0
    excess = stored_bytes - wanted.bytes_max
    cut = 0
    if excess > 0:
        for last, size in connection.execute("SELECT last, length(block) FROM deliveries ORDER BY first"):
            cut = last
            excess -= size
            if excess <= 0:
                break
    return cut
