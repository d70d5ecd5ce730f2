"""The driver runs a process over a transport, with real time and real packets. It takes no protocol decision.

Inputs (packets, timers, publications, subscriptions, suspicions) go into the process as they come. The process puts
what it wants done into its outbox. At the end of the event loop's turn the driver carries the outbox out as one
*batch*, in the order of the contract (`core.process`): **keep, send, deliver and report changes, arm timers**.

With a journal, the driver first commits the batch with its deliveries and changes in one transaction. Only then are its
packets sent and its messages delivered, so a crash forgets only what no other node and no client has seen. A slow
commit runs off the event loop; inputs meanwhile gather in the next batch. One commit is under way at a time, so batches
grow as large as the disk is slow.

An exception in the process, the journal or the application stops the node: nothing further is sent or delivered, the
error is logged, and `stopped` carries it. A `ProtocolError` is a peer's fault: its packet is refused, the transport is
told, and the node goes on.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Literal, ParamSpec, TypeVar

from antecede.core import AntecedeError, Message, Packet, Process, ProtocolError
from antecede.core.errors import JournalError, StoppedError
from antecede.core.process import Change, LookUp
from antecede.journal.batch import Batch, Log, Run
from antecede.journal.clock import wall_us
from antecede.node.hold_times import HoldTimes
from antecede.node.promises import Promise, Promises
from antecede.node.timers import Timers
from antecede.wire.transport import Transport

log = logging.getLogger("antecede.node")

P = ParamSpec("P")
R = TypeVar("R")


class Driver:
    """One node: a process, a transport, and perhaps a journal."""

    def __init__(
        self,
        process: Process,
        transport: Transport,
        application: Callable[[Batch], None],
        *,
        journal: Log | None = None,
        on_link: Callable[[int, int | None], None] | None = None,
        wall_us: Callable[[], int] = wall_us,
    ) -> None:
        """`application` is called with every batch that delivers or changes something. Positions go on from the
        journal's. `on_link` is called with a peer and its incarnation when a link comes up, and None when it goes down.
        """
        self.process = process
        self.transport = transport
        #: Done when the node stops: with None by `close`, with the error that stopped it otherwise.
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stopped.add_done_callback(_retrieve)
        #: The position of the last delivery given to the application.
        self.position = 0 if journal is None else journal.position
        self._taken = self.position
        self._application = application
        self._journal = journal
        self._on_link = on_link
        self._loop = asyncio.get_running_loop()
        self._wall_us = wall_us
        self._prepared = False
        self._running = False
        self._due = False
        self._committing = False
        # A journal may be done before `append` returns; inputs that came in meanwhile are the next batch.
        self._appending = False
        self._batches = 0
        # Bytes published since the last batch was made, and of the batch that is being committed.
        self._gathered_bytes = 0
        self._committing_bytes = 0
        # Publications that the process stamped at once; the outbox does not report them.
        self._published: list[Run] = []
        self._timers = Timers(lambda timer: self._input(self.process.wake, timer))
        self._promises = Promises()
        self._tasks: set[asyncio.Task[None]] = set()
        self._hold_times = HoldTimes()
        # Futures that are done when a batch was carried out, with its number.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    # -- inputs ------------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Restore the kept records and start the process. Raises what the process raises.

        Nothing that it wants done is carried out before `start`, which does this unless it was done before.
        """
        self._prepared = True
        self._start_process([] if self._journal is None else await self._journal.kept())

    async def start(self) -> None:
        """Restore the kept records, start the process, then the transport. Raises what the process raises."""
        if not self._prepared:
            await self.prepare()
        self._running = True
        self._touch()
        await self.transport.start(self)

    def _start_process(self, kept: Sequence[object]) -> None:
        if kept:
            self.process.restore(kept)
        self.process.start()

    def publish(
        self, topic: str, payload: bytes, promise: "asyncio.Future[Message] | None" = None, *, sync: bool = False
    ) -> Message | None:
        """Publish without waiting. Returns None if the process stamps the message later (`Process.publish`).

        `promise` is done when the message is in the journal (if there is one) and on its way. With `sync` that commit
        reaches the disk itself, so the message survives a power failure. If `promise` fails with `StoppedError`, the
        message may or may not have left the node.
        """
        self._check_running()
        out = self.process.out
        after, before = len(out.deliveries), len(out.changes)
        message = self._ask(self.process.publish, topic, payload)
        self._gathered_bytes += len(payload)
        self._promises.wait(topic, payload, message, promise, sync)
        if message is not None:
            if len(out.deliveries) > after and out.deliveries[after] is message:
                self._published.append(Run(before, after, 1))
            else:
                out.changes.insert(before, Change(after, "publish", topic, message))
        return message

    def publish_run(
        self,
        topic: str,
        payloads: Sequence[bytes],
        promise: Promise | None = None,
        *,
        size: int = 0,
    ) -> list[Message]:
        """Publish as many of `payloads`, from the first on, as the process stamps at once; return the messages.

        `promise` is done when all of them are safe. It is left alone when none was stamped. `size`: their bytes.
        """
        self._check_running()
        out = self.process.out
        after, before = len(out.deliveries), len(out.changes)
        messages = self._ask(self.process.publish_run, topic, payloads)
        if messages:
            self._gathered_bytes += size
            self._promises.wait(topic, b"", messages[-1], promise, False)
            self._published.append(Run(before, after, len(messages)))
        return messages

    def publish_durably(self, topic: str, payload: bytes, *, sync: bool = False) -> "asyncio.Future[Message]":
        """`publish`, with a promise that this makes and returns."""
        future: asyncio.Future[Message] = self._loop.create_future()
        self.publish(topic, payload, future, sync=sync)
        return future

    @property
    def uncommitted_bytes(self) -> int:
        """Payloads that were published here and are not in the journal yet."""
        return self._gathered_bytes + self._committing_bytes

    def subscribe(self, topic: str) -> None:
        self._change("subscribe", topic)

    def unsubscribe(self, topic: str) -> None:
        self._change("unsubscribe", topic)

    def peer_down(self, node: int) -> None:
        self._input(self.process.peer_down, node)

    def peer_up(self, node: int) -> None:
        self._input(self.process.peer_up, node)

    def forget(self, node: int, epoch: int) -> None:
        self._input(self.process.forget, node, epoch)

    def vacate(self, node: int) -> None:
        self._input(self.process.vacate, node)

    async def settled(self) -> None:
        """Return when everything the process has decided so far was kept, sent and delivered."""
        if self._running and (self._due or self._committing):
            waiter = self._loop.create_future()
            self._waiters.append((self._batches + self._due, waiter))  # the batch under way, or the one that gathers
            await waiter

    async def close(self) -> None:
        """Carry out what is under way, close the links, stop."""
        await self.settled()
        self._halt(None)
        await self.transport.close()

    def abort(self) -> None:
        """Stop as a crash would: decisions that were not committed are forgotten."""
        self._halt(None)
        self.transport.abort()

    # -- what the transport tells ------------------------------------------------------------------------------------

    def received(self, sender: int, packets: list[Packet]) -> None:
        if not self._running:
            return
        self._touch()
        receive = self.process.receive
        try:
            for packet in packets:
                receive(sender, packet)
        except ProtocolError:
            raise
        except Exception as error:
            self._fail(error)
        else:
            if self.process.held:
                self._hold_times.note(packets, self._loop.time())

    def link_up(self, node: int, incarnation: int) -> None:
        if self._on_link is not None and self._running:
            self._on_link(node, incarnation)

    def link_down(self, node: int) -> None:
        if self._on_link is not None and self._running:
            self._on_link(node, None)

    # -- batches -----------------------------------------------------------------------------------------------------

    def _touch(self) -> None:
        """An input came in: carry the outbox out at the end of this turn."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._committing or not self._due or not self._running:
            return  # the outbox goes with the next batch, or went with the last
        self._due = False
        batch = self._take()
        if self._journal is None or not (batch.kept or batch.deliveries or batch.changes or batch.runs):
            self._release(batch)
            return
        self._committing = self._appending = True
        self._journal.append(batch, lambda error: self._committed(batch, error), sync=batch.sync)
        self._appending = False

    def _committed(self, batch: Batch, error: Exception | None) -> None:
        self._committing = False
        if not self._running:
            return
        if error is not None:
            self._fail(error)
            return
        self._release(batch)
        if self._due and not self._appending:
            self._flush()

    def _take(self) -> Batch:
        """Take the outbox as a batch. Its lists are emptied, not replaced: parts of a process may share them."""
        out = self.process.out
        now = self._loop.time()
        self._batches += 1
        batch = Batch(
            number=self._batches,
            sync=self._promises.take(out.changes),
            first=self._taken + 1,
            time_us=self._wall_us(),
            kept=out.kept.copy(),
            sends=out.sends.copy(),
            deliveries=out.deliveries.copy(),
            out_of_order=out.out_of_order.copy(),
            changes=out.changes.copy(),
            runs=self._published,
            timers=out.timers.copy(),
            look_ups=out.look_ups.copy(),
            held_us=self._hold_times.hold_times_us(out.deliveries, now, any_held=self.process.held > 0),
        )
        out.clear()
        self._committing_bytes, self._gathered_bytes = self._gathered_bytes, 0
        self._published = []
        self._taken += len(batch.deliveries)
        return batch

    def _release(self, batch: Batch) -> None:
        """Send, then deliver and report changes, then arm timers."""
        self._committing_bytes = 0
        try:
            if batch.sends:
                send = self.transport.send
                for to, packet in batch.sends:
                    send(to, packet)
                self.transport.flush()
            self.position += len(batch.deliveries)
            if batch.deliveries or batch.changes:
                self._application(batch)
            if batch.timers:
                self._timers.arm(batch.timers)
            for look_up in batch.look_ups:
                self._task(self._look_up(look_up))
        except Exception as error:
            self._fail(error)
            return
        self._promises.keep()
        while self._waiters and self._waiters[0][0] <= batch.number:
            waiter = self._waiters.pop(0)[1]
            if not waiter.done():
                waiter.set_result(None)

    async def _look_up(self, asked: LookUp) -> None:
        """Read the journal for the process, beside everything else."""
        topic, source, first, last, bytes_max = asked
        messages: list[Message] = []
        if self._journal is not None:
            try:
                messages = await self._journal.messages(topic, source, first, last, bytes_max=bytes_max)
            except JournalError as error:  # the node goes on: another may have them
                log.error("node %d cannot read messages back: %s", self.process.node, error)
            except StoppedError:
                return
        self._input(self.process.found, topic, source, first, last, messages)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _task(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _change(self, what: Literal["subscribe", "unsubscribe"], topic: str) -> None:
        self._check_running()
        self._ask(getattr(self.process, what), topic)
        out = self.process.out
        if not self.process.reports_membership:
            out.changes.append(Change(len(out.deliveries), what, topic))

    def _ask(self, do: Callable[P, R], *what: P.args, **more: P.kwargs) -> R:
        """Give the process an input with an answer. An `AntecedeError` goes to the caller; nothing was done then."""
        self._touch()
        try:
            return do(*what, **more)
        except AntecedeError:
            raise
        except Exception as error:
            self._fail(error)
            raise

    def _input(self, say: Callable[..., None], *what: object) -> None:
        if self._running:
            self._touch()
            try:
                say(*what)
            except Exception as error:
                self._fail(error)

    def _check_running(self) -> None:
        if not self._running:
            raise StoppedError(f"node {self.process.node} is not running: start it first, or see why it stopped")

    def _fail(self, error: Exception) -> None:
        log.critical("node %d stops: %s", self.process.node, error, exc_info=error)
        self._halt(error)
        self.transport.abort()

    def _halt(self, error: Exception | None) -> None:
        if not self._running:
            return
        self._running = False
        self._timers.stop()
        for task in self._tasks:
            task.cancel()
        self._promises.break_all(f"node {self.process.node} stopped before this was known to be safe")
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(StoppedError(f"node {self.process.node} stopped"))
        if error is None:
            self.stopped.set_result(None)
        else:
            self.stopped.set_exception(error)


def _retrieve(future: "asyncio.Future[None]") -> None:
    """Mark the error as seen: it was logged, and no caller need ask for it."""
    _ = future.cancelled() or future.exception()
