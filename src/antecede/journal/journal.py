"""A node's log on disk: its deliveries in order, the records its protocol keeps, its readers' cursors, its identity.

Batches go into a log of append-only files (`segments`), each once and as a whole (`entries`). A SQLite file beside it
has the identity, the cursors, the index of the log (`index`), and what the kept records came to when they were last
compacted. One process writes both (`lock`, `store`). A thread reads them through a `view`.

A batch is committed before any of it is sent or delivered. So a node killed at any instant finds everything it had
acknowledged, and nothing it had not decided. `durability` says what a commit survives: "process" survives the end of
the process (kill -9), "power" also a power failure; a batch may ask for the latter by itself.

A cursor is a position: the number of the last delivery its reader has seen. Replay from a journal and live delivery
count the same positions, so a reader that has replayed up to `Driver.position` goes on live without a seam.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from antecede.core import Message, UsageError
from antecede.core.errors import GapError, JournalError, StoppedError
from antecede.journal.batch import Batch
from antecede.journal.blocks import DamagedError, KeptCodec, UnknownRecordError, seal_block
from antecede.journal.clock import SYSTEM, Clock
from antecede.journal.fetched import has_fetched, store_fetched
from antecede.journal.index import Gathering
from antecede.journal.joins import Join, find_joins, note_join
from antecede.journal.lives import Identity, append_changes, begin_life, beginning, end_life
from antecede.journal.lock import FileLock
from antecede.journal.lookup import StreamName, Stretch, first_after, last_seqs, locate, stretch
from antecede.journal.recovery import recover_log
from antecede.journal.replay import Page, replay
from antecede.journal.retention import Retained, Retention, needed_address, retain
from antecede.journal.schema import REPLACE_NODE, Check, connect, open_for_writing
from antecede.journal.segments import SEGMENT_BYTES, LogReader, LogWriter, SegmentGoneError
from antecede.journal.store import Store, Written
from antecede.journal.topics import Gathering as Spans
from antecede.journal.topics import store_span
from antecede.journal.view import KeptBlocks, View

T = TypeVar("T")

#: How often a read begins again where retention removed the log under it.
_TRIES: Final = 3


class _Opened(NamedTuple):
    """What a journal consists of once it is open."""

    connection: sqlite3.Connection
    identity: Identity
    log: LogWriter
    gathering: Gathering
    view: View
    kept: KeptBlocks


class Journal:
    """Open with `Journal.open` on the event loop that will use it; `close` when done."""

    def __init__(
        self, path: Path, lock: FileLock, opened: _Opened, kept: KeptCodec, *, sync: bool, clock: Clock
    ) -> None:
        connection, self.identity, log, index, self._view, read = opened
        self.path = path
        #: The last position removed by retention: what lies at or below cannot be read any more.
        self.removed = int(_fact(connection, "removed"))
        #: The position of the last delivery that is committed.
        self.position = index.position
        #: The same when the journal was opened. Positions in other files may be higher: a power failure took the end of
        #: the log, and other deliveries will come to stand there.
        self.begun_at = index.position
        #: The settings that what is kept here depends on, as they were when the node was new; empty: not stored.
        self.settings: dict[str, str] = json.loads(
            _one(connection, "SELECT coalesce((SELECT value FROM facts WHERE name = 'settings'), '{}')")
        )
        #: Bytes of stored deliveries.
        self.stored_bytes: int = _one(connection, "SELECT coalesce(sum(bytes), 0) FROM sections")
        #: Bytes of kept records. Compaction bounds them.
        self.kept_bytes = sum(map(len, read.blocks))
        self._lock = lock
        self._kept = kept
        self._loop = asyncio.get_running_loop()
        self._store = Store(path, connection, log, index, kept, sync=sync)
        self._view.committed = lambda: self._store.committed
        self._reading = ThreadPoolExecutor(1, thread_name_prefix=f"read {path.name}")
        #: Called in the thread that reads, between two blocks: it may have to rest.
        self.rest: Callable[[], None] = _nothing
        self._has_fetched = has_fetched(connection)
        self._topics = Spans()
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
            opened = await asyncio.to_thread(_open, path, cluster, check, clock)
            return cls(path, lock, opened, codec, sync=durability == "power", clock=clock)
        except BaseException:
            lock.release()
            raise

    # -- what a driver asks (batch.Log) ------------------------------------------------------------------------------

    def append(self, batch: Batch, done: Callable[[Exception | None], None], *, sync: bool = False) -> None:
        def finished(written: Written | None, error: Exception | None) -> None:
            if written is not None:
                self.position = batch.first + len(batch.deliveries) - 1
                self.stored_bytes += written.deliveries
                self.kept_bytes += written.kept
            done(error)

        self._store.append(batch, finished, sync=sync)

    def note_topics(self, first: int, topics: Sequence[str | None]) -> None:
        """Index the topics of a batch that is committed; its first delivery has position `first` (`topics`).

        Full spans are written with the index of the log.
        """
        span = self._topics.add(first, topics)
        if span is not None:
            self._store.spans.append(span)  # a span without a row is read, so a crash before that does no harm

    async def kept(self) -> list[object]:
        return await self._read(lambda view: self._decode_kept(view.kept().blocks))

    async def compact_kept(self, compact: Callable[[list[object]], list[object]]) -> tuple[int, int]:
        """Replace the kept records by those that `compact` makes of them; how many there were and are.

        `compact` runs in a thread of its own, and batches are committed meanwhile. The records that they keep stay
        behind the new ones. One call may be under way at a time.
        """
        read = await self._read(lambda view: view.kept())

        def make() -> tuple[int, int, bytes | None]:
            records = self._decode_kept(read.blocks)
            fewer = compact(records)
            useful = len(fewer) < len(records) or read.end - read.begin >= SEGMENT_BYTES
            return len(records), len(fewer), seal_block(self._kept.encode(fewer), pack=True) if useful else None

        try:
            before, after, block = await self._loop.run_in_executor(None, make)
        except DamagedError as error:
            raise self._unreadable(error) from None
        if block is None:
            return before, after

        def write(connection: sqlite3.Connection) -> int:
            connection.execute("DELETE FROM kept")
            # The last number goes on, so that lost rows are noticed (`schema`).
            connection.execute("UPDATE tail SET kept = kept + 1, kept_first = kept + 1")
            connection.execute("INSERT INTO kept SELECT kept, ? FROM tail", (block,))
            if read.only:  # no reader needs this part of the log, if it needs none before
                connection.execute(
                    "UPDATE facts SET value = ? WHERE name = 'log_from' AND value = ?", (read.end, read.begin)
                )
            connection.executemany(
                "UPDATE facts SET value = ? WHERE name = ?",
                [(read.end, "kept_from"), (read.position + 1, "kept_at")],
            )
            return needed_address(connection)

        needed = await self._store.do_indexed(write, sync=True)
        self.kept_bytes -= sum(map(len, read.blocks)) - len(block)
        await self._store.remove_before(needed)
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
            lambda view: replay(view, after, limit=limit, matches=matches, filters=filters, rest=self.rest)
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
            lambda view: stretch(view, topic, source, first, last, bytes_max, fetched=self._has_fetched)
        )

    async def store_fetched(self, messages: Sequence[Message]) -> None:
        """Store messages of one source on one topic that this node did not deliver, by sequence number.

        They have no position. A node stores what it fetched of the past of a partition of which it became a home.
        """
        await self._store.do(lambda connection: store_fetched(connection, messages, self.running_us()))
        self._has_fetched = True

    async def joins(self) -> list[Join]:
        """Where this node began to take topics, oldest first, and what it lacks of them."""
        return await self._read(find_joins)

    async def note_join(self, join: Join) -> None:
        """Write down which messages this node lacks behind a join."""
        await self._store.do(lambda connection: note_join(connection, join), log=True)

    async def first_after(self, after: int, last: int) -> dict[StreamName, int]:
        """By topic and source: the lowest sequence number delivered at positions after `after`, up to about `last`."""
        return await self._read(lambda view: first_after(view, after, last))

    async def last_seqs(self, streams: Collection[StreamName]) -> dict[StreamName, int]:
        """By topic and source: the sequence number of the last message that was delivered here and is still stored."""
        return await self._read(lambda view: last_seqs(view, streams))

    async def locate(self, wanted: Mapping[StreamName, int]) -> dict[StreamName, tuple[int, int]]:
        """By topic and source: the first message with at least this number: its number, and the position before it."""
        return await self._read(lambda view: locate(view, wanted))

    async def sync(self) -> None:
        """Return when everything that was appended before is on the disk itself."""
        await self._store.do(lambda connection: None, log=True)

    # -- cursors, identity, retention --------------------------------------------------------------------------------

    async def cursors(self) -> dict[str, int]:
        return await self._read(lambda view: dict(view.execute("SELECT name, position FROM cursors").fetchall()))

    async def set_cursor(self, name: str, position: int) -> None:
        """The reader `name` has read up to `position`; retention keeps what comes after."""
        if not 0 <= position <= self.position:
            raise UsageError("cursor", position, "is not a position of this journal", f"use 0 … {self.position}")
        await self._store.do(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (name, position, self._clock.wall_us())
            )
        )

    async def drop_cursor(self, name: str) -> None:
        await self._store.do(lambda connection: connection.execute("DELETE FROM cursors WHERE name = ?", (name,)))

    async def set_node(self, node: int, key: int = -1) -> None:
        """Store the slot and the key of the node, on the disk itself. It keeps them across restarts."""
        await self._store.do(
            lambda connection: connection.executemany(
                "INSERT OR REPLACE INTO facts VALUES (?, ?)", [("node", node), ("key", key)]
            ),
            sync=True,
        )
        self.identity = self.identity._replace(node=node, key=key)

    async def set_settings(self, settings: Mapping[str, str]) -> None:
        """Store settings that must not change while this journal is used."""
        text = json.dumps(dict(settings))
        await self._store.do(
            lambda connection: connection.execute("INSERT OR REPLACE INTO facts VALUES ('settings', ?)", (text,))
        )
        self.settings = dict(settings)

    def give_up(self, why: str) -> None:
        """Refuse to be opened from now on: the node must not go on from this journal. Written after earlier jobs."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO facts VALUES ('given_up', ?)", (why,))

        self._store.put(write, lambda answer, error: None, sync=True)

    async def retain(self, wanted: Retention, *, needed_from: int | None = None) -> Retained:
        """Remove deliveries by age and size, as far as cursors and the node (`needed_from`, a position) allow."""

        def write(connection: sqlite3.Connection) -> tuple[Retained, int]:
            log = LogReader(self.path, self._store.log_name)
            try:
                done = retain(connection, log, wanted, self.running_us(), needed_from, self.stored_bytes)
            except DamagedError as error:
                raise self._unreadable(error) from None
            finally:
                log.close()
            return done, needed_address(connection)

        done, needed = await self._store.do_indexed(write, sync=True)
        self.removed = done.removed
        self.stored_bytes -= done.bytes
        await self._store.remove_before(needed)
        return done

    async def close(self) -> None:
        """Finish the writes under way, note a clean stop, and release the file.

        Where the stop cannot be written (the disk is full), the next life finds a crash.
        """
        if not self._closed:
            with suppress(JournalError):
                await self._store.stop(self._clock.wall_us(), self._end_life)
            await self._loop.run_in_executor(None, self.abort)

    def abort(self) -> None:
        """Release the file as a crash would, without noting a stop. Batches appended before are written. Blocks."""
        if not self._closed:
            self._closed = True
            self._reading.shutdown(wait=True)
            self._view.close()
            self._store.close()  # last, so that SQLite puts its log into the file and removes it
            self._lock.release()

    # -- inside ------------------------------------------------------------------------------------------------------

    def running_us(self) -> int:
        """How long the node has run, in all its lives."""
        return self._ran_us + self._clock.elapsed_us()

    def _end_life(self, connection: sqlite3.Connection, end: int) -> None:
        span = self._topics.take()
        if span is not None:
            store_span(connection, span)
        end_life(connection, end, self.running_us())

    async def _read(self, read: Callable[[View], T]) -> T:
        if self._closed:
            raise StoppedError(f"{self.path} is closed: its node has stopped")
        try:
            return await self._loop.run_in_executor(self._reading, self._read_now, read)
        except (DamagedError, OSError, sqlite3.DatabaseError) as error:
            raise self._unreadable(error) from None

    def _read_now(self, read: Callable[[View], T]) -> T:
        for _ in range(_TRIES):
            with suppress(SegmentGoneError), self._view.reading():
                return read(self._view)
        raise DamagedError("a part of its log is missing")

    def _decode_kept(self, blocks: Sequence[bytes]) -> list[object]:
        return [record for block in blocks for record in self._kept.decode(block)]

    def _unreadable(self, error: Exception) -> JournalError:
        remedy = REPLACE_NODE
        if isinstance(error, UnknownRecordError):
            remedy = "run the protocol that wrote it, or a newer antecede"
        return JournalError(str(self.path), f"cannot be read ({error})", remedy)


def _nothing() -> None:
    """The thread that reads need not rest."""


def _open(path: Path, cluster: str, check: Check, clock: Clock) -> _Opened:
    connection = open_for_writing(path, check)
    with ExitStack() as opened:
        opened.callback(connection.close)
        try:
            identity, clean = begin_life(connection, path, cluster)
            log, index = recover_log(connection, path)
            opened.callback(log.close)
            changes = beginning(identity.incarnation, clean=clean == log.end)
            if changes:
                append_changes(log, index, clock.wall_us(), changes)
            log.remove_before(needed_address(connection))
            view = View(path, connect(path, read_only=True))
            opened.callback(view.close)
            with view.reading():
                kept = view.kept()
        except (sqlite3.Error, OSError) as error:
            raise JournalError(str(path), f"cannot be used ({error})", "see that the disk has room") from None
        except DamagedError as error:
            raise JournalError(str(path), f"is damaged ({error})", REPLACE_NODE) from None
        opened.pop_all()
    return _Opened(connection, identity, log, index, view, kept)


def _fact(connection: sqlite3.Connection, name: str) -> Any:
    return _one(connection, "SELECT value FROM facts WHERE name = ?", name)


def _one(connection: sqlite3.Connection, query: str, *values: object) -> Any:
    return connection.execute(query, values).fetchone()[0]
