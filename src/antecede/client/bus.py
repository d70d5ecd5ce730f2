"""Publish and subscribe through one node, over the connection there is at the moment.

A publication is acknowledged when it is as safe as was asked, or it fails within its time (`timeout_s`). While the
connection is down, publications wait for the next one. Those under way when it broke fail, and say that they may still
arrive (`publications`).
"""

import asyncio
from typing import Any

import msgspec

from antecede.client.base import BaseBus
from antecede.client.dialler import Dialler
from antecede.client.feed import Feed
from antecede.client.options import PUBLISH_TIMEOUT_S, Subscription
from antecede.client.past import Past
from antecede.client.publications import Publications
from antecede.core import AntecedeError, ProtocolError, UsageError
from antecede.core.errors import ConnectionLostError, DeniedError, PublishError, StoppedError
from antecede.wire.frames import FrameConnection
from antecede.wire.once import OncePerTurn
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
    Unsubscribe,
)


class Bus(BaseBus[Feed]):
    """A connection to a cluster, as an application uses it. Made by `antecede.connect`; `async with` opens it."""

    def __init__(self, dialler: Dialler) -> None:
        self._dialler = dialler
        self._info: Info | None = None
        self._connection: FrameConnection | None = None
        self._feeds: dict[int, Feed] = {}
        self._questions: dict[int, asyncio.Future[bytes]] = {}
        #: The client's past: the predecessors of the message it would publish next.
        self._frontier = Past()
        self._bodies: list[bytes] = []
        self._flush_later = OncePerTurn(self._flush)
        self._publications = Publications(dialler.where, self._frontier, self._bodies, self._flush_later, self._flush)
        self._submit = self._publications.submit
        self._ready: asyncio.Future[None] | None = None
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

    # -- what the calls of every bus ask -------------------------------------------------------------------------------

    def _must_wait(self) -> bool:
        return self._connection is None or self._publications.full

    async def _until_ready(self, timeout_s: float) -> None:
        publications = self._publications
        try:
            async with asyncio.timeout(timeout_s):
                while publications.full and not self._closing:
                    await publications.room.wait()
                if self._connection is None:
                    await self._reconnected()
        except TimeoutError:
            pending = f"{len(publications)} earlier publications were not acknowledged"
            why = "there was no connection" if self._connection is None else pending
            raise PublishError(f"{self._dialler.where}: {why} for {timeout_s:g} s", may_arrive=False) from None

    def _feed(self, wanted: Subscription) -> Feed:
        return Feed(self, self._publications.number(), wanted)

    # -- questions -----------------------------------------------------------------------------------------------------

    async def status(self, *, timeout_s: float = PUBLISH_TIMEOUT_S) -> dict[str, Any]:
        """What the node says of itself: members, positions, counts. Raises `ConnectionLostError` if it does not."""
        return await self._ask("status", timeout_s)

    async def forget(self, name: str, *, timeout_s: float = PUBLISH_TIMEOUT_S) -> str:
        """Tell the cluster that the node called `name` is gone for good; return what was done, in words."""
        return str((await self._ask(f"forget {name}", timeout_s))["done"])

    async def _ask(self, what: str, timeout_s: float) -> dict[str, Any]:
        number = self._publications.number()
        try:
            async with asyncio.timeout(timeout_s):
                if self._connection is None:
                    await self._reconnected()
                future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                self._questions[number] = future
                self._send(Ask(number, what))
                return dict(msgspec.json.decode(await future))
        except TimeoutError:
            raise ConnectionLostError(f"{self._dialler.where} did not answer within {timeout_s:g} s") from None
        finally:
            self._questions.pop(number, None)

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
        self._publications.connected = True
        return self

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for record in TO_CLIENT.decode(body):
            if isinstance(record, Items):
                feed = self._feeds.get(record.feed)
                if feed is not None:
                    feed._take(record)
            elif isinstance(record, Acks):
                self._publications.acknowledged(record)
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
        self._break("the connection broke before the acknowledgement came")
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
            question = self._questions.pop(record.number, None)
            if isinstance(record, Failed):
                self._failed(question, record)
            elif question is not None and not question.done():
                question.set_result(record.body)

    def _failed(self, question: "asyncio.Future[bytes] | None", record: Failed) -> None:
        if question is None:
            self._publications.failed(record.number, _failure(record))
        elif not question.done():
            question.set_exception(_failure(record))

    def _welcomed(self, info: Info) -> None:
        self._info = info
        self._publications.node = info.node
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

    # -- inside --------------------------------------------------------------------------------------------------------

    def _send(self, record: FromClient) -> None:
        self._publications.end_run()
        self._bodies.append(TO_NODE.encode(record))
        self._flush_later()

    def _flush(self) -> None:
        connection = self._connection
        self._publications.end_run()
        if self._bodies and connection is not None and connection.can_write:
            bodies = self._bodies.copy()
            self._bodies.clear()
            connection.write(TO_NODE.frames(bodies))

    async def _reconnected(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ready is None or self._closing:
            raise UsageError("bus", self._dialler.where, "is not open", "use it inside `async with`")
        await asyncio.shield(self._ready)

    def _break(self, problem: str) -> None:
        """Everything under way fails."""
        error = PublishError(problem, may_arrive=True)
        self._publications.connected = False
        self._publications.error = self._error
        self._publications.break_off(error)
        for question in self._questions.values():
            if not question.done():
                question.set_exception(error)
        self._questions.clear()

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
        self._break("the connection was closed before the acknowledgement came")
        for feed in list(self._feeds.values()):
            feed._fail(self._error)


def _failure(record: Failed) -> AntecedeError:
    if record.kind == "denied":
        return DeniedError(record.text)
    if record.kind == "refused":
        return AntecedeError(record.text)
    return PublishError(record.text, may_arrive=record.uncertain)
