"""Publishes staged batches: each once, all of it, in order, across crashes of the client and of the node.

A release is written down before its first message is published, and crossed out after the last is in the journal. Its
messages carry a mark (`envelope.seal`): the release's own random number, and the row's. A node that comes back to a
release that is not crossed out looks in its journal how far the marks go, and goes on behind them. Until then a cursor
keeps retention from removing them. So nothing need be written beside each message, and nothing is published twice.

A power failure may take the end of the journal. So the node syncs its journal before it writes to `staged.db` that rows
are published, and syncs `staged.db` at once. What `staged.db` says of a release then holds after a power failure, too.

A row may name predecessors that this node has not delivered. The release waits for them, a day at most, and holds
nothing meanwhile: its progress is written down and its cursor moves on, so retention goes on. Its owner may cancel it.
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from antecede.core import AntecedeError, Message, Record, UsageError
from antecede.core.errors import JournalError, StoppedError
from antecede.core.partitions import message_name
from antecede.journal import JournalFile
from antecede.journal.blocks import LeanMessage
from antecede.journal.clock import wall_us
from antecede.node.bulk.handover import follow
from antecede.node.bulk.staging import FILE_NAME, FORGET_US, Batch, Producer, Staging
from antecede.node.predecessors import After
from antecede.wire.bulk import Claim, Row, Settle, Vote, decode_rows
from antecede.wire.envelope import mark_of, seal

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

T = TypeVar("T")

#: Rows handed to the protocol before others get a turn, and runs that may be on their way to the journal.
_RUN: Final = 1024
_RUNS_PENDING_MAX: Final = 8

#: A release that waits moves its cursor on so often, so that retention goes on; and it is cancelled after so long.
_CURSOR_S: Final = 2.0
_WAIT_S_MAX: Final = FORGET_US / 1_000_000

#: How the names of cursors begin that keep the marks of releases.
_CURSOR: Final = "release "


class Waiting(AntecedeError):
    """A release is under way, and not done within the time given."""


class CancelledBatchError(AntecedeError):
    """A batch was cancelled: its first `done` rows were published, the others never will be."""

    def __init__(self, batch: Batch, done: int, why: str) -> None:
        self.done = done
        remedy = "write the other rows as another batch" if done else "write the batch again"
        what = f"batch {batch.batch} of {batch.name} was cancelled ({why})"
        super().__init__(f"{what} after {done} of its rows were published; {remedy}")


class _Release:
    """A release under way."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.task: asyncio.Task[int]
        #: Rows handed to the protocol, all of which will be published.
        self.done = 0
        #: What it waits for, in words.
        self.waits = ""
        #: Why it is to end before its last row, if it is.
        self.cancelled = ""
        self.wake = asyncio.Event()

    def cancel(self, why: str) -> None:
        self.cancelled = self.cancelled or why
        self.wake.set()

    def check(self) -> None:
        if self.cancelled:
            raise CancelledBatchError(self.batch, self.done, self.cancelled)


class Releases:
    """The staged rows of a node and their releases."""

    def __init__(self, node: "Node", directory: Path) -> None:
        self._node = node
        self._path = directory / FILE_NAME
        self._staging: Staging | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="staging")
        self._deciding = asyncio.Lock()
        self._running: dict[Producer, _Release] = {}
        self._closed = False

    async def start(self) -> None:
        """Go on with releases that an earlier life has begun; drop cursors of those it has ended."""
        journal = self._node.journal
        assert journal is not None
        unfinished: list[Batch] = []
        if self._path.exists():
            unfinished = await self._do(lambda staging: staging.unfinished())
        last = journal.begun_at
        for at, batch in enumerate(unfinished):
            if batch.position > last:  # of an earlier version, which did not sync the journal before
                unfinished[at] = await self._do(partial(Staging.note, batch=batch, done=0, position=last))
        wanted = {_cursor(batch.producer) for batch in unfinished}
        for name in await journal.cursors():
            if name.startswith(_CURSOR) and name not in wanted:
                await journal.drop_cursor(name)
        for batch in unfinished:
            self._run(batch, resumed=True)

    async def close(self) -> None:
        self._closed = True
        running = [release.task for release in self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self.abort)

    def abort(self) -> None:
        """Stop as a crash would. Blocks."""
        self._closed = True
        self._thread.shutdown(wait=True)
        if self._staging is not None:
            self._staging.close()
            self._staging = None

    # -- what a client asks --------------------------------------------------------------------------------------------

    async def stage(self, owner: str, part: str, index: int, rows: int, block: bytes) -> None:
        await self._do(lambda staging: staging.stage(owner, part, index, rows, block, self._ran_us()))

    async def discard(self, owner: str, parts: tuple[str, ...]) -> None:
        await self._do(lambda staging: staging.discard(owner, parts))

    async def topics(self, owner: str, parts: tuple[tuple[str, int], ...]) -> set[str]:
        """The topics a release of these parts would publish on."""
        return await self._do(lambda staging: staging.topics(owner, parts))

    async def block(self, owner: str, part: str, index: int) -> bytes:
        """A block of rows that was staged. Raises `UsageError` if it is not there."""
        return await self._do(lambda staging: staging.block(owner, part, index))

    async def vote(self, producer: Producer, told: Claim | Settle) -> Vote:
        """Vote on the node that publishes a batch, or remember that it was published."""
        return await self._do(lambda staging: staging.vote(producer, told, self._node.slot))

    async def release(
        self,
        producer: Producer,
        number: int,
        parts: tuple[tuple[str, int], ...],
        patience_s: float,
        *,
        after: After = (),
        claimed: bool = False,
    ) -> int:
        """Return when the batch is published: how many messages, or 0 when it was before.

        It is begun when everything in `after` was delivered here. Raises `Waiting`, and `CancelledBatchError` when it
        was cancelled.
        """
        deadline = asyncio.get_running_loop().time() + patience_s
        await self._check_claimed(producer, claimed)
        if missing := await follow(self._node, after, deadline):
            raise Waiting(f"the batch before it was published at another node, whose {missing} did not come here yet")
        while True:
            ours = False
            async with self._deciding:
                release = self._find(producer)
                if release is None:
                    last = await self._do(lambda staging: staging.find(producer))
                    over = last is None or last.parts is None
                    if last is not None and over and last.batch >= number and not (last.batch == number and last.again):
                        await self.discard(producer.owner, tuple(part for part, _ in parts))
                        if last.batch == number and last.cancelled:
                            raise CancelledBatchError(last, last.done, "before")
                        return 0
                    ours = over
                    if ours:
                        last = await self._begin(producer, number, parts)
                    assert last is not None
                    release = self._find(last.producer) or self._run(last, resumed=not ours)
            try:
                count = await self._wait(release, deadline)
            except CancelledBatchError:
                if release.batch.batch == number:
                    raise
            else:
                if ours:
                    return count

    async def _check_claimed(self, producer: Producer, claimed: bool) -> None:
        votes = None if claimed else await self._do(lambda staging: staging.claimed(producer))
        if votes is not None:
            problem = f"publishes at one of several nodes ({', '.join(votes.voters)})"
            raise UsageError("producer", producer.name, problem, "name all of them, as before")

    async def cancel(self, producer: Producer, number: int) -> int:
        """Publish no more of a batch; how many of its messages were published."""
        async with self._deciding:
            release = self._find(producer)
            if release is None:
                last = await self._do(lambda staging: staging.find(producer))
                if last is None or last.batch != number or (last.parts is None and not last.cancelled):
                    what = "is not known here" if last is None or last.batch < number else "was published, all of it"
                    raise UsageError("batch", f"{producer.name} {number}", what, "cancel a release that is under way")
                if last.parts is None:
                    return last.done
                release = self._run(last, resumed=True)
            if release.batch.batch != number:
                problem = f"is not under way, batch {release.batch.batch} is"
                raise UsageError("batch", f"{producer.name} {number}", problem, "cancel that one first")
            release.cancel("its owner asked for it")
            try:
                await asyncio.shield(release.task)
            except CancelledBatchError as error:
                return error.done
            return release.done

    def _find(self, producer: Producer) -> _Release | None:
        """The release of a producer that is under way.

        A task stays in the table until the loop has run its callback. Awaiting one that is done does not yield, so a
        caller that waited for it would keep that callback from ever running.
        """
        release = self._running.get(producer)
        return None if release is None or release.task.done() else release

    async def _begin(self, producer: Producer, number: int, parts: tuple[tuple[str, int], ...]) -> Batch:
        journal, position = self._node.journal, self._node.hub.position
        assert journal is not None
        await journal.sync()
        return await self._do(lambda staging: staging.begin(producer, number, parts, position, self._ran_us()))

    async def _wait(self, release: _Release, deadline: float) -> int:
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(release.task)
        except TimeoutError:
            why = release.waits or "it is being published"
            raise Waiting(f"the batch is safe at the node and will be published, but is not yet: {why}") from None

    # -- publishing ----------------------------------------------------------------------------------------------------

    def _run(self, batch: Batch, *, resumed: bool) -> _Release:
        release = self._running[batch.producer] = _Release(batch)
        release.task = asyncio.get_running_loop().create_task(self._publish(release, resumed))

        def ended(done: "asyncio.Task[int]") -> None:
            if self._running.get(batch.producer) is release:
                del self._running[batch.producer]
            if done.cancelled() or done.exception() is None or self._closed:
                return
            if isinstance(done.exception(), CancelledBatchError):
                log.warning("%s", done.exception())
            else:
                log.error("batch %d of %s: %s; it goes on later", batch.batch, batch.name, done.exception())

        release.task.add_done_callback(ended)
        return release

    async def _publish(self, release: _Release, resumed: bool) -> int:
        """How many messages."""
        journal, batch = self._node.journal, release.batch
        assert journal is not None
        cursor = _cursor(batch.producer)
        await journal.set_cursor(cursor, batch.position)
        begin = release.done = max(batch.done, await self._marked(batch)) if resumed else 0
        try:
            for first, rows, part, index in await self._do(lambda staging: staging.stages(batch)):
                if first + rows > release.done:
                    block = await self.block(batch.owner, part, index)
                    await self._publish_rows(release, decode_rows(block)[release.done - first :])
        except CancelledBatchError:
            await journal.sync()
            await self._do(lambda staging: staging.finish(batch, release.done, cancelled=True))
            await journal.drop_cursor(cursor)
            raise
        await journal.sync()
        await self._do(lambda staging: staging.finish(batch, release.done))
        await journal.drop_cursor(cursor)
        return release.done - begin

    async def _publish_rows(self, release: _Release, rows: list[Row]) -> None:
        """Publish rows, of which the first is number `release.done`. Return when all are in the journal."""
        node, mark = self._node, release.batch.mark
        has = self._has
        make_promise: Callable[[], asyncio.Future[Message]] = asyncio.get_running_loop().create_future
        pending: deque[asyncio.Future[Message]] = deque()
        at = 0
        while at < len(rows):
            if release.cancelled or (rows[at].after and not has(rows[at].after)) or node.pressure.busy:
                while pending:
                    await pending.popleft()
                release.check()
                if not has(rows[at].after):
                    await self._until_delivered(release, rows[at].after)
                elif node.pressure.busy:
                    await self._until(release, node.pressure.when_free)
                continue
            end = at + 1
            while end < min(len(rows), at + _RUN) and (not rows[end].after or has(rows[end].after)):
                end += 1
            if node.partitions.count > 1:
                end = at + await self._taken(release, rows[at:end])
                await self._followed(release, {one for row in rows[at:end] for one in row.after})
            now_us = wall_us()
            payloads = [
                seal(row.topic, row.body, time_us=now_us, headers=row.headers, mark=(mark, number))
                for number, row in enumerate(rows[at:end], release.done)
            ]
            runs, promise = node.publish_payloads(payloads, 1, sum(map(len, payloads)), make_promise)
            count = sum([one for _, _, one in runs])
            if not runs and node.numbering.wait(rows[at].topic, release.wake.set):
                await self._until(release, lambda do: None)
                continue
            if not runs:
                answer = node.publish_payload(payloads[0], 1)
                assert not isinstance(answer, Message)
                promise, count = answer, 1
            assert promise is not None
            at += count
            release.done += count
            pending.append(promise)
            if len(pending) > _RUNS_PENDING_MAX:
                await pending.popleft()
            else:
                await asyncio.sleep(0)
        for promise in pending:
            await promise

    async def _taken(self, release: _Release, rows: list[Row]) -> int:
        """Take the partition of the first row. Returns how many rows, from the first on, this node takes.

        A node that publishes without taking has no marks in its journal to go on from after a crash.
        """
        of, taking = self._node.partitions.of, self._node.taking
        while not (count := len(list(takewhile(lambda row: taking.publishes(of(row.topic)), rows)))):
            taking.wait(of(rows[0].topic), release.wake.set)
            await self._until(release, lambda do: None)
        return count

    async def _followed(self, release: _Release, after: Collection[tuple[int, int]]) -> None:
        """Let what this node publishes next follow these messages, also those that it does not deliver."""
        following = self._node.following
        unknown = following.unknown(after)
        if unknown:
            following.learn(unknown, release.wake.set)
            await self._until(release, lambda do: None)

    def _has(self, after: After) -> bool:
        """Was all of this delivered here, as far as this node takes it?"""
        return self._node.hub.has(self._node.taking.here(after))

    async def _until_delivered(self, release: _Release, after: After) -> None:
        """Return when everything named was delivered, or the release cancelled. Nothing of it is under way."""
        hub, journal = self._node.hub, self._node.journal
        assert journal is not None
        after = self._node.taking.here(after)
        missing = ", ".join(message_name(*one) for one in after if not hub.has((one,)))
        release.waits = f"row {release.done} follows {missing}, not delivered here"
        noted = False
        deadline = asyncio.get_running_loop().time() + _WAIT_S_MAX
        withdraw = hub.when_delivered(after, release.wake.set)
        try:
            while not hub.has(after) and not release.cancelled:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CURSOR_S):  # `wait_for` may swallow a cancellation
                        await release.wake.wait()
                        release.wake.clear()  # else the loop would turn without end if it was set for another reason
                        continue
                # Deliveries meanwhile are not of this release: its marks are not needed once its progress is noted.
                position = hub.position
                if not noted:
                    await journal.sync()
                    await self._do(partial(Staging.note, batch=release.batch, done=release.done, position=position))
                    noted = True
                await journal.set_cursor(_cursor(release.batch.producer), position)
                if asyncio.get_running_loop().time() > deadline:
                    release.cancel(f"{release.waits} within {_WAIT_S_MAX / 3600:g} hours")
        finally:
            withdraw()
            release.wake.clear()
            release.waits = ""

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

        # Messages that were published and not delivered here yet are kept by the protocol alone.
        records = await journal.kept()
        kept = [message for one in records if isinstance(one, Record) for message in one.own_messages]
        return max(_furthest(kept, slot, batch.mark), await asyncio.to_thread(look))

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _until(self, release: _Release, ask: Callable[[Callable[[], None]], None]) -> None:
        """Return when `ask` has called back, or the release was cancelled."""
        ask(release.wake.set)
        await release.wake.wait()
        release.wake.clear()

    def _ran_us(self) -> int:
        assert self._node.journal is not None
        return self._node.journal.running_us()

    async def _do(self, work: Callable[[Staging], T]) -> T:
        if self._closed:
            raise StoppedError("the node is stopping")

        def run() -> T:
            if self._staging is None:
                self._staging = Staging(self._path, sync=self._node.config.durability == "power")
                self._staging.forget(self._ran_us())
            try:
                return work(self._staging)
            except sqlite3.Error as error:
                problem = f"cannot be written ({error})"
                raise JournalError(str(self._path), problem, "see that the disk has room") from None

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)


def _cursor(producer: Producer) -> str:
    """The name of its cursor in the journal: with the owner's, where there is one."""
    return f"{_CURSOR}{producer.owner!r} {producer.name}" if producer.owner else f"{_CURSOR}{producer.name}"


def _furthest(messages: Sequence[Message | LeanMessage], source: int, mark: int) -> int:
    """One more than the highest row number among messages of this mark."""
    furthest = 0
    for message in messages:
        if message.source == source:
            found = mark_of(message.payload)
            if found is not None and found[0] == mark:
                furthest = max(furthest, found[1] + 1)
    return furthest
