"""Rows on a node's disk that are not published yet, and which batches of whom are.

A file of its own beside the journal: large writes here do not hold up what the node acknowledges there. Rows lie under
the name of their part until their batch is released or dropped, or forgotten about for a day. Of each producer the last
release is kept: its number decides whether a batch is new, its progress where publishing goes on after a crash.

A release and its rows change in one transaction. Used from one thread at a time.
"""

import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from antecede.core import LimitError, UsageError
from antecede.core.errors import JournalError
from antecede.journal.schema import connect
from antecede.wire.bulk import UNNAMED

FILE_NAME: Final = "staged.db"

#: Bytes of rows that may wait. A batch of a million rows of a few hundred bytes is a tenth of it.
STAGED_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
#: Producers remembered: some hundred bytes each.
PRODUCERS_MAX: Final = 100_000
#: After so long, parts that nobody released are dropped, and producers that were given a name by chance forgotten.
FORGET_US: Final = 24 * 3600 * 1_000_000

_VERSION: Final = 1

_TABLES: Final = """
CREATE TABLE parts (part TEXT NOT NULL, number INTEGER NOT NULL, time_us INTEGER NOT NULL, rows INTEGER NOT NULL,
                    block BLOB NOT NULL, PRIMARY KEY (part, number));
-- The last batch of each producer. `parts`: which, in order, with the number of their stages; null when all is out.
-- `mark` tells its messages from all others; `done` of its rows were published at least; none before `position`.
CREATE TABLE releases (producer TEXT PRIMARY KEY, batch INTEGER NOT NULL, parts BLOB, mark INTEGER NOT NULL,
                       done INTEGER NOT NULL, position INTEGER NOT NULL, time_us INTEGER NOT NULL) WITHOUT ROWID;
"""

_encode = msgspec.msgpack.Encoder().encode
_decode_parts = msgspec.msgpack.Decoder(tuple[tuple[str, int], ...]).decode


class Batch(msgspec.Struct, frozen=True):
    """A release. Without `parts` it is all published."""

    producer: str
    batch: int
    parts: tuple[tuple[str, int], ...] | None
    mark: int
    done: int
    position: int


class Staging:
    """Open until `close`. Raises `JournalError` when the file is not one of ours."""

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        """`sync`: what is confirmed survives the loss of power too."""
        self.path = path
        self._connection = connect(path)
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            self._connection.close()
            problem = f"has version {version}, this antecede reads {_VERSION}"
            raise JournalError(str(path), problem, "use the antecede that wrote it, or a newer one")
        if version == 0:
            self._connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only takes before the first table
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        if version == 0:
            self._connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version={_VERSION}; COMMIT;")
        (self._bytes,) = self._connection.execute("SELECT coalesce(sum(length(block)), 0) FROM parts").fetchone()

    def close(self) -> None:
        self._connection.close()

    def stage(self, part: str, index: int, rows: int, block: bytes, now_us: int) -> None:
        """Keep a block of rows. The same again changes nothing."""
        if self._bytes + len(block) > STAGED_BYTES_MAX:
            self.forget(now_us)
        if self._bytes + len(block) > STAGED_BYTES_MAX:
            remedy = "write smaller batches, or fewer at a time"
            raise LimitError("staged rows in bytes", self._bytes + len(block), STAGED_BYTES_MAX, remedy)
        done = self._connection.execute(
            "INSERT OR IGNORE INTO parts VALUES (?, ?, ?, ?, ?)", (part, index, now_us, rows, block)
        )
        if done.rowcount:
            self._bytes += len(block)

    def discard(self, parts: Sequence[str]) -> None:
        """Drop parts, unless they are being released."""
        releasing = {name for batch in self.unfinished() for name, _ in batch.parts or ()}
        with _transaction(self._connection):
            self._drop([part for part in parts if part not in releasing])

    def find(self, producer: str) -> Batch | None:
        """A producer's last release."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM releases WHERE producer = ?", (producer,))
        return next(map(_batch, rows), None)

    def unfinished(self) -> list[Batch]:
        return [
            _batch(row) for row in self._connection.execute(f"SELECT {_COLUMNS} FROM releases WHERE parts IS NOT NULL")
        ]

    def begin(
        self, producer: str, number: int, parts: tuple[tuple[str, int], ...], position: int, now_us: int
    ) -> Batch:
        """From here on the batch is published, whatever happens. `position`: nothing of it lies before."""
        before = self.find(producer)
        assert before is None or (before.parts is None and before.batch < number), "asked for in the wrong order"
        for part, stages in parts:
            (count,) = self._connection.execute("SELECT count(*) FROM parts WHERE part = ?", (part,)).fetchone()
            if count != stages:
                problem = f"has {count} of its {stages} blocks here: it was dropped, or written to another node"
                raise UsageError("part", part, problem, "write the batch again")
        (known,) = self._connection.execute("SELECT count(*) FROM releases").fetchone()
        if before is None and known >= PRODUCERS_MAX:
            raise LimitError("remembered producers", known + 1, PRODUCERS_MAX, "use one name for what goes on")
        mark = secrets.randbits(62)
        self._connection.execute(
            f"INSERT OR REPLACE INTO releases ({_COLUMNS}, time_us) VALUES (?, ?, ?, ?, 0, ?, ?)",
            (producer, number, _encode(parts), mark, position, now_us),
        )
        return Batch(producer, number, parts, mark, 0, position)

    def stages(self, batch: Batch) -> list[tuple[int, int, str, int]]:
        """Of a release, in order: the number of each block's first row, how many it has, its part and index."""
        found: list[tuple[int, int, str, int]] = []
        number = 0
        for part, _ in batch.parts or ():
            for index, rows in self._connection.execute(
                "SELECT number, rows FROM parts WHERE part = ? ORDER BY number", (part,)
            ):
                found.append((number, rows, part, index))
                number += rows
        return found

    def block(self, part: str, index: int) -> bytes:
        rows = self._connection.execute("SELECT block FROM parts WHERE part = ? AND number = ?", (part, index))
        block: bytes = rows.fetchone()[0]
        return block

    def note(self, producer: str, done: int) -> None:
        self._connection.execute("UPDATE releases SET done = ? WHERE producer = ?", (done, producer))

    def finish(self, batch: Batch, done: int) -> None:
        """All of it is in the journal."""
        with _transaction(self._connection):
            self._connection.execute(
                "UPDATE releases SET parts = NULL, done = ? WHERE producer = ?", (done, batch.producer)
            )
            self._drop([part for part, _ in batch.parts or ()])
        self._connection.execute("PRAGMA incremental_vacuum(4000)").fetchall()

    def forget(self, now_us: int) -> None:
        """Drop what nobody came back for."""
        old = now_us - FORGET_US
        releasing = {name for batch in self.unfinished() for name, _ in batch.parts or ()}
        with _transaction(self._connection):
            stale = self._connection.execute("SELECT part FROM parts GROUP BY part HAVING max(time_us) < ?", (old,))
            self._drop([part for (part,) in stale.fetchall() if part not in releasing])
            self._connection.execute(
                "DELETE FROM releases WHERE parts IS NULL AND time_us < ? AND substr(producer, 1, ?) = ?",
                (old, len(UNNAMED), UNNAMED),
            )

    def _drop(self, parts: Sequence[str]) -> None:
        for part in parts:
            (size,) = self._connection.execute(
                "SELECT coalesce(sum(length(block)), 0) FROM parts WHERE part = ?", (part,)
            ).fetchone()
            self._connection.execute("DELETE FROM parts WHERE part = ?", (part,))
            self._bytes -= size


_COLUMNS: Final = "producer, batch, parts, mark, done, position"


def _batch(row: tuple[str, int, bytes | None, int, int, int]) -> Batch:
    producer, number, parts, mark, done, position = row
    return Batch(producer, number, None if parts is None else _decode_parts(parts), mark, done, position)


class _transaction:
    """`with` one: all of it or nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
