"""Where a node began to take topics, and which earlier messages it lacks from there on.

A change "subscribe" stands behind some position (table `changes`). The node writes the
list of messages that it lacks at that point a little later. If it crashes in between, the join has no such list.
"""

import json
import sqlite3
from typing import Final, NamedTuple

from antecede.journal.blocks import decode_changes
from antecede.journal.view import View

#: How the names of these facts begin: "join p5 1045".
_NAME: Final = "join "


class Join(NamedTuple):
    """The node took `topic` behind `position`."""

    topic: str
    position: int
    #: Had it taken the topic before, and left it?
    again: bool
    #: Did the application ask for it? False: the protocol went on behind messages that no node had.
    asked: bool = True
    #: (source, first, last) of the messages that it never delivers; None: that is not known.
    missing: tuple[tuple[int, int, int], ...] | None = None


def note_join(connection: sqlite3.Connection, join: Join) -> None:
    """Write down what is missing, within a transaction."""
    value = json.dumps([join.asked, join.missing])
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (f"{_NAME}{join.topic} {join.position}", value))


def find_joins(view: View) -> list[Join]:
    """All joins of this journal, oldest first."""
    facts = dict(view.execute("SELECT name, value FROM facts WHERE name LIKE ?", (f"{_NAME}%",)).fetchall())
    found: list[Join] = []
    left: set[str] = set()
    for position, block in view.execute("SELECT position, block FROM changes WHERE membership ORDER BY number"):
        for change in decode_changes(block):
            if change.what == "unsubscribe":
                left.add(change.topic)
            if change.what != "subscribe":
                continue
            at = position + change.after
            join = Join(change.topic, at, change.topic in left)
            noted = facts.get(f"{_NAME}{change.topic} {at}")
            if noted is not None:
                asked, missing = json.loads(noted)
                join = join._replace(asked=asked, missing=tuple([tuple(one) for one in missing]))
            found.append(join)
            left.discard(change.topic)
    return found


def forget_joins(connection: sqlite3.Connection, removed: int) -> None:
    """Remove what was noted of joins before position `removed`: no reader passes them any more."""
    names = [name for (name,) in connection.execute("SELECT name FROM facts WHERE name LIKE ?", (f"{_NAME}%",))]
    old = [(name,) for name in names if int(name.rpartition(" ")[2]) < removed]
    connection.executemany("DELETE FROM facts WHERE name = ?", old)
