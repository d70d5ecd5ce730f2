"""What to let go of: by age, by size, and never what somebody still needs; and saying who that is.

Whole blocks go, oldest first. A named cursor holds back what its reader has not read, the node what its peers may still
ask for (`needed_from`). When age or size ask for more than these allow, the answer names who held back and where they
stand: a reader that never comes back is an operator's decision, not the journal's.
"""

import sqlite3

import msgspec


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. None: no bound of that kind."""

    age_us: int | None = None
    #: Of the stored deliveries; the file is larger by tables and free pages.
    bytes_max: int | None = None


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    #: The last position removed, now or before.
    removed: int
    #: Deliveries and bytes removed now.
    deliveries: int
    bytes: int
    #: Bytes of deliveries that are left.
    bytes_left: int
    #: Who held back what age or size asked to remove, and the last position it lets go: cursors by name, and "node".
    held_back: dict[str, int]


def retain(
    connection: sqlite3.Connection, wanted: Retention, now_us: int, needed_from: int | None, stored_bytes: int
) -> Retained:
    """Within a transaction."""
    cut = max(_cut_by_age(connection, wanted, now_us), _cut_by_size(connection, wanted, stored_bytes))
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
        # Memberships stay: they are few, and what is left is judged by them.
        connection.execute("DELETE FROM changes WHERE position < ? AND NOT membership", (last,))
        connection.execute("UPDATE facts SET value = ? WHERE name = 'removed'", (last,))
        connection.execute("PRAGMA incremental_vacuum(4000)").fetchall()  # a step at a time: the file shrinks by and by
    return Retained(
        removed=removed, deliveries=deliveries, bytes=freed, bytes_left=stored_bytes - freed, held_back=held_back
    )


def _cut_by_age(connection: sqlite3.Connection, wanted: Retention, now_us: int) -> int:
    """The last position old enough to go; 0: none."""
    if wanted.age_us is None:
        return 0
    # Times never decrease with positions, so the first block that is young enough ends the search.
    (young,) = connection.execute(
        "SELECT min(first) FROM deliveries WHERE time_us >= ?", (now_us - wanted.age_us,)
    ).fetchone()
    if young is not None:
        return int(young) - 1
    (last,) = connection.execute("SELECT coalesce(max(last), 0) FROM deliveries").fetchone()
    return int(last)


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
