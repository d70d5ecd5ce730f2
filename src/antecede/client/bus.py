"""Publish and subscribe through one node, over the connection there is at the moment.

The messages a client has read are its past. The bus keeps the *immediate predecessors* of the message it would publish
next (`core.clocks.Frontier`, by message id) and sends them with a publication, except those of the node itself, which
knows what it has published. They matter when the client has moved to another node, which then waits until it has
delivered them.

A publication is acknowledged when it is as safe as was asked, or it fails within its time (`timeout_s`). While the
connection is down, publications wait for the next one. Those under way when it broke fail, and say that they may still
arrive.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from antecede.client.deadlines import Deadlines
from antecede.client.dialler import Dialler
from antecede.client.feed import Feed
from antecede.client.message import Message, MessageId
from antecede.client.options import PUBLISH_TIMEOUT_S, check_subscription, checked_timeout, named, parse_durability
from antecede.client.past import Past
from antecede.client.pending import PENDING_BYTES_MAX, PendingBytes
from antecede.core import AntecedeError, LimitError, ProtocolError, UsageError
from antecede.core.errors import ConnectionLostError, DeniedError, PublishError, StoppedError
from antecede.core.partitions import split_stream
from antecede.wire.envelope import seal
from antecede.wire.frames import FrameConnection
from antecede.wire.requests import (
    TO_CLIENT,
    TO_NODE,
    Acks,
    Answer,
    Ask,
    Begun,
    Ended,
    Failed,
    FromClient,
    FromNode,
    Info,
    Items,
    Order,
    Policy,
    Publish,
    Subscribe,
    Unsubscribe,
)
from antecede.wire.waiters import Waiters

#: Publications that wait for their acknowledgement. `publish` waits beyond it, `publish_nowait` refuses.
PENDING_MAX: Final = 8192

#: Makes a `MessageId` as the class itself does, without its detour through Python.
_name: Final[Callable[[type[MessageId], tuple[int, int]], MessageId]] = tuple.__new__

#: Payload bytes of publications that share a record: a frame holds about as much (`codec.FRAME_BYTES_FULL`).
_RUN_BYTES: Final = 60 * 1024

#: Messages that wait in a feed, unless it was asked for more or fewer.
QUEUE_MESSAGES: Final = 1024


class Bus:
    """A connection to a cluster, as an application uses it. Made by `antecede.connect`; `async with` opens it."""

    def __init__(self, dialler: Dialler) -> None:
        self._dialler = dialler
        self._info: Info | None = None
        self._connection: FrameConnection | None = None
        self._numbers = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._pending_bytes = PendingBytes()
        #: By number, of publications under way: the part of the client's past that they cover.
        self._covered: dict[int, tuple[tuple[int, int], ...]] = {}
        self._feeds: dict[int, Feed] = {}
        #: The client's past: the predecessors of the message it would publish next.
        self._frontier = Past()
        self._bodies: list[bytes] = []
        #: A run: publications that will travel in one record. Their payloads and bytes, the number and predecessors of
        #: the first, and the options they share.
        self._run: list[bytes] = []
        self._run_bytes = 0
        self._run_number = 0
        self._run_after: tuple[tuple[int, int], ...] = ()
        self._run_level = -1
        self._run_timeout_s = 0.0
        self._run_past = False
        self._deadlines = Deadlines(self._pending.__contains__, self._expire)
        self._due = False
        self._ready: asyncio.Future[None] | None = None
        self._room = Waiters()
        self._redialling: asyncio.Task[None] | None = None
        self._error: AntecedeError | None = None
        self._closing = False

    async def __aenter__(self) -> "Bus":
        if self._ready is not None:
            raise UsageError("bus", self._dialler.where, "is open already", "connect again for another one")
        self._ready = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await self._dialler.dial(self)
            async with asyncio.timeout(self._dialler.timeout_s):
                await asyncio.shield(self._ready)
        except TimeoutError:
            self._end(None)
            raise ConnectionLostError(f"{self._dialler.where} welcomed us and then said nothing") from None
        except BaseException:
            self._end(None)
            await self._dialler.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send the publications so far, and close the connection."""
        self._flush()
        self._end(None)
        await self._dialler.close()

    # -- publishing ----------------------------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        after: Iterable[MessageId | Message] | None = None,
        durability: str | None = None,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> MessageId:
        """Publish, and return the message's id once it is safe.

        It follows everything this client has read and published; `after` narrows that to the messages named.
        `durability`: "memory" (the node has it), "disk" (its journal has it), "replicated(k)" (so have k other nodes);
        by default as safe as the node is by itself. Raises `PublishError` when that is not so within `timeout_s`: it
        says why, and its `may_arrive` whether the message may be delivered all the same.
        """
        if self._connection is None or self._full:
            deadline = asyncio.get_running_loop().time() + checked_timeout(timeout_s)
            await self._until_ready(timeout_s)
            timeout_s = max(0.001, deadline - asyncio.get_running_loop().time())
        return await self.publish_nowait(
            topic, payload, headers=headers, after=after, durability=durability, timeout_s=timeout_s
        )

    async def _until_ready(self, timeout_s: float) -> None:
        """Return when there is a connection, and room for a publication."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._full and not self._closing:
                    await self._room.wait()
                if self._connection is None:
                    await self._reconnected()
        except TimeoutError:
            pending = f"{len(self._pending)} earlier publications were not acknowledged"
            why = "there was no connection" if self._connection is None else pending
            raise PublishError(f"{self._dialler.where}: {why} for {timeout_s:g} s", may_arrive=False) from None

    def publish_nowait(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        after: Iterable[MessageId | Message] | None = None,
        durability: str | None = None,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> "asyncio.Future[MessageId]":
        """Publish without waiting: the future is what `publish` returns. Messages have the order of these calls.

        Raises `LimitError` when `PENDING_MAX` publications, or `PENDING_BYTES_MAX` bytes of larger ones, are not
        acknowledged yet: await one of them.
        """
        if self._connection is None:
            raise self._error or PublishError(f"not connected to {self._dialler.where}", may_arrive=False)
        if len(self._pending) >= PENDING_MAX:
            raise LimitError("unacknowledged publications", len(self._pending), PENDING_MAX, "await some of them")
        if (held := self._pending_bytes).full:
            what = "unacknowledged publications in bytes"
            raise LimitError(what, held.used, PENDING_BYTES_MAX, "await some of them")
        level = -1 if durability is None else parse_durability(durability)
        predecessors: tuple[tuple[int, int], ...] = () if after is None else named(after)
        if timeout_s != PUBLISH_TIMEOUT_S:
            checked_timeout(timeout_s)
        payload = seal(topic, payload, time_us=time.time_ns() // 1000, headers=headers)
        future: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        self._numbers = number = self._numbers + 1
        self._pending[number] = future
        self._pending_bytes.add(number, len(payload))
        if after is None and self._frontier:
            assert self._info is not None
            node = self._info.node
            past = self._covered[number] = self._frontier.stamp()
            predecessors = tuple([one for one in past if split_stream(one[0])[1] != node])
        run = self._run
        if run:
            if (
                not predecessors
                and number == self._run_number + len(run)
                and level == self._run_level
                and timeout_s == self._run_timeout_s
                and self._run_bytes + len(payload) <= _RUN_BYTES
            ):
                run.append(payload)
                self._run_bytes += len(payload)
                return future
            self._end_run()
        self._run = [payload]
        self._run_bytes, self._run_number = len(payload), number
        self._run_after, self._run_level = predecessors, level
        self._run_timeout_s, self._run_past = timeout_s, after is None
        self._touch()
        return future

    def _end_run(self) -> None:
        """End the run: the next publication travels in another record."""
        if self._run:
            payloads, self._run = self._run, []
            number, timeout_s = self._run_number, self._run_timeout_s
            timeout_ms = 0 if timeout_s == PUBLISH_TIMEOUT_S else max(1, round(timeout_s * 1000))
            record = Publish(number, tuple(payloads), self._run_after, self._run_level, timeout_ms, self._run_past)
            self._bodies.append(TO_NODE.encode(record))
            self._deadlines.add(number, len(payloads), timeout_s)

    # -- subscribing ---------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        *filters: str,
        since: str | None = None,
        order: Order = "causal",
        policy: Policy = "block",
        queue: int = QUEUE_MESSAGES,
        over_gaps: bool = False,
    ) -> Feed:
        """A feed of the topics that any of `filters` takes: `+` stands for one level, `#` for the rest.

        `since`: a message's cursor, to go on right behind it, at its node or at another; "0" for everything that the
        node still has; by default from now on. `order`: "causal"; "total" (all readers read the same order, except
        messages marked `out_of_order`; for clusters with `protocol = "total"`); "fifo" (messages of one source in
        order, ahead of what they depend on); "none" (as they come). `queue`: messages that may wait here. `policy` is
        for a reader that lags: "block" (nothing is lost: the rest waits in the node's journal), "drop_oldest" (see
        `Feed.dropped`), "disconnect" (`SlowReaderError`).

        A node that was away for longer than any node keeps messages never delivers some. The feed ends there with
        `GapError`; opened again with `over_gaps=True` it reads on behind them.
        """
        check_subscription(filters, order, policy, queue)
        self._numbers += 1
        return Feed(
            self, self._numbers, filters, since=since, order=order, policy=policy, queue=queue, over_gaps=over_gaps
        )

    async def status(self, *, timeout_s: float = PUBLISH_TIMEOUT_S) -> dict[str, Any]:
        """What the node says of itself: members, positions, counts. Raises `ConnectionLostError` if it does not."""
        return await self._ask("status", timeout_s)

    async def forget(self, name: str, *, timeout_s: float = PUBLISH_TIMEOUT_S) -> str:
        """Tell the cluster that the node called `name` is gone for good; return what was done, in words."""
        return str((await self._ask(f"forget {name}", timeout_s))["done"])

    async def _ask(self, what: str, timeout_s: float) -> dict[str, Any]:
        self._numbers += 1
        number = self._numbers
        try:
            async with asyncio.timeout(timeout_s):
                if self._connection is None:
                    await self._reconnected()
                future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                self._pending[number] = future
                self._send(Ask(number, what))
                return dict(msgspec.json.decode(await future))
        except TimeoutError:
            raise ConnectionLostError(f"{self._dialler.where} did not answer within {timeout_s:g} s") from None
        finally:
            self._pending.pop(number, None)

    @property
    def node(self) -> int:
        """The number of the node this client is, or was last, connected to."""
        return -1 if self._info is None else self._info.node

    @property
    def opening_s(self) -> float:
        """How long opening a feed may take: the time to find a node, and its time to answer."""
        return self._dialler.patience_s + self._dialler.timeout_s

    # -- what feeds ask ------------------------------------------------------------------------------------------------

    async def _open_feed(self, number: int, feed: Feed) -> None:
        if self._connection is None:
            await self._reconnected()
        assert self._info is not None
        self._feeds[number] = feed
        self._send(feed._connected(self._info))

    def _close_feed(self, number: int, goodbye: Unsubscribe | None) -> None:
        if self._feeds.pop(number, None) is not None and goodbye is not None and self._connection is not None:
            self._send(goodbye)

    def _credit(self, record: FromClient) -> None:
        if self._connection is not None:
            self._send(record)

    # -- the connection's owner ----------------------------------------------------------------------------------------

    def adopt(self, connection: FrameConnection) -> "Bus":
        self._connection = connection
        return self

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for record in TO_CLIENT.decode(body):
            if isinstance(record, Items):
                feed = self._feeds.get(record.feed)
                if feed is not None:
                    feed._take(record)
            elif isinstance(record, Acks):
                self._acknowledged(record)
            else:
                self._told(record)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._error = ConnectionLostError(f"{self._dialler.where} sent what is not a message ({error})")

    def writable(self, connection: FrameConnection) -> None:
        self._flush()

    def closed(self, connection: FrameConnection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._bodies.clear()
        self._run = []
        self._break(PublishError("the connection broke before the acknowledgement came", may_arrive=True))
        if not self._closing and self._ready is not None:
            if not self._ready.done():
                self._ready.set_exception(ConnectionLostError(f"{self._dialler.where} closed the connection"))
                return
            self._ready = asyncio.get_running_loop().create_future()
            self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._redialling = asyncio.get_running_loop().create_task(self._redial())

    async def _redial(self) -> None:
        try:
            await self._dialler.redial(self)
        except AntecedeError as error:
            self._end(self._error or error)
        except Exception as error:  # no one awaits this task: without an end, feeds and publications would wait
            self._end(ConnectionLostError(f"dialling {self._dialler.where} failed ({type(error).__name__}: {error})"))
            raise

    def _told(self, record: FromNode) -> None:
        if isinstance(record, Info):
            self._welcomed(record)
        elif isinstance(record, Begun | Ended):
            feed = self._feeds.get(record.feed)
            if feed is not None:
                if isinstance(record, Begun):
                    feed._begin(record)
                else:
                    feed._end(record)
        elif isinstance(record, Answer | Failed):
            waiting = self._pending.pop(record.number, None)
            self._put_back(record.number)
            self._pending_bytes.forget(record.number)
            if waiting is not None and not waiting.done():
                if isinstance(record, Answer):
                    waiting.set_result(record.body)
                else:
                    waiting.set_exception(_failure(record))
            self._room.release()

    def _welcomed(self, info: Info) -> None:
        self._info = info
        self._frontier.tell_again()
        self._dialler.others = info.others
        assert self._ready is not None
        for feed in list(self._feeds.values()):
            try:
                self._send(feed._connected(info))
            except AntecedeError as error:
                feed._fail(error)
        if not self._ready.done():
            self._ready.set_result(None)

    def _acknowledged(self, record: Acks) -> None:
        source = record.source
        pending = self._pending
        latest = 0
        for first, seq, count in record.runs:
            if first + count - 1 > self._numbers:
                raise ProtocolError(f"{first} … {first + count - 1} are acknowledged, the last was {self._numbers}")
            for number in range(first, first + count):
                future = pending.pop(number, None)
                if future is not None and not future.done():
                    future.set_result(_name(MessageId, (source, seq)))
                seq += 1  # noqa: PLW2901 - counts on with the number
            latest = max(latest, seq - 1)
            self._pending_bytes.forget(first, count)
            if self._covered:  # few publications cover anything
                for number in [number for number in self._covered if first <= number < first + count]:
                    self._frontier.published(source, self._covered.pop(number))
        self._frontier.read(source, latest)
        self._room.release()

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _full(self) -> bool:
        """Must the next publication wait for the acknowledgement of others?"""
        return len(self._pending) >= PENDING_MAX or self._pending_bytes.full

    def _send(self, record: FromClient) -> None:
        self._end_run()
        self._bodies.append(TO_NODE.encode(record))
        self._touch()

    def _touch(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        connection = self._connection
        self._end_run()
        if self._bodies and connection is not None and connection.can_write:
            bodies, self._bodies = self._bodies, []
            connection.write(TO_NODE.frames(bodies))

    async def _reconnected(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ready is None or self._closing:
            raise UsageError("bus", self._dialler.where, "is not open", "use it inside `async with`")
        await asyncio.shield(self._ready)

    def _put_back(self, number: int) -> None:
        """A publication failed: the past that it would have covered is uncovered again."""
        past = self._covered.pop(number, None)
        if past is not None:
            self._frontier.put_back(past)

    def _expire(self, number: int, timeout_s: float) -> None:
        """The node has not answered in time, neither yes nor no."""
        future = self._pending.pop(number)
        self._put_back(number)
        self._pending_bytes.forget(number)
        if not future.done():
            problem = f"{self._dialler.where} did not answer within {timeout_s:g} s"
            future.set_exception(PublishError(problem, may_arrive=True))
            future.exception()
        self._room.release()

    def _break(self, error: AntecedeError) -> None:
        """Everything under way fails; the past that it would have covered is uncovered again."""
        for number in list(self._covered):
            self._put_back(number)
        self._deadlines.clear()
        pending = list(self._pending.values())
        self._pending.clear()
        self._pending_bytes.clear()
        for future in pending:
            if not future.done():
                future.set_exception(error)
                future.exception()  # marked as seen: a caller need not await it
        self._room.release()

    def _end(self, error: AntecedeError | None) -> None:
        """Close for good."""
        self._closing = True
        self._error = error or StoppedError(f"this connection to {self._dialler.where} is closed")
        if self._redialling is not None and self._redialling is not asyncio.current_task():
            self._redialling.cancel()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(self._error)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._break(PublishError("the connection was closed before the acknowledgement came", may_arrive=True))
        for feed in list(self._feeds.values()):
            feed._fail(self._error)


def _failure(record: Failed) -> AntecedeError:
    if record.kind == "denied":
        return DeniedError(record.text)
    if record.kind == "refused":
        return AntecedeError(record.text)
    return PublishError(record.text, may_arrive=record.uncertain)


__all__ = ["PENDING_MAX", "Bus", "Subscribe", "parse_durability"]
