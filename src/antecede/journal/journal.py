"""A node's memory on disk: what it delivered, in order; what its protocol keeps; how far its readers are; who it is.

One SQLite file in WAL mode, one process (`lock`), one thread that writes (`writer`), another that reads. A batch is
committed as a whole before any of it is sent or delivered. So a node killed at any instant finds what it had
acknowledged, and nothing it had not decided. `durability` says against what: "process" (kill -9, an operating system
that lives on) or "power"; a batch may ask for the latter by itself.

A reader's cursor is a position: the number of the last delivery it has seen. Replay from a journal and what a driver
delivers live count the same positions, so a reader that has read up to `Driver.position` goes on live without a seam.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from antecede.core import Message, UsageError
from antecede.core.errors import GapError, JournalError
from antecede.journal.batch import Batch
from antecede.journal.blocks import (
    DamagedError,
    Delivered,
    KeptCodec,
    StoredChange,
    UnknownRecordError,
    decode_deliveries,
    encode_changes,
    encode_deliveries,
    store_changes,
)
from antecede.journal.lock import FileLock
from antecede.journal.retention import Retained, Retention, retain
from antecede.journal.schema import Check, connect, open_for_writing
from antecede.journal.writer import Writer

T = TypeVar("T")

#: Deliveries of a batch that may be written on the event loop: a few milliseconds at the most.
_SMALL_BATCH: Final = 1024

_LATEST = (
    "SELECT max(coalesce((SELECT time_us FROM changes ORDER BY number DESC LIMIT 1), 0),"
    " coalesce((SELECT time_us FROM deliveries ORDER BY first DESC LIMIT 1), 0))"
)


class Identity(NamedTuple):
    """Whose journal it is. `node` is −1 until the node has a number."""

    cluster: str
    node: int
    #: How often this journal was opened: tells a node's lives apart.
    incarnation: int


class Page(NamedTuple):
    """Part of a replay. Read on after `position`, which may lie beyond the last item when some did not match."""

    items: list[Delivered]
    position: int


class Journal:
    """Open with `Journal.open` on the event loop that will use it; `close` when done."""

    def __init__(
        self,
        path: Path,
        lock: FileLock,
        connection: sqlite3.Connection,
        kept: KeptCodec,
        identity: Identity,
        *,
        sync: bool,
    ) -> None:
        self.path = path
        self.identity = identity
        #: The last position removed by retention: what lies at or below cannot be read any more.
        self.removed = int(_fact(connection, "removed"))
        self.position: int = max(self.removed, _one(connection, "SELECT coalesce(max(last), 0) FROM deliveries"))
        self.time_us: int = _one(connection, _LATEST)
        #: Bytes of stored deliveries.
        self.stored_bytes: int = _one(connection, "SELECT coalesce(sum(length(block)), 0) FROM deliveries")
        self._lock = lock
        self._kept = kept
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(str(path), connection, self._loop, sync=sync)
        self._reader = connect(path, read_only=True)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix=f"read {path.name}")
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        cluster: str,
        kept: Sequence[type] = (),
        durability: Literal["process", "power"] = "process",
        check: Check = "quick",
    ) -> "Journal":
        """Open or create the journal at `path`, as a new life of its node. Raises `JournalError`.

        `kept` names the types of the records the protocol keeps. The file is read once, off the loop, to check it.
        """
        codec = KeptCodec(kept)
        lock = FileLock(path)
        try:
            connection, identity = await asyncio.to_thread(_open, path, cluster, check)
            return cls(path, lock, connection, codec, identity, sync=durability == "power")
        except BaseException:
            lock.release()
            raise

    # -- what a driver asks (live.batch.Log) -------------------------------------------------------------------------

    def append(self, batch: Batch, done: Callable[[Exception | None], None], *, sync: bool = False) -> None:
        self.position = batch.first + len(batch.deliveries) - 1
        self.time_us = batch.time_us

        def finished(size: int | None, error: Exception | None) -> None:
            self.stored_bytes += size or 0
            done(error)

        small = len(batch.deliveries) <= _SMALL_BATCH
        self._writer.put(lambda connection: self._write(connection, batch), finished, sync=sync, here=small)

    async def kept(self) -> list[object]:
        return await self._read(self._all_kept)

    async def shorten_kept(self, shorten: Callable[[list[object]], list[object]]) -> tuple[int, int]:
        """Put what `shorten` makes of the kept records in their place; how many there were and are.

        Runs in the writer's thread, between two batches: nothing is kept meanwhile, and nothing gets lost.
        """

        def write(connection: sqlite3.Connection) -> tuple[int, int]:
            try:
                records = self._all_kept(connection)
            except DamagedError as error:
                raise self._unreadable(error) from None
            shorter = shorten(records)
            if len(shorter) < len(records):
                connection.execute("DELETE FROM kept")
                connection.execute("INSERT INTO kept (block) VALUES (?)", (self._kept.encode(shorter),))
            return len(records), len(shorter)

        counts: tuple[int, int] = await self._do(write)
        return counts

    # -- reading -----------------------------------------------------------------------------------------------------

    async def read(self, after: int, *, limit: int = 1000, matches: Callable[[Message], bool] | None = None) -> Page:
        """Up to about `limit` deliveries after position `after`, in order; those that match, if that is asked.

        Raises `GapError` when retention has removed what comes next. `matches` is called in another thread.
        """
        if after < self.removed:
            raise GapError(after, self.removed + 1)
        return await self._read(lambda connection: self._page(connection, after, limit, matches))

    async def messages(self, topic: str, source: int, first: int, last: int, *, limit: int = 1000) -> list[Message]:
        """What was delivered here of a source's messages `first` to `last`, by number, at most `limit`.

        What pull repair answers with. May have holes: what never came, was before this node's time, or was removed.
        """

        def find(connection: sqlite3.Connection) -> list[Message]:
            found: dict[int, Message] = {}
            for (at,) in connection.execute(
                "SELECT at FROM ranges WHERE topic = :topic AND source = :source AND first_seq <= :last "
                "AND last_seq >= :first AND first_seq >= coalesce((SELECT max(first_seq) FROM ranges "
                "WHERE topic = :topic AND source = :source AND first_seq <= :first), 0) ORDER BY first_seq",
                {"topic": topic, "source": source, "first": first, "last": last},
            ):
                (block,) = connection.execute("SELECT block FROM deliveries WHERE first = ?", (at,)).fetchone()
                for message in decode_deliveries(block).messages:
                    if message.source == source and message.topic == topic and first <= message.seq <= last:
                        found[message.seq] = message
                if len(found) >= limit:
                    break
            return [found[seq] for seq in sorted(found)[:limit]]

        return await self._read(find)

    # -- cursors, identity, retention --------------------------------------------------------------------------------

    async def cursors(self) -> dict[str, int]:
        return await self._read(
            lambda connection: dict(connection.execute("SELECT name, position FROM cursors").fetchall())
        )

    async def set_cursor(self, name: str, position: int) -> None:
        """The reader `name` has read up to `position`; retention keeps what comes after."""
        if not 0 <= position <= self.position:
            raise UsageError("cursor", position, "is not a position of this journal", f"use 0 … {self.position}")
        await self._do(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (name, position, _now_us())
            )
        )

    async def drop_cursor(self, name: str) -> None:
        await self._do(lambda connection: connection.execute("DELETE FROM cursors WHERE name = ?", (name,)))

    async def set_node(self, node: int) -> None:
        """The node has its number now, and keeps it across restarts."""
        await self._do(
            lambda connection: connection.execute("INSERT OR REPLACE INTO facts VALUES ('node', ?)", (node,))
        )
        self.identity = self.identity._replace(node=node)

    async def retain(self, wanted: Retention, *, needed_from: int | None = None) -> Retained:
        """Remove what age or size ask for, as far as cursors and the node (`needed_from`, a position) let it go."""
        done: Retained = await self._do(
            lambda connection: retain(connection, wanted, _now_us(), needed_from, self.stored_bytes)
        )
        self.removed = done.removed
        self.stored_bytes -= done.bytes
        return done

    async def close(self) -> None:
        """Finish what is under way, say in the journal that the node stopped, and give the file up."""
        if not self._closed:
            await self._do(lambda connection: _end_life(connection, self.position, max(self.time_us, _now_us())))
            await self._loop.run_in_executor(None, self.abort)

    def abort(self) -> None:
        """Give the file up without a word in it, as a crash would. What was appended is still written. Blocks."""
        if not self._closed:
            self._closed = True
            self._reading.shutdown(wait=True)
            self._reader.close()
            self._writer.close()  # last, so that SQLite puts the log into the file and removes it
            self._lock.release()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _write(self, connection: sqlite3.Connection, batch: Batch) -> int:
        """In the writer's thread, in a transaction: the rows of a batch. How many bytes of deliveries that is."""
        size = 0
        if batch.kept:
            connection.execute("INSERT INTO kept (block) VALUES (?)", (self._kept.encode(batch.kept),))
        if batch.deliveries:
            block = encode_deliveries(batch.deliveries, batch.held_us, batch.out_of_order)
            size = len(block)
            last = batch.first + len(batch.deliveries) - 1
            connection.execute("INSERT INTO deliveries VALUES (?, ?, ?, ?)", (batch.first, last, batch.time_us, block))
            connection.executemany(
                "INSERT OR REPLACE INTO ranges VALUES (?, ?, ?, ?, ?)",
                [(*run, batch.first) for run in _runs(batch.deliveries)],
            )
        if batch.changes or batch.runs:
            _insert_changes(connection, batch.first - 1, batch.time_us, store_changes(batch))
        return size

    def _page(
        self, connection: sqlite3.Connection, after: int, limit: int, matches: Callable[[Message], bool] | None
    ) -> Page:
        items: list[Delivered] = []
        reached = after
        for first, last, time_us, block in connection.execute(
            "SELECT first, last, time_us, block FROM deliveries WHERE first >= coalesce("
            "(SELECT max(first) FROM deliveries WHERE first <= ?), 0) ORDER BY first",
            (after + 1,),
        ):
            if last <= after:
                continue
            for item in decode_deliveries(block).read(first, time_us):
                if item.position > after and (matches is None or matches(item.message)):
                    items.append(item)
            reached = last
            if len(items) >= limit or last - after >= limit * 100:  # scanning must not keep the thread for ever
                break
        return Page(items, reached)

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await self._loop.run_in_executor(self._reading, read, self._reader)
        except (DamagedError, sqlite3.DatabaseError) as error:
            raise self._unreadable(error) from None

    def _all_kept(self, connection: sqlite3.Connection) -> list[object]:
        rows = connection.execute("SELECT block FROM kept ORDER BY number").fetchall()
        return [record for (block,) in rows for record in self._kept.decode(block)]

    def _unreadable(self, error: Exception) -> JournalError:
        remedy = "stop the node and restore a copy"
        if isinstance(error, UnknownRecordError):
            remedy = "run the protocol that wrote it, or a newer antecede"
        return JournalError(str(self.path), f"cannot be read ({error})", remedy)

    async def _do(self, do: Callable[[sqlite3.Connection], Any]) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(answer: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

        self._writer.put(do, done)
        return await future


def _open(path: Path, cluster: str, check: Check) -> tuple[sqlite3.Connection, Identity]:
    connection = open_for_writing(path, check)
    try:
        return connection, _begin_life(connection, path, cluster)
    except sqlite3.Error as error:
        connection.close()
        raise JournalError(str(path), f"cannot be used ({error})", "see that the disk has room") from None
    except BaseException:
        connection.close()
        raise


def _begin_life(connection: sqlite3.Connection, path: Path, cluster: str) -> Identity:
    """Count this life, and note what became of the last one."""
    connection.execute("BEGIN IMMEDIATE")
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    owner = facts.get("cluster", cluster)
    if owner != cluster:
        connection.execute("ROLLBACK")
        raise JournalError(
            str(path), f"belongs to cluster {owner!r}, not {cluster!r}", "give this node its own journal"
        )
    incarnation = int(facts["incarnation"]) + 1
    if incarnation > 1:
        (position,) = connection.execute("SELECT coalesce(max(last), 0) FROM deliveries").fetchone()
        position = max(position, int(facts["removed"]))
        latest = _one(connection, _LATEST)
        if not facts["clean"]:
            _insert_changes(connection, position, latest, [StoredChange(0, "crash", "")])
        _insert_changes(connection, position, max(latest, _now_us()), [StoredChange(0, "recover", "")])
    connection.executemany(
        "INSERT OR REPLACE INTO facts VALUES (?, ?)",
        [("cluster", cluster), ("incarnation", incarnation), ("clean", 0)],
    )
    connection.execute("COMMIT")
    return Identity(cluster, int(facts.get("node", -1)), incarnation)


def _end_life(connection: sqlite3.Connection, position: int, time_us: int) -> None:
    _insert_changes(connection, position, time_us, [StoredChange(0, "stop", "")])
    connection.execute("UPDATE facts SET value = 1 WHERE name = 'clean'")


def _insert_changes(connection: sqlite3.Connection, position: int, time_us: int, changes: list[StoredChange]) -> None:
    membership = any(change.what != "publish" for change in changes)
    connection.execute(
        "INSERT INTO changes (position, time_us, membership, block) VALUES (?, ?, ?, ?)",
        (position, time_us, membership, encode_changes(changes)),
    )


def _runs(messages: Sequence[Message]) -> Iterator[tuple[str, int, int, int]]:
    """(topic, source, first, last) of what follows each other in number. Order makes these long."""
    open_runs: dict[tuple[str, int], tuple[int, int]] = {}
    for message in messages:
        key = (message.topic, message.source)
        run = open_runs.get(key)
        if run is not None and message.seq == run[1] + 1:
            open_runs[key] = (run[0], message.seq)
        else:
            if run is not None:
                yield (*key, *run)
            open_runs[key] = (message.seq, message.seq)
    for key, run in open_runs.items():
        yield (*key, *run)


def _fact(connection: sqlite3.Connection, name: str) -> Any:
    return _one(connection, "SELECT value FROM facts WHERE name = ?", name)


def _one(connection: sqlite3.Connection, query: str, *values: object) -> Any:
    return connection.execute(query, values).fetchone()[0]


def _now_us() -> int:
    return time.time_ns() // 1000
