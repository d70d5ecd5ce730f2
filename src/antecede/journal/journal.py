"""A node's log on disk: its deliveries in order, the records its protocol keeps, its readers' cursors, its identity.

It is one SQLite file in WAL mode, for one process (`lock`), with one thread that writes (`writer`) and one that reads.
A batch is committed as a whole before any of it is sent or delivered. So a node killed at any instant finds everything
it had acknowledged, and nothing it had not decided. `durability` says what a commit survives: "process" survives the
end of the process (kill -9), "power" also a power failure; a batch may ask for the latter by itself.

A cursor is a position: the number of the last delivery its reader has seen. Replay from a journal and live delivery
count the same positions, so a reader that has replayed up to `Driver.position` goes on live without a seam.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from antecede.core import Message, UsageError
from antecede.core.errors import GapError, JournalError, StoppedError
from antecede.journal.batch import Batch
from antecede.journal.blocks import (
    DamagedError,
    KeptCodec,
    UnknownRecordError,
    encode_deliveries,
    store_changes,
)
from antecede.journal.clock import SYSTEM, Clock
from antecede.journal.fetched import has_fetched, store_fetched
from antecede.journal.joins import Join, find_joins, note_join
from antecede.journal.lives import Identity, begin_life, end_life, insert_changes
from antecede.journal.lock import FileLock
from antecede.journal.lookup import StreamName, Stretch, first_after, last_seqs, locate, stretch
from antecede.journal.replay import Page, replay
from antecede.journal.retention import Retained, Retention, retain
from antecede.journal.schema import REPLACE_NODE, Check, connect, open_for_writing
from antecede.journal.topics import Gathering, store_span
from antecede.journal.writer import Writer

T = TypeVar("T")

#: Deliveries of a batch that may be written on the event loop: a few milliseconds at the most.
_SMALL_BATCH: Final = 1024

_ALL_KEPT: Final = "SELECT number, block FROM kept ORDER BY number"


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
        clock: Clock,
    ) -> None:
        self.path = path
        self.identity = identity
        #: The last position removed by retention: what lies at or below cannot be read any more.
        self.removed = int(_fact(connection, "removed"))
        #: The position of the last delivery that is committed.
        self.position: int = _one(connection, "SELECT position FROM tail")
        #: The settings that what is kept here depends on, as they were when the node was new; empty: not stored.
        self.settings: dict[str, str] = json.loads(
            _one(connection, "SELECT coalesce((SELECT value FROM facts WHERE name = 'settings'), '{}')")
        )
        #: Bytes of stored deliveries.
        self.stored_bytes: int = _one(connection, "SELECT coalesce(sum(length(block)), 0) FROM deliveries")
        #: Bytes of kept records. Compaction bounds them.
        self.kept_bytes: int = _one(connection, "SELECT coalesce(sum(length(block)), 0) FROM kept")
        self._lock = lock
        self._kept = kept
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(str(path), connection, self._loop, sync=sync)
        self._reader = connect(path, read_only=True)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix=f"read {path.name}")
        #: Called in the thread that reads, between two blocks: it may have to rest.
        self.rest: Callable[[], None] = _nothing
        self._has_fetched = has_fetched(connection)
        self._topics = Gathering()
        self._closed = False
        self._clock = clock
        # How long the node had run before this life, less the clock's reading at the beginning of this life.
        self._ran_us = int(_fact(connection, "ran_us")) - clock.elapsed_us()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        cluster: str,
        kept: Sequence[type] = (),
        durability: Literal["process", "power"] = "process",
        check: Check = "quick",
        clock: Clock = SYSTEM,
    ) -> "Journal":
        """Open or create the journal at `path`, as a new life of its node. Raises `JournalError`.

        `kept` names the types of the records the protocol keeps. The file is read once, off the loop, to check it.
        """
        codec = KeptCodec(kept)
        lock = FileLock(path)
        try:
            connection, identity = await asyncio.to_thread(_open, path, cluster, check, clock)
            return cls(path, lock, connection, codec, identity, sync=durability == "power", clock=clock)
        except BaseException:
            lock.release()
            raise

    # -- what a driver asks (batch.Log) ------------------------------------------------------------------------------

    def append(self, batch: Batch, done: Callable[[Exception | None], None], *, sync: bool = False) -> None:
        def finished(size: int | None, error: Exception | None) -> None:
            if error is None:
                self.position = batch.first + len(batch.deliveries) - 1
                self.stored_bytes += size or 0
            done(error)

        small = len(batch.deliveries) <= _SMALL_BATCH
        self._writer.put(lambda connection: self._write(connection, batch), finished, sync=sync, here=small)

    def note_topics(self, first: int, topics: Sequence[str | None]) -> None:
        """Index the topics of a batch that is committed; its first delivery has position `first` (`topics`)."""
        span = self._topics.add(first, topics)
        if span is not None and not self._closed:
            # Without its row a span is read, so a failure harms nothing; the commit of the next batch tells of it.
            self._writer.put(lambda connection: store_span(connection, span), lambda answer, error: None)

    async def kept(self) -> list[object]:
        return await self._read(self._all_kept)

    async def compact_kept(self, compact: Callable[[list[object]], list[object]]) -> tuple[int, int]:
        """Replace the kept records by those that `compact` makes of them; how many there were and are.

        `compact` runs in a thread of its own, and batches are committed meanwhile. The records that they keep stay
        behind the new ones. One call may be under way at a time.
        """
        rows = await self._read(lambda connection: connection.execute(_ALL_KEPT).fetchall())

        def make() -> tuple[int, int, bytes | None]:
            records = self._decode_kept(rows)
            fewer = compact(records)
            return len(records), len(fewer), self._kept.encode(fewer) if len(fewer) < len(records) else None

        try:
            before, after, block = await self._loop.run_in_executor(None, make)
        except DamagedError as error:
            raise self._unreadable(error) from None
        if block is None:
            return before, after
        last = rows[-1][0]
        saved = sum([len(row[1]) for row in rows]) - len(block)

        def write(connection: sqlite3.Connection) -> None:
            # The last number stays, so that lost rows are noticed (`schema`).
            connection.execute("DELETE FROM kept WHERE number < ?", (last,))
            connection.execute("UPDATE kept SET block = ? WHERE number = ?", (block, last))
            connection.execute("UPDATE tail SET kept_first = ?", (last,))
            self.kept_bytes -= saved

        await self._do(write)
        return before, after

    # -- reading -----------------------------------------------------------------------------------------------------

    async def read(
        self,
        after: int,
        *,
        limit: int = 1000,
        matches: Callable[[Message], bool] | None = None,
        filters: Collection[str] = (),
    ) -> Page:
        """Up to about `limit` deliveries after position `after`, in order; with `matches` those that match.

        `filters`: only topics that one of these takes match, so the others may be skipped. Raises `GapError` when
        retention has removed what comes next. `matches` is called in another thread.
        """
        if after < self.removed:
            raise GapError(after, self.removed + 1)
        return await self._read(
            lambda connection: replay(
                connection, after, self.position, limit=limit, matches=matches, filters=filters, rest=self.rest
            )
        )

    async def messages(
        self, topic: str, source: int, first: int, last: int, *, bytes_max: int = 1 << 20
    ) -> list[Message]:
        """The messages `first` to `last` of a source that were delivered here, by sequence number.

        The answer has about `bytes_max` bytes of payload, and at least one message. Nodes that were away are served
        from it. There may be holes: messages that never came, that predate this node's join, or that retention removed.
        """

        return (await self.stretch(topic, source, first, last, bytes_max=bytes_max)).messages

    async def stretch(self, topic: str, source: int, first: int, last: int, *, bytes_max: int) -> Stretch:
        """`messages`, and how far the answer reaches. It includes messages that were fetched from other nodes."""
        return await self._read(
            lambda connection: stretch(connection, topic, source, first, last, bytes_max, fetched=self._has_fetched)
        )

    async def store_fetched(self, messages: Sequence[Message]) -> None:
        """Store messages of one source on one topic that this node did not deliver, by sequence number.

        They have no position. A node stores what it fetched of the past of a partition of which it became a home.
        """
        await self._do(lambda connection: store_fetched(connection, messages, self.running_us()))
        self._has_fetched = True

    async def joins(self) -> list[Join]:
        """Where this node began to take topics, oldest first, and what it lacks of them."""
        return await self._read(find_joins)

    async def note_join(self, join: Join) -> None:
        """Write down which messages this node lacks behind a join."""
        await self._do(lambda connection: note_join(connection, join))

    async def first_after(self, after: int, last: int) -> dict[StreamName, int]:
        """By topic and source: the lowest sequence number delivered at positions after `after`, up to about `last`."""
        return await self._read(lambda connection: first_after(connection, after, last))

    async def last_seqs(self, streams: Collection[StreamName]) -> dict[StreamName, int]:
        """By topic and source: the sequence number of the last message that was delivered here and is still stored."""
        return await self._read(lambda connection: last_seqs(connection, streams))

    async def locate(self, wanted: Mapping[StreamName, int]) -> dict[StreamName, tuple[int, int]]:
        """By topic and source: the first message with at least this number: its number, and a position before it."""
        return await self._read(lambda connection: locate(connection, wanted))

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
                "INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (name, position, self._clock.wall_us())
            )
        )

    async def drop_cursor(self, name: str) -> None:
        await self._do(lambda connection: connection.execute("DELETE FROM cursors WHERE name = ?", (name,)))

    async def set_node(self, node: int, key: int = -1) -> None:
        """Store the slot and the key of the node, on the disk itself. It keeps them across restarts."""
        await self._do(
            lambda connection: connection.executemany(
                "INSERT OR REPLACE INTO facts VALUES (?, ?)", [("node", node), ("key", key)]
            ),
            sync=True,
        )
        self.identity = self.identity._replace(node=node, key=key)

    async def set_settings(self, settings: Mapping[str, str]) -> None:
        """Store settings that must not change while this journal is used."""
        text = json.dumps(dict(settings))
        await self._do(
            lambda connection: connection.execute("INSERT OR REPLACE INTO facts VALUES ('settings', ?)", (text,))
        )
        self.settings = dict(settings)

    def give_up(self, why: str) -> None:
        """Refuse to be opened from now on: the node must not go on from this journal. Written after earlier jobs."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO facts VALUES ('given_up', ?)", (why,))

        self._writer.put(write, lambda answer, error: None, sync=True)

    async def retain(self, wanted: Retention, *, needed_from: int | None = None) -> Retained:
        """Remove deliveries by age and size, as far as cursors and the node (`needed_from`, a position) allow."""
        done: Retained = await self._do(
            lambda connection: retain(connection, wanted, self.running_us(), needed_from, self.stored_bytes)
        )
        self.removed = done.removed
        self.stored_bytes -= done.bytes
        return done

    async def close(self) -> None:
        """Finish the writes under way, note a clean stop, and release the file.

        Where the stop cannot be written (the disk is full), the next life finds a crash.
        """
        if not self._closed:
            with suppress(JournalError):
                await self._do(self._end_life)
            await self._loop.run_in_executor(None, self.abort)

    def abort(self) -> None:
        """Release the file as a crash would, without noting a stop. Batches appended before are written. Blocks."""
        if not self._closed:
            self._closed = True
            self._reading.shutdown(wait=True)
            self._reader.close()
            self._writer.close()  # last, so that SQLite puts the log into the file and removes it
            self._lock.release()

    # -- inside ------------------------------------------------------------------------------------------------------

    def running_us(self) -> int:
        """How long the node has run, in all its lives."""
        return self._ran_us + self._clock.elapsed_us()

    def _write(self, connection: sqlite3.Connection, batch: Batch) -> int:
        """Write the rows of a batch, in the writer's thread and transaction; the size of its deliveries in bytes."""
        size = 0
        kept: int | None = None
        changes: int | None = None
        last = batch.first + len(batch.deliveries) - 1
        if batch.kept:
            block = self._kept.encode(batch.kept)
            kept = connection.execute("INSERT INTO kept (block) VALUES (?)", (block,)).lastrowid
            self.kept_bytes += len(block)
        if batch.deliveries:
            block = encode_deliveries(batch.deliveries, batch.held_us, batch.out_of_order, pack=True)
            size = len(block)
            connection.execute("INSERT INTO deliveries VALUES (?, ?, ?, ?)", (batch.first, last, batch.time_us, block))
            connection.executemany(
                "INSERT OR REPLACE INTO ranges VALUES (?, ?, ?, ?, ?)",
                [(*run, batch.first) for run in _runs(batch.deliveries)],
            )
        if batch.changes or batch.runs:
            changes = insert_changes(connection, batch.first - 1, batch.time_us, store_changes(batch))
        connection.execute(
            "UPDATE tail SET position = ?, kept = coalesce(?, kept), changes = coalesce(?, changes)",
            (last, kept, changes),
        )
        return size

    def _end_life(self, connection: sqlite3.Connection) -> None:
        span = self._topics.take()
        if span is not None:
            store_span(connection, span)
        end_life(connection, self._clock.wall_us(), self.running_us())

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise StoppedError(f"{self.path} is closed: its node has stopped")
        try:
            return await self._loop.run_in_executor(self._reading, read, self._reader)
        except (DamagedError, sqlite3.DatabaseError) as error:
            raise self._unreadable(error) from None

    def _all_kept(self, connection: sqlite3.Connection) -> list[object]:
        return self._decode_kept(connection.execute(_ALL_KEPT).fetchall())

    def _decode_kept(self, rows: Sequence[tuple[int, bytes]]) -> list[object]:
        return [record for _, block in rows for record in self._kept.decode(block)]

    def _unreadable(self, error: Exception) -> JournalError:
        remedy = REPLACE_NODE
        if isinstance(error, UnknownRecordError):
            remedy = "run the protocol that wrote it, or a newer antecede"
        return JournalError(str(self.path), f"cannot be read ({error})", remedy)

    async def _do(self, do: Callable[[sqlite3.Connection], Any], *, sync: bool = False) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(answer: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

        self._writer.put(do, done, sync=sync)
        return await future


def _nothing() -> None:
    """The thread that reads need not rest."""


def _open(path: Path, cluster: str, check: Check, clock: Clock) -> tuple[sqlite3.Connection, Identity]:
    connection = open_for_writing(path, check)
    try:
        return connection, begin_life(connection, path, cluster, clock.wall_us())
    except sqlite3.Error as error:
        connection.close()
        raise JournalError(str(path), f"cannot be used ({error})", "see that the disk has room") from None
    except BaseException:
        connection.close()
        raise


def _runs(messages: Sequence[Message]) -> Iterator[tuple[str, int, int, int]]:
    """Runs of consecutive sequence numbers: (topic, source, first, last). Messages in order make them long."""
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
