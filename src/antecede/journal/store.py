"""Appends batches to the log of a journal, and writes the tables beside it.

Two threads write: the event loop and the writer's (`writer`). The log and what indexes it belong to the writer's thread
while one of its jobs for them is under way, and to the event loop otherwise. So a batch that need not reach the disk
itself is appended on the event loop, unless it is large or others wait for the thread. It is one write into the
system's memory, some microseconds.

A job of SQLite that refers to the log is committed when the log is on the disk (`put_indexed`, `sync_log`). So after a
power failure the tables never name a part of the log that is not there. The index of topics (`topics`) is written with
the index of the log: a transaction of its own for each span would cost as much as appending half of its deliveries.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from antecede.core.errors import StoppedError
from antecede.journal import words
from antecede.journal.batch import Batch
from antecede.journal.blocks import (
    SEAL_BYTES,
    KeptCodec,
    StoredChange,
    checksum,
    encode_changes,
    encode_messages,
    name_others,
    pack_block,
    store_changes,
)
from antecede.journal.entries import entry_head
from antecede.journal.index import Gathering, membership_block, write_rows
from antecede.journal.lives import append_changes
from antecede.journal.references import refer
from antecede.journal.segments import LogWriter
from antecede.journal.topics import Span, store_span
from antecede.journal.writer import Writer

T = TypeVar("T")

#: Deliveries of a batch that may be written on the event loop: a few milliseconds at the most.
_SMALL_BATCH: Final = 1024


class Written(NamedTuple):
    """What a batch became in the log."""

    #: Bytes of its deliveries, and of its kept records without references.
    deliveries: int
    kept: int
    #: The address behind it.
    end: int


class Store:
    """The parts of a journal that are written."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        log: LogWriter,
        index: Gathering,
        kept: KeptCodec,
        *,
        sync: bool,
    ) -> None:
        """`sync`: each batch reaches the disk itself."""
        self._path = path
        self._log = log
        self._index = index
        self._kept = kept
        self._always_sync = sync
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(str(path), connection, self._loop, sync=sync, sync_log=self._finish_log)
        #: The address up to which the log is committed.
        self.committed = log.end
        # Jobs of the writer's thread that use the log or its index. Without any, the event loop may.
        self._under_way = 0
        # Why the index could not be written. Then the log takes no more, and the next life indexes it.
        self._failure: Exception | None = None
        self._closed = False
        #: The spans of topics that are full. They are written with the index of the log.
        self.spans: list[Span] = []
        if sync:
            log.show()

    @property
    def log_name(self) -> bytes:
        return self._log.name

    def append(self, batch: Batch, done: Callable[[Written | None, Exception | None], None], *, sync: bool) -> None:
        """Append a batch; then call `done` on the event loop, perhaps before this returns."""
        if self._closed:
            raise StoppedError(f"journal {self._path} is closed")
        if not (sync or self._always_sync or self._under_way or len(batch.deliveries) > _SMALL_BATCH):
            written, failure = None, None
            try:
                written = self._write(batch)
            except Exception as error:
                failure = error
            self._finish(done, written, failure)
            return

        def finished(written: Written | None, error: Exception | None) -> None:
            self._under_way -= 1
            self._finish(done, written, error)

        self._under_way += 1
        self._writer.put(lambda connection: self._write(batch), finished, sync=sync, sql=False)

    def put(
        self,
        do: Callable[[sqlite3.Connection], T],
        done: Callable[[T | None, Exception | None], None],
        *,
        sync: bool = False,
    ) -> None:
        """Run `do` in a transaction of the tables (`Writer.put`)."""
        self._writer.put(do, done, sync=sync)

    async def do(self, do: Callable[[sqlite3.Connection], T], *, sync: bool = False, log: bool = False) -> T:
        """Run `do` in a transaction of the tables; its answer. `log`: it refers to the log, which is synced before."""

        def run(connection: sqlite3.Connection) -> T:
            if log:
                self._log.sync()
            return do(connection)

        future: asyncio.Future[T] = self._loop.create_future()
        self._writer.put(run, partial(_settle, future), sync=sync)
        return await future

    async def do_indexed(self, do: Callable[[sqlite3.Connection], T], *, sync: bool = False) -> T:
        """`do`, when the whole log is indexed."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._put_indexed(do, partial(_settle, future), sync=sync)
        return await future

    async def stop(self, time_us: int, do: Callable[[sqlite3.Connection, int], None]) -> None:
        """Append the change that ends a life, index the log, and run `do` with the address of its end."""
        self._under_way += 1  # from here on the log is the thread's
        stop = [StoredChange(0, "stop", "")]
        self._writer.put(
            lambda connection: append_changes(self._log, self._index, time_us, stop), lambda *_: None, sql=False
        )
        await self.do_indexed(lambda connection: do(connection, self._log.end), sync=True)

    async def remove_before(self, address: int) -> None:
        """Remove the segments before `address`, which no table names any more."""
        await self._loop.run_in_executor(None, self._log.remove_before, address)

    def close(self) -> None:
        """Finish the jobs that were put. Blocks."""
        self._closed = True
        self._writer.close()
        self._log.close()

    def _write(self, batch: Batch) -> Written:
        if self._failure is not None:
            raise self._failure
        kept = changes = members = deliveries = seal = b""
        kept_bytes = 0
        if batch.deliveries:
            deliveries = encode_messages(batch.deliveries, batch.held_us, batch.out_of_order)
        if batch.changes or batch.runs:
            stored = store_changes(batch)
            changes = encode_changes(stored)
            members = membership_block(stored) if batch.changes else b""
        if batch.kept:
            records = self._kept.encode(batch.kept)
            kept_bytes = len(records) + SEAL_BYTES
            kept = words.pack(refer(records, batch.deliveries, deliveries))
        if deliveries:
            if name_others(batch.deliveries):
                deliveries = pack_block(deliveries)
            seal = checksum(deliveries)
        size = len(deliveries) + len(seal)
        # The checksum of the entry covers kept records and changes: they go without their own.
        head = entry_head(batch.first, len(batch.deliveries), batch.time_us, kept, changes[:-SEAL_BYTES], size)
        address = self._log.append(head, deliveries, seal)
        end = self._log.end
        self._index.add(address, end, batch.first, batch.time_us, batch.deliveries, size, members, batch.runs)
        return Written(size, kept_bytes, end)

    def _finish(
        self,
        done: Callable[[Written | None, Exception | None], None],
        written: Written | None,
        error: Exception | None,
    ) -> None:
        if written is not None:
            self.committed = written.end
            if self._index.due and not self._closed:
                self._put_indexed(lambda connection: None, lambda answer, error: None)
        done(written, error)

    def _put_indexed(
        self,
        do: Callable[[sqlite3.Connection], T],
        done: Callable[[T | None, Exception | None], None],
        *,
        sync: bool = False,
    ) -> None:
        """Put a job before which the log is indexed, as far as it is written by then, in the same transaction."""
        rows = None if self._under_way else self._index.take()
        self._under_way += rows is None
        spans, self.spans = self.spans, []

        def write(connection: sqlite3.Connection) -> T:
            taken = self._index.take() if rows is None else rows
            self._log.sync()
            write_rows(connection, taken)
            for span in spans:
                store_span(connection, span)
            return do(connection)

        def finished(answer: T | None, error: Exception | None) -> None:
            self._under_way -= rows is None
            self._failure = self._failure or error
            done(answer, error)

        self._writer.put(write, finished, sync=sync)

    def _finish_log(self) -> None:
        self._log.sync()
        if self._always_sync:
            self._log.show()


def _settle(future: "asyncio.Future[Any]", answer: Any, error: Exception | None) -> None:
    """Give the answer of a job to the task that waits for it."""
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
