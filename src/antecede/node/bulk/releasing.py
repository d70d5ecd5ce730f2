"""Publishing what was staged: a batch once, all of it, in order, across crashes of whoever asked and of the node.

A release is written down before its first message is published, and crossed out after the last is in the journal. Its
messages carry a mark (`envelope.seal`): the release's own random number, and the row's. A node that comes back to a
release that is not crossed out looks in its journal how far the marks go, and goes on behind them. Until then a cursor
keeps retention from removing them. So nothing need be written beside each message, and nothing is published twice.
"""

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from antecede.core import AntecedeError, Message
from antecede.core.errors import JournalError, StoppedError
from antecede.journal import JournalFile
from antecede.journal.blocks import LeanMessage
from antecede.node.bulk.staging import FILE_NAME, Batch, Staging
from antecede.protocols.tno.records import Asked
from antecede.protocols.vcube_ps.records import Published, PublishedRun
from antecede.wire.bulk import Row, decode_rows
from antecede.wire.envelope import mark_of, seal

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

T = TypeVar("T")

#: Rows handed to the protocol before others get a turn, and runs that may be on their way to the journal.
_RUN: Final = 1024
_RUNS_PENDING_MAX: Final = 8


class Waiting(AntecedeError):
    """A release is under way, and not done within the time given."""


class Releases:
    """The staged rows of a node and their releases."""

    def __init__(self, node: "Node", directory: Path) -> None:
        self._node = node
        self._path = directory / FILE_NAME
        self._staging: Staging | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="staging")
        self._deciding = asyncio.Lock()
        self._running: dict[str, asyncio.Task[int]] = {}
        #: By producer: what its release waits for.
        self._waits: dict[str, str] = {}
        self._closed = False

    async def start(self) -> None:
        """Go on with what a life before has begun."""
        if self._path.exists():
            for batch in await self._do(lambda staging: staging.unfinished()):
                self._run(batch, resumed=True)

    async def close(self) -> None:
        self._closed = True
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self.abort)

    def abort(self) -> None:
        """As a crash would. Blocks."""
        self._closed = True
        self._thread.shutdown(wait=True)
        if self._staging is not None:
            self._staging.close()
            self._staging = None

    async def stage(self, part: str, index: int, rows: int, block: bytes) -> None:
        await self._do(lambda staging: staging.stage(part, index, rows, block, _now_us()))

    async def discard(self, parts: tuple[str, ...]) -> None:
        await self._do(lambda staging: staging.discard(parts))

    async def release(self, producer: str, number: int, parts: tuple[tuple[str, int], ...], patience_s: float) -> int:
        """Return when the batch is published: how many messages, or 0 when it was before. Raises `Waiting`."""
        deadline = asyncio.get_running_loop().time() + patience_s
        while True:
            ours = False
            async with self._deciding:
                task = self._running.get(producer)
                # A task stays in the table until the loop has run its callback: awaiting one that is done does not
                # yield, so a caller that waited for it here would keep that callback from ever running.
                if task is None or task.done():
                    last = await self._do(lambda staging: staging.find(producer))
                    if last is not None and last.parts is None and last.batch >= number:
                        await self.discard(tuple(part for part, _ in parts))
                        return 0
                    ours = last is None or last.parts is None
                    if ours:
                        last = await self._begin(producer, number, parts)
                    assert last is not None
                    task = self._run(last, resumed=not ours)
            count = await self._wait(producer, task, deadline)
            if ours:
                return count

    async def _begin(self, producer: str, number: int, parts: tuple[tuple[str, int], ...]) -> Batch:
        position = self._node.hub.position
        return await self._do(lambda staging: staging.begin(producer, number, parts, position, _now_us()))

    async def _wait(self, producer: str, task: "asyncio.Task[int]", deadline: float) -> int:
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(task)
        except TimeoutError:
            why = self._waits.get(producer, "it is being published")
            raise Waiting(f"the batch is safe at the node and will be published, but is not yet: {why}") from None

    # -- publishing ----------------------------------------------------------------------------------------------------

    def _run(self, batch: Batch, *, resumed: bool) -> "asyncio.Task[int]":
        task = asyncio.get_running_loop().create_task(self._publish(batch, resumed))
        self._running[batch.producer] = task

        def ended(done: "asyncio.Task[int]") -> None:
            if self._running.get(batch.producer) is done:
                del self._running[batch.producer]
                self._waits.pop(batch.producer, None)
            if not done.cancelled() and done.exception() is not None and not self._closed:
                log.error("batch %d of %s: %s; it goes on later", batch.batch, batch.producer, done.exception())

        task.add_done_callback(ended)
        return task

    async def _publish(self, batch: Batch, resumed: bool) -> int:
        """How many messages."""
        journal = self._node.journal
        assert journal is not None
        cursor = f"release {batch.producer}"
        await journal.set_cursor(cursor, batch.position)
        done = max(batch.done, await self._marked(batch)) if resumed else 0
        begin = done
        for first, rows, part, index in await self._do(lambda staging: staging.stages(batch)):
            if first + rows <= done:
                continue
            block = await self._block(part, index)
            await self._publish_rows(batch, decode_rows(block)[done - first :], done)
            done = first + rows
            await self._note(batch.producer, done)
        await self._do(lambda staging: staging.finish(batch, done))
        await journal.drop_cursor(cursor)
        return done - begin

    async def _publish_rows(self, batch: Batch, rows: list[Row], number: int) -> None:
        """Return when all are in the journal. `number`: of the first."""
        node, hub = self._node, self._node.hub
        pending: deque[asyncio.Future[Message]] = deque()
        at = 0
        while at < len(rows):
            after = rows[at].after
            if after and not hub.has(after):
                missing = ", ".join(f"{source}.{seq}" for source, seq in after if not hub.has(((source, seq),)))
                self._waits[batch.producer] = f"row {number + at} follows {missing}, not delivered here"
                await self._until(partial(hub.when_delivered, after))
                self._waits.pop(batch.producer, None)
            if node.busy:
                await self._until(node.when_free)
                continue
            end = at + 1
            while end < min(len(rows), at + _RUN) and (not rows[end].after or hub.has(rows[end].after)):
                end += 1
            now_us = _now_us()
            payloads = [
                seal(row.topic, row.body, time_us=now_us, headers=row.headers, mark=(batch.mark, place))
                for place, row in enumerate(rows[at:end], number + at)
            ]
            messages, promise = node.publish_payloads(payloads, 1)
            if messages:
                at += len(messages)
            else:
                answer = node.publish_payload(payloads[0], 1)
                assert not isinstance(answer, Message)
                promise = answer
                at += 1
            assert promise is not None
            pending.append(promise)
            if len(pending) > _RUNS_PENDING_MAX:
                await pending.popleft()
            else:
                await asyncio.sleep(0)
        for promise in pending:
            await promise

    async def _marked(self, batch: Batch) -> int:
        """How many rows of a release were published, by the marks in the journal."""
        journal, slot = self._node.journal, self._node.slot
        assert journal is not None
        path = journal.path

        def look() -> int:
            done = 0
            with JournalFile(path) as file:
                removed, position = file.extent()
                for chunk in file.blocks(max(batch.position, removed), position):
                    for stored in chunk:
                        done = max(done, _furthest(stored.block.messages, slot, batch.mark))
            return done

        # What was published and not delivered here yet is kept by the protocol alone.
        records = await journal.kept()
        kept = [message for one in records if isinstance(one, Published | PublishedRun) for message in one.messages]
        kept += [one.message for one in records if isinstance(one, Asked)]
        return max(_furthest(kept, slot, batch.mark), await asyncio.to_thread(look))

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _block(self, part: str, index: int) -> bytes:
        return await self._do(lambda staging: staging.block(part, index))

    async def _note(self, producer: str, done: int) -> None:
        await self._do(lambda staging: staging.note(producer, done))

    async def _until(self, ask: Callable[[Callable[[], None]], None]) -> None:
        """Return when what is asked for has happened."""
        happened = asyncio.Event()
        ask(happened.set)
        await happened.wait()

    async def _do(self, work: Callable[[Staging], T]) -> T:
        if self._closed:
            raise StoppedError("the node is stopping")

        def run() -> T:
            if self._staging is None:
                self._staging = Staging(self._path, sync=self._node.config.durability == "power")
                self._staging.forget(_now_us())
            try:
                return work(self._staging)
            except sqlite3.Error as error:
                problem = f"cannot be written ({error})"
                raise JournalError(str(self._path), problem, "see that the disk has room") from None

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)


def _furthest(messages: Sequence[Message | LeanMessage], source: int, mark: int) -> int:
    """One more than the highest row number among messages of this mark."""
    furthest = 0
    for message in messages:
        if message.source == source:
            found = mark_of(message.payload)
            if found is not None and found[0] == mark:
                furthest = max(furthest, found[1] + 1)
    return furthest


def _now_us() -> int:
    return time.time_ns() // 1000
