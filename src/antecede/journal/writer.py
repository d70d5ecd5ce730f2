"""Writes a database and the log beside it, if it has one: one job at a time, in order.

Jobs that wait together are committed together.

A job is a function of the connection. Its answer, or the error of its transaction, goes back to the event loop after
the commit. When a transaction fails, all its jobs fail, and the node stops (`node.driver`): a node whose journal cannot
be written cannot go on.

Jobs run in a thread. A commit that need not reach the disk itself is a copy into the system's memory, a tenth of a
millisecond; handing it to a thread and back takes longer, the more so while the event loop is busy and keeps the
interpreter's lock. So a small job that is put while none is under way may run at once on the event loop
(`put(…, here=True)`).

SQLite's log (WAL) must be copied into the file from time to time, and both be synced to the disk: tens of milliseconds,
during which a commit would wait. A second thread does it beside the commits (`_Checkpointer`). The log starts over only
when all of it has been copied, and under load some is always left. So when it has grown long, the thread copies again
until little is left, and the writer copies that rest itself, between two commits. SQLite's own bound holds should the
second thread not keep up (`schema.open_for_writing`).

A log that has started over is written over what it held before. Pages of that which the system has dropped from its
memory must be read from the disk first, since a frame of the log is no whole page; and the commit would wait for it. So
the second thread asks the system to read ahead of the writer.
"""

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from antecede.core.errors import JournalError, StoppedError

#: Jobs in one transaction. A driver has one under way; the others are cursors and retention.
_TOGETHER_MAX: Final = 64

#: Between two checkpoints, and pages in the log from which it should start over.
_CHECKPOINT_S: Final = 1.0
_LOG_PAGES_LONG: Final = 32_000

#: Pages of a long log that the writer may copy, a few milliseconds' worth, and how often the second thread tries to
#: leave no more than that.
_REST_PAGES_MAX: Final = 250
_ROUNDS_MAX: Final = 8

#: Bytes of a page in the log, with its head; and how many pages are read ahead: those of some seconds.
_FRAME_BYTES: Final = 4096 + 24
_AHEAD_PAGES: Final = 8192


class _Job(NamedTuple):
    do: Callable[[sqlite3.Connection], Any]
    done: Callable[[Any, Exception | None], None]
    sync: bool
    sql: bool


class _Checkpointer:
    """Copies the log into the file, on a connection and thread of its own, a while after something was committed."""

    def __init__(self, path: str) -> None:
        #: Should the writer copy the rest of the log?
        self.log_is_long = False
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        self._committed = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"checkpoints {path}", daemon=True)
        self._thread.start()

    def committed(self) -> None:
        if not self._committed.is_set():
            self._committed.set()

    def close(self) -> None:
        self._stop.set()
        self._committed.set()
        self._thread.join()
        self._connection.close()
        os.close(self._log)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._committed.wait()
            self._stop.wait(_CHECKPOINT_S)
            self._committed.clear()  # `close` may have set it just before, so look again whether to stop
            if not self._stop.is_set():
                self.log_is_long = copy_log(self._connection, self._log)


def copy_log(connection: sqlite3.Connection, log: int | None = None) -> bool:
    """Copy the log beside the commits. True: it is long, and the writer should copy the rest so that it starts over.

    `log`: its file, which is read ahead of the writer.
    """
    pages = checkpoint(connection)
    if log is not None:
        read_ahead(log, 0 if pages >= _LOG_PAGES_LONG else pages)
    for _ in range(_ROUNDS_MAX):
        if pages < _LOG_PAGES_LONG:
            return False
        before, pages = pages, checkpoint(connection)
        if pages - before <= _REST_PAGES_MAX:  # as many as this were committed meanwhile, about
            break
    return True


def read_ahead(log: int, page: int) -> None:
    """Let the system read, from `page` of the log on, what the writer is about to write over."""
    os.posix_fadvise(log, page * _FRAME_BYTES, _AHEAD_PAGES * _FRAME_BYTES, os.POSIX_FADV_WILLNEED)


def checkpoint(connection: sqlite3.Connection) -> int:
    """Copy as much of the log as readers and writers allow at once; the number of pages in the log."""
    try:
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error:
        return 0  # the writer finds out about a disk that cannot be written: its commits fail
    return int(pages)


class Writer:
    """Runs jobs on a connection of its own, in order."""

    def __init__(
        self,
        path: str,
        connection: sqlite3.Connection,
        loop: asyncio.AbstractEventLoop,
        *,
        sync: bool,
        sync_log: Callable[[], None] | None = None,
    ) -> None:
        """`sync_log`: makes what jobs wrote to a log beside the database reach the disk itself."""
        self._path = path
        self._sync_log = sync_log
        self._connection = connection
        self._loop = loop
        self._always_sync = sync
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._level = ""
        #: Jobs of the thread that were not answered yet. Without any, the thread leaves the connection alone.
        self._under_way = 0
        self._closed = False
        self._checkpointer = _Checkpointer(path)
        self._thread = threading.Thread(target=self._run, name=f"journal {path}", daemon=True)
        self._thread.start()

    def put(
        self,
        do: Callable[[sqlite3.Connection], Any],
        done: Callable[[Any, Exception | None], None],
        *,
        sync: bool = False,
        here: bool = False,
        sql: bool = True,
    ) -> None:
        """Run `do` in a transaction; then `done(answer, error)` on the event loop. `sync`: the disk has it by then.

        `here`: it is small, and may be done before this returns. Without `sql` it writes to the log only, and needs no
        transaction.
        """
        if self._closed:
            raise StoppedError(f"journal {self._path} is closed")
        job = _Job(do, done, sync, sql)
        quick = here and not sync and not self._always_sync and not self._checkpointer.log_is_long
        if quick and not self._under_way:
            answers, failure = self._transaction([job])
            done(None if failure else answers[0], failure)
            return
        self._under_way += 1
        self._jobs.put(job)

    def close(self) -> None:
        """Finish the jobs that were put and close the connection. Blocks until the thread has ended."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        jobs: list[_Job] = []
        try:
            while True:
                job = self._jobs.get()
                if job is None:
                    return
                jobs.append(job)
                last = self._gather(jobs)
                self._commit(jobs)
                jobs = []
                if last:
                    return
        finally:
            self._checkpointer.close()
            self._connection.close()

    def _gather(self, jobs: list[_Job]) -> bool:
        """Take the jobs that wait already. True: the end of all jobs was among them."""
        while len(jobs) < _TOGETHER_MAX:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return False
            if job is None:
                return True
            jobs.append(job)
        return False

    def _commit(self, jobs: list[_Job]) -> None:
        answers, failure = self._transaction(jobs)
        try:
            self._loop.call_soon_threadsafe(self._tell, jobs, answers, failure)
        except RuntimeError:
            return  # the loop is closed: nothing waits for the answer

    def _transaction(self, jobs: list[_Job]) -> tuple[list[Any], Exception | None]:
        answers: list[Any] = []
        failure: Exception | None = None
        sync = self._always_sync or any(job.sync for job in jobs)
        try:
            if not any(job.sql for job in jobs):
                answers = [job.do(self._connection) for job in jobs]
                self._finish_log(sync)
                return answers, None
            if self._checkpointer.log_is_long:
                self._checkpointer.log_is_long = False
                checkpoint(self._connection)
            self._set_sync(sync)
            self._connection.execute("BEGIN IMMEDIATE")
            answers = [job.do(self._connection) for job in jobs]
            self._finish_log(sync)
            self._connection.execute("COMMIT")
            self._checkpointer.committed()
        except Exception as error:
            failure = error
            if isinstance(error, sqlite3.Error):
                failure = JournalError(self._path, f"cannot be written ({error})", "see that the disk has room")
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        return answers, failure

    def _finish_log(self, sync: bool) -> None:
        if sync and self._sync_log is not None:
            self._sync_log()

    def _set_sync(self, wanted: bool) -> None:
        """NORMAL: a commit survives the end of the process. FULL: it survives the end of the machine's power too."""
        level = "FULL" if wanted else "NORMAL"
        if level != self._level:
            self._connection.execute(f"PRAGMA synchronous={level}")
            self._level = level

    def _tell(self, jobs: list[_Job], answers: list[Any], failure: Exception | None) -> None:
        self._under_way -= len(jobs)
        for index, job in enumerate(jobs):
            job.done(None if failure else answers[index], failure)
