"""The disk below a node's directory, as a power failure leaves it.

`Disk` watches what one process writes there. Of each SQLite file it keeps every state since the last commit that was
synced (`PRAGMA synchronous=FULL`); a failure leaves any of them. Of the log it knows how much was synced; a failure
takes any part of the rest (`tests.journal.torn`). Each file fails by itself: a system writes files back in any order.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from antecede.journal.segments import segment_bases, segment_path
from antecede.node.directory import JOURNAL
from tests.journal.torn import tear

#: The value of `PRAGMA synchronous` with which SQLite syncs each commit.
_FULL = 2
_WRITES = ("COMMIT", "INSERT", "UPDATE", "DELETE")


class Disk:
    """What is on the disk of one directory for certain, and what may be."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._lock = threading.Lock()
        journal = home / JOURNAL
        bases = segment_bases(journal) if home.exists() else []
        #: By segment: how much of it is on the disk.
        self._synced = {base: segment_path(journal, base).stat().st_size for base in bases}
        #: By SQLite file: its states, the first of which was synced.
        self._states: dict[str, list[dict[str, bytes]]] = {}
        for path in home.glob("*.db"):
            self._states[path.name] = [self._now(path)]

    def _now(self, path: Path) -> dict[str, bytes]:
        # SQLite's log before the file: pages that go from one to the other meanwhile are then in both.
        names = [f"{path.name}-wal", path.name]
        return {name: (self.home / name).read_bytes() for name in names if (self.home / name).exists()}

    def committed(self, path: Path, *, synced: bool) -> None:
        if path.parent == self.home:
            with self._lock:
                states = self._states.setdefault(path.name, [{}])
                if synced:
                    states.clear()
                states.append(self._now(path))

    def synced(self, path: Path, size: int) -> None:
        if path.parent == self.home and path.name.startswith(f"{JOURNAL}."):
            with self._lock:
                self._synced[int(path.name[-16:], 16)] = size

    def fail(self, into: Path, rng: Random) -> None:
        """Write what a power failure leaves to a new directory."""
        into.mkdir(mode=0o700)
        with self._lock:
            for name in sorted(self._states):
                states = self._states[name]
                # Mostly the newest: files of SQLite reach the disk a second after a commit, the log when it is full.
                state = states[-1] if rng.random() < 0.6 else rng.choice(states)
                for part, data in state.items():
                    (into / part).write_bytes(data)
            tear(self.home / JOURNAL, into / JOURNAL, self._synced, rng)
            for path in self.home.iterdir():
                if not path.name.startswith(f"{JOURNAL}.") and ".db" not in path.name:
                    (into / path.name).write_bytes(path.read_bytes())


class Watch:
    """Tells the present `disk` of commits and syncs in this process."""

    def __init__(self) -> None:
        self.disk: Disk | None = None


@contextmanager
def watching(patch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Watch SQLite's connections and the syncs of files."""
    watch = Watch()
    connect, fdatasync = sqlite3.connect, os.fdatasync

    class Watched(sqlite3.Connection):
        file: Path | None = None

        def _look(self, sql: str) -> None:
            if self.file is not None and watch.disk is not None and not self.in_transaction and sql.startswith(_WRITES):
                (level,) = super().execute("PRAGMA synchronous").fetchone()
                watch.disk.committed(self.file, synced=level == _FULL)

        def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
            found = super().execute(sql, *more)
            self._look(sql)
            return found

        def executemany(self, sql: str, *more: Any) -> sqlite3.Cursor:
            found = super().executemany(sql, *more)
            self._look(sql)
            return found

        def executescript(self, sql: str) -> sqlite3.Cursor:
            found = super().executescript(sql)
            self._look("COMMIT")
            return found

    def watched(path: str, **more: Any) -> sqlite3.Connection:
        connection = connect(path, factory=Watched, **more)
        assert isinstance(connection, Watched)
        if path.startswith("file:") and path.endswith("?mode=rw"):
            connection.file = Path(path.removeprefix("file:").removesuffix("?mode=rw"))
        return connection

    def sync(file: int) -> None:
        size = os.fstat(file).st_size  # what is appended meanwhile may not be synced
        fdatasync(file)
        if watch.disk is not None:
            watch.disk.synced(Path(os.readlink(f"/proc/self/fd/{file}")), size)

    patch.setattr(sqlite3, "connect", watched)
    patch.setattr(os, "fdatasync", sync)
    yield watch
    patch.undo()
