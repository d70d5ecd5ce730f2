"""Publish and subscribe through one node, over whatever connection there is at the moment.

What this client has read is its past: it keeps the *immediate predecessors* of what it would publish next
(`core.clocks.Frontier`, by message id) and sends them along. Mostly there are none to send, since its node knows what
it gave out; they matter when the client has moved to another node, which then waits for them.

A publication is acknowledged when it is as safe as was asked. While the connection is down, publications wait for the
next one; those that were under way when it broke fail, and say that they may have arrived.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final

import msgspec

from antecede.client.dialler import Dialler
from antecede.client.feed import Feed
from antecede.client.message import Message, MessageId
from antecede.core import AntecedeError, Frontier, LimitError, ProtocolError, UsageError
from antecede.core.errors import ConnectionLostError, DeniedError, PublishError, StoppedError
from antecede.wire.envelope import seal
from antecede.wire.frames import FrameConnection
from antecede.wire.requests import (
    CREDIT_MAX,
    FILTERS_MAX,
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
from antecede.wire.topics import check_filter

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
        #: By number, of publications under way: the predecessors they cover, of the few that have any.
        self._covered: dict[int, tuple[tuple[int, int], ...]] = {}
        self._feeds: dict[int, Feed] = {}
        #: What this client has read, by its maximal elements.
        self._frontier = Frontier()
        self._bodies: list[bytes] = []
        #: Publications that will travel in one record: their payloads and bytes, the first's number and predecessors,
        #: and what was asked for them.
        self._run: list[bytes] = []
        self._run_bytes = 0
        self._run_number = 0
        self._run_after: tuple[tuple[int, int], ...] = ()
        self._run_level = -1
        self._due = False
        self._ready: asyncio.Future[None] | None = None
        self._room: list[asyncio.Future[None]] = []
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what was published so far, and leave."""
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
    ) -> MessageId:
        """Publish, and return the message's name once it is safe.

        It follows everything this client has read and published; `after` narrows that to the messages named.
        `durability`: "memory" (the node has it), "disk" (its journal has it), "replicated(k)" (so have k other nodes);
        by default as safe as the node is by itself. Raises `PublishError`, whose `may_arrive` says whether the message
        may be delivered all the same.
        """
        while len(self._pending) >= PENDING_MAX and not self._closing:
            waiter = asyncio.get_running_loop().create_future()
            self._room.append(waiter)
            await waiter
        if self._connection is None:
            await self._reconnected()
        return await self.publish_nowait(topic, payload, headers=headers, after=after, durability=durability)

    def publish_nowait(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        after: Iterable[MessageId | Message] | None = None,
        durability: str | None = None,
    ) -> "asyncio.Future[MessageId]":
        """Publish without waiting: the future is what `publish` returns. Order is the order of these calls.

        Raises `LimitError` when `PENDING_MAX` publications are not acknowledged yet: await one of them.
        """
        if self._connection is None:
            raise self._error or PublishError(f"not connected to {self._dialler.where}", may_arrive=False)
        if len(self._pending) >= PENDING_MAX:
            raise LimitError("unacknowledged publications", len(self._pending), PENDING_MAX, "await some of them")
        level = -1 if durability is None else parse_durability(durability)
        predecessors: tuple[tuple[int, int], ...] = () if after is None else _named(after)
        payload = seal(topic, payload, time_us=time.time_ns() // 1000, headers=headers)
        future: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        self._numbers = number = self._numbers + 1
        self._pending[number] = future
        if after is None and self._frontier:
            assert self._info is not None
            predecessors = self._frontier.stamp_for(self._info.node)
            if predecessors:
                self._covered[number] = predecessors
        run = self._run
        if run:
            if (
                not predecessors
                and number == self._run_number + len(run)
                and level == self._run_level
                and self._run_bytes + len(payload) <= _RUN_BYTES
            ):
                run.append(payload)
                self._run_bytes += len(payload)
                return future
            self._end_run()
        self._run = [payload]
        self._run_bytes, self._run_number = len(payload), number
        self._run_after, self._run_level = predecessors, level
        self._touch()
        return future

    def _end_run(self) -> None:
        """What is published next travels in another record."""
        if self._run:
            payloads, self._run = self._run, []
            record = Publish(self._run_number, tuple(payloads), self._run_after, self._run_level)
            self._bodies.append(TO_NODE.encode(record))

    # -- subscribing ---------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        *filters: str,
        since: str | None = None,
        order: Order = "causal",
        policy: Policy = "block",
        queue: int = QUEUE_MESSAGES,
    ) -> Feed:
        """A feed of the topics that any of `filters` takes (`+` one level, `#` the rest), in one order.

        `since`: a message's cursor, to go on right behind it, or "0" for everything the node still has; by default from
        now. `order`: "causal"; "total" (and all readers in the same order, or `message.out_of_order`; for clusters with
        `overlay = "total"`); "fifo" (a source's messages in order, ahead of what they depend on); "none" (as they
        come). `queue`: messages that may wait here. `policy` is for a reader that lags: "block" (nothing is lost: the
        rest waits in the node's journal), "drop_oldest" (see `Feed.dropped`), "disconnect" (`SlowReaderError`).
        """
        if not filters:
            raise UsageError("filters", filters, "there are none", 'name at least one, or "#" for everything')
        if len(filters) > FILTERS_MAX:
            raise LimitError("filters of one feed", len(filters), FILTERS_MAX, "use wildcards, or several feeds")
        for pattern in filters:
            check_filter(pattern)
        if order not in ("causal", "total", "fifo", "none"):
            raise UsageError("order", order, "is not an order", "use causal, total, fifo or none")
        if policy not in ("block", "drop_oldest", "disconnect"):
            raise UsageError("policy", policy, "is not a policy", "use block, drop_oldest or disconnect")
        if not 1 <= queue <= CREDIT_MAX:
            raise UsageError("queue", queue, "is out of range", f"use 1 … {CREDIT_MAX}")
        self._numbers += 1
        return Feed(self, self._numbers, filters, since=since, order=order, policy=policy, queue=queue)

    async def status(self) -> dict[str, Any]:
        """What the node says of itself: members, positions, counts."""
        if self._connection is None:
            await self._reconnected()
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._numbers += 1
        self._pending[self._numbers] = future
        self._send(Ask(self._numbers, "status"))
        answer: dict[str, Any] = msgspec.json.decode(await future)
        return answer

    @property
    def node(self) -> int:
        """The number of the node this client is, or was last, connected to."""
        return -1 if self._info is None else self._info.node

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
            self._covered.pop(record.number, None)
            if waiting is not None and not waiting.done():
                if isinstance(record, Answer):
                    waiting.set_result(record.body)
                else:
                    waiting.set_exception(_failure(record))
            self._make_room()

    def _welcomed(self, info: Info) -> None:
        self._info = info
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
            if count > len(pending):
                raise ProtocolError(f"{count} publications are acknowledged, {len(pending)} wait for it")
            for number in range(first, first + count):
                future = pending.pop(number, None)
                if future is not None and not future.done():
                    future.set_result(_name(MessageId, (source, seq)))
                seq += 1  # noqa: PLW2901 - counts on with the number
            latest = max(latest, seq - 1)
            if self._covered:
                for number in range(first, first + count):
                    self._covered.pop(number, None)
        self._frontier.read(source, latest)
        if self._room:
            self._make_room()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        waiters, self._room = self._room, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

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

    def _break(self, error: AntecedeError) -> None:
        """Everything under way fails; what it would have covered is our past again."""
        pending, self._pending = self._pending, {}
        covered, self._covered = self._covered, {}
        for past in covered.values():
            self._frontier.put_back(past)
        for future in pending.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever does not await it has been told by the log of its feed
        self._make_room()

    def _end(self, error: AntecedeError | None) -> None:
        """For good."""
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


def parse_durability(durability: str | None) -> int:
    """The level of `records.Publish`."""
    if durability is None:
        return -1
    if durability == "memory":
        return 0
    if durability == "disk":
        return 1
    found = re.fullmatch(r"replicated\((\d{1,4})\)", durability)
    if found is None or int(found[1]) < 1:
        raise UsageError("durability", durability, "is not one", "use memory, disk or replicated(k) with k ≥ 1")
    return 1 + int(found[1])


def _named(after: Iterable[MessageId | Message]) -> tuple[tuple[int, int], ...]:
    named = [one.id if isinstance(one, Message) else one for one in after]
    for one in named:
        if not (isinstance(one, tuple) and len(one) == 2):
            raise UsageError("after", one, "is not a message", 'name messages or their ids: [MessageId.parse("3.17")]')
    return tuple([(source, seq) for source, seq in named])


def _failure(record: Failed) -> AntecedeError:
    if record.kind == "denied":
        return DeniedError(record.text)
    if record.kind == "usage":
        return PublishError(record.text, may_arrive=False)
    return PublishError(record.text, may_arrive=record.uncertain)


__all__ = ["PENDING_MAX", "Bus", "Subscribe", "parse_durability"]
