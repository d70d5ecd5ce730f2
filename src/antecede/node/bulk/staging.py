"""Rows on a node's disk that are not published yet, and which batches of each producer are.

A file of its own beside the journal: large writes here do not hold up what the node acknowledges there. Rows lie under
the name of their part until their batch is released or dropped, or forgotten about for a day. Of each producer the last
release is kept: its number decides whether a batch is new, its progress where publishing goes on after a crash.

Everything belongs to an *owner*: the client's name in the token file, or "" where no tokens are asked for. Rows and
releases of the owner "" (also those from before owners were kept) can be taken over by any client.

Beside them lie this node's votes on the batches of producers that publish at several nodes (`claims`).

A release and its rows change in one transaction. Used from one thread at a time.

A method that changes a release, or votes, syncs the file before it returns (`_promise`). Rows that were staged before
are synced with it. A power failure may take rows that were staged since; the node then refuses to release their batch.
"""

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from antecede.core import LimitError, UsageError
from antecede.core.errors import JournalError
from antecede.journal.schema import connect
from antecede.node.bulk.claims import Claimed, settle, vote
from antecede.wire.bulk import UNNAMED, Claim, Settle, Vote, topics_of_rows

FILE_NAME: Final = "staged.db"

#: Bytes of rows that may wait. A batch of a million rows of a few hundred bytes is a tenth of it.
STAGED_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
#: Producers remembered: some hundred bytes each.
PRODUCERS_MAX: Final = 100_000
#: After so long, by the time that the node has run, parts that were not released are dropped, and producers with random
#: names are forgotten.
FORGET_US: Final = 24 * 3600 * 1_000_000

_VERSION: Final = 3

_TABLES: Final = """
-- `ran_us` is how long the node had run: a wrong clock ages nothing.
CREATE TABLE parts (owner TEXT NOT NULL, part TEXT NOT NULL, number INTEGER NOT NULL, ran_us INTEGER NOT NULL,
                    rows INTEGER NOT NULL, block BLOB NOT NULL, PRIMARY KEY (owner, part, number));
-- The last batch of each producer. `parts`: which, in order, with the number of their stages; null when it is over.
-- `mark` tells its messages from all others. Its first `done` rows were published, the others not before `position`.
-- `cancelled`: the rows behind `done` will never be published.
CREATE TABLE releases (owner TEXT NOT NULL, producer TEXT NOT NULL, batch INTEGER NOT NULL, parts BLOB,
                       mark INTEGER NOT NULL, done INTEGER NOT NULL, position INTEGER NOT NULL,
                       ran_us INTEGER NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0,
                       PRIMARY KEY (owner, producer)) WITHOUT ROWID;
"""

#: `kept` is a `Claimed`.
_CLAIMS: Final = """
CREATE TABLE claims (owner TEXT NOT NULL, producer TEXT NOT NULL, kept BLOB NOT NULL,
                     PRIMARY KEY (owner, producer)) WITHOUT ROWID;
"""

#: From version 1, in which parts and producers had no owner.
_FROM_1: Final = f"""
ALTER TABLE parts RENAME TO parts_1;
ALTER TABLE releases RENAME TO releases_1;
{_TABLES}
INSERT INTO parts SELECT '', part, number, 0, rows, block FROM parts_1;
INSERT INTO releases SELECT '', producer, batch, parts, mark, done, position, 0, 0 FROM releases_1;
DROP TABLE parts_1;
DROP TABLE releases_1;
{_CLAIMS}
"""
#: What creates a file, by its version; 0: it is new.
_CHANGES: Final = {0: _TABLES + _CLAIMS, 1: _FROM_1, 2: _CLAIMS}

_encode = msgspec.msgpack.Encoder().encode
_decode_parts = msgspec.msgpack.Decoder(tuple[tuple[str, int], ...]).decode
_decode_claimed = msgspec.msgpack.Decoder(Claimed).decode


class Producer(NamedTuple):
    """A producer of batches: the client that owns it, and its name."""

    owner: str
    name: str


class Batch(msgspec.Struct, frozen=True):
    """A release. Without `parts` it is over: all of it was published, or it was `cancelled`."""

    owner: str
    name: str
    batch: int
    parts: tuple[tuple[str, int], ...] | None
    mark: int
    done: int
    position: int
    cancelled: bool = False

    @property
    def producer(self) -> Producer:
        return Producer(self.owner, self.name)

    @property
    def again(self) -> bool:
        """May its number be released again?"""
        return self.cancelled and not self.done


class Staging:
    """Open until `close`. Raises `JournalError` when the file is not one of ours."""

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        """`sync`: confirmed rows survive a power failure, too."""
        self.path = path
        self._connection = connect(path)
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if not 0 <= version <= _VERSION:
            self._connection.close()
            problem = f"has version {version}, this antecede reads {_VERSION}"
            raise JournalError(str(path), problem, "use the antecede that wrote it, or a newer one")
        if version == 0:
            self._connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only takes before the first table
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._level = "FULL" if sync else "NORMAL"
        self._connection.execute(f"PRAGMA synchronous={self._level}")
        if version < _VERSION:
            self._connection.executescript(f"BEGIN; {_CHANGES[version]} PRAGMA user_version={_VERSION}; COMMIT;")
        (self._bytes,) = self._connection.execute("SELECT coalesce(sum(length(block)), 0) FROM parts").fetchone()

    def close(self) -> None:
        self._connection.close()

    def stage(self, owner: str, part: str, index: int, rows: int, block: bytes, ran_us: int) -> None:
        """Keep a block of rows. The same again changes nothing."""
        if self._bytes + len(block) > STAGED_BYTES_MAX:
            self.forget(ran_us)
        if self._bytes + len(block) > STAGED_BYTES_MAX:
            remedy = "write smaller batches, or fewer at a time"
            raise LimitError("staged rows in bytes", self._bytes + len(block), STAGED_BYTES_MAX, remedy)
        done = self._connection.execute(
            "INSERT OR IGNORE INTO parts VALUES (?, ?, ?, ?, ?, ?)", (owner, part, index, ran_us, rows, block)
        )
        if done.rowcount:
            self._bytes += len(block)

    def discard(self, owner: str, parts: Sequence[str]) -> None:
        """Drop parts of `owner`, unless they are being released."""
        releasing = self._releasing()
        with _transaction(self._connection):
            self._drop([(owner, part) for part in parts if (owner, part) not in releasing])

    def find(self, producer: Producer) -> Batch | None:
        """A producer's last release: its own, else that of the same name that belongs to no client."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM releases WHERE owner IN (?, '') AND producer = ? ORDER BY owner DESC", producer
        )
        return next(map(_batch, rows), None)

    def unfinished(self) -> list[Batch]:
        return [
            _batch(row) for row in self._connection.execute(f"SELECT {_COLUMNS} FROM releases WHERE parts IS NOT NULL")
        ]

    def topics(self, owner: str, parts: Sequence[tuple[str, int]]) -> set[str]:
        """The topics of all rows of these parts."""
        found: set[str] = set()
        for part, _ in parts:
            for (block,) in self._connection.execute(
                "SELECT block FROM parts WHERE owner = ? AND part = ?", (owner, part)
            ):
                found |= topics_of_rows(block)
        return found

    def begin(
        self, producer: Producer, number: int, parts: tuple[tuple[str, int], ...], position: int, ran_us: int
    ) -> Batch:
        """From now on the batch will be published, across crashes. `position`: none of its messages lies before."""
        before = self.find(producer)
        assert before is None or before.parts is None, "asked for while another is under way"
        assert before is None or before.batch < number or before.again, "asked for in the wrong order"
        for part, stages in parts:
            (count,) = self._connection.execute(
                "SELECT count(*) FROM parts WHERE owner = ? AND part = ?", (producer.owner, part)
            ).fetchone()
            if count != stages:
                problem = f"has {count} of its {stages} blocks here: it was dropped, or written to another node"
                raise UsageError("part", part, problem, "write the batch again")
        (known,) = self._connection.execute("SELECT count(*) FROM releases").fetchone()
        if before is None and known >= PRODUCERS_MAX:
            raise LimitError("remembered producers", known + 1, PRODUCERS_MAX, "use one name for what goes on")
        mark = secrets.randbits(62)
        self._promise(
            f"INSERT OR REPLACE INTO releases ({_COLUMNS}, ran_us) VALUES (?, ?, ?, ?, ?, 0, ?, 0, ?)",
            (*producer, number, _encode(parts), mark, position, ran_us),
        )
        return Batch(*producer, number, parts, mark, 0, position)

    def note(self, batch: Batch, done: int, position: int) -> Batch:
        """Its first `done` rows are published for good, and no other at or before `position`."""
        self._promise(
            "UPDATE releases SET done = ?, position = ? WHERE owner = ? AND producer = ?",
            (done, position, *batch.producer),
        )
        return msgspec.structs.replace(batch, done=done, position=position)

    def stages(self, batch: Batch) -> list[tuple[int, int, str, int]]:
        """Of a release, in order: the number of each block's first row, how many it has, its part and index."""
        found: list[tuple[int, int, str, int]] = []
        number = 0
        for part, _ in batch.parts or ():
            for index, rows in self._connection.execute(
                "SELECT number, rows FROM parts WHERE owner = ? AND part = ? ORDER BY number", (batch.owner, part)
            ):
                found.append((number, rows, part, index))
                number += rows
        return found

    def block(self, owner: str, part: str, index: int) -> bytes:
        rows = self._connection.execute(
            "SELECT block FROM parts WHERE owner = ? AND part = ? AND number = ?", (owner, part, index)
        )
        found: tuple[bytes] | None = rows.fetchone()
        if found is None:
            raise UsageError("part", part, f"has no block {index} here", "write the batch again")
        return found[0]

    def claimed(self, producer: Producer) -> Claimed | None:
        """This node's votes on the batches of a producer."""
        rows = self._connection.execute("SELECT kept FROM claims WHERE owner = ? AND producer = ?", producer)
        return next((_decode_claimed(kept) for (kept,) in rows), None)

    def vote(self, producer: Producer, told: Claim | Settle, voter: int) -> Vote:
        """Vote on the node that publishes a batch, or remember that it was published."""
        before = self.claimed(producer)
        kept = before or Claimed()
        kept = vote(kept, told) if isinstance(told, Claim) else settle(kept, told)
        if kept != before:
            (known,) = self._connection.execute("SELECT count(*) FROM claims").fetchone()
            if before is None and known >= PRODUCERS_MAX:
                raise LimitError("remembered producers", known + 1, PRODUCERS_MAX, "use one name for what goes on")
            self._promise("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (*producer, _encode(kept)))
        last = self.find(producer)
        begun = -1 if last is None else last.batch - 1 if last.again else last.batch
        return Vote(voter=voter, begun=begun, **msgspec.structs.asdict(kept))

    def finish(self, batch: Batch, done: int, *, cancelled: bool = False) -> None:
        """Its first `done` rows are published for good: all of them, unless it was cancelled."""
        with self._synced(), _transaction(self._connection):
            self._connection.execute(
                "UPDATE releases SET parts = NULL, done = ?, cancelled = ? WHERE owner = ? AND producer = ?",
                (done, cancelled, *batch.producer),
            )
            self._drop([(batch.owner, part) for part, _ in batch.parts or ()])
        self._connection.execute("PRAGMA incremental_vacuum(4000)").fetchall()

    def forget(self, ran_us: int) -> None:
        """Drop parts that were never released, and producers with random names, after `FORGET_US`."""
        old = ran_us - FORGET_US
        releasing = self._releasing()
        with _transaction(self._connection):
            stale = self._connection.execute(
                "SELECT owner, part FROM parts GROUP BY owner, part HAVING max(ran_us) < ?", (old,)
            )
            self._drop([found for found in stale.fetchall() if found not in releasing])
            self._connection.execute(
                "DELETE FROM releases WHERE parts IS NULL AND ran_us < ? AND substr(producer, 1, ?) = ?",
                (old, len(UNNAMED), UNNAMED),
            )

    def _promise(self, sql: str, values: tuple[object, ...]) -> None:
        """Execute one statement, on the disk itself."""
        with self._synced():
            self._connection.execute(sql, values)

    @contextmanager
    def _synced(self) -> Iterator[None]:
        """Transactions inside are on the disk itself when they end."""
        self._connection.execute("PRAGMA synchronous=FULL")
        try:
            yield
        finally:
            self._connection.execute(f"PRAGMA synchronous={self._level}")

    def _releasing(self) -> set[tuple[str, str]]:
        return {(batch.owner, part) for batch in self.unfinished() for part, _ in batch.parts or ()}

    def _drop(self, parts: Sequence[tuple[str, str]]) -> None:
        for found in parts:
            (size,) = self._connection.execute(
                "SELECT coalesce(sum(length(block)), 0) FROM parts WHERE owner = ? AND part = ?", found
            ).fetchone()
            self._connection.execute("DELETE FROM parts WHERE owner = ? AND part = ?", found)
            self._bytes -= size


_COLUMNS: Final = "owner, producer, batch, parts, mark, done, position, cancelled"


def _batch(row: tuple[str, str, int, bytes | None, int, int, int, int]) -> Batch:
    owner, name, number, parts, mark, done, position, cancelled = row
    decoded = None if parts is None else _decode_parts(parts)
    return Batch(owner, name, number, decoded, mark, done, position, bool(cancelled))


class _transaction:
    """`with` one: all of it or nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
