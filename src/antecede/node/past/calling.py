"""Asks other nodes for the past of a partition, over a connection to each that is kept while it is used."""

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import ProtocolError
from antecede.core.errors import UnreachableError
from antecede.node.past.records import ANSWER_BYTES_MAX, ROLE, SPEAKS, TO_CALLER, TO_NODE
from antecede.protocols.homes.records import Answer, Question
from antecede.wire.address import split_address
from antecede.wire.codec import Hello, Welcome
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import greet

if TYPE_CHECKING:
    from antecede.node.node import Node

#: How long a connection and an answer may take.
_ANSWER_S: Final = 5.0

#: A connection that was not used for so long is closed.
_IDLE_S: Final = 30.0


class PastCaller:
    """Asks other nodes. Raises `UnreachableError` for those that do not answer, and `RefusedError`."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._lines: dict[int, _Line] = {}
        self._dialling: dict[int, asyncio.Lock] = {}

    async def ask(self, slot: int, question: Question) -> Answer:
        """The answer of the node with this slot."""
        async with self._dialling.setdefault(slot, asyncio.Lock()):
            line = self._lines.get(slot)
            if line is None or not line.open:
                line = self._lines[slot] = await self._dial(slot)
        return await line.ask(question)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    async def _dial(self, slot: int) -> "_Line":
        node = self._node
        member = node.roster.members.get(slot)
        if member is None or not member.address or not node.transport_kind.by_address:
            raise UnreachableError(f"node {slot}", "it has no address")
        tls = node.credentials.tls
        line = _Line(member.address)

        def adopt(connection: FrameConnection, welcome: Welcome) -> Owner:
            if tls is not None:
                tls.check(connection, welcome)
            return line

        hello = Hello(
            cluster=node.config.cluster, speaks=SPEAKS, role=ROLE, name=node.name, agreement=node.protocol.agreement
        )
        line.connection = await greet(
            *split_address(member.address),
            hello,
            adopt,
            tls=None if tls is None else tls.client,
            timeout_s=_ANSWER_S,
            bytes_max=ANSWER_BYTES_MAX,
            key=node.credentials.key,
        )
        return line


class _Line:
    """Owns the connection to one node."""

    def __init__(self, address: str) -> None:
        self.connection: FrameConnection | None = None
        self._address = address
        self._number = 0
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._idle: asyncio.TimerHandle | None = None
        self._over = False

    @property
    def open(self) -> bool:
        return not self._over

    async def ask(self, question: Question) -> Answer:
        connection, loop = self.connection, asyncio.get_running_loop()
        if connection is None or self._over:
            raise UnreachableError(self._address, "it closed the connection")
        self._number += 1
        number = self._number
        answered = self._asked[number] = loop.create_future()
        if self._idle is not None:
            self._idle.cancel()
        connection.write(TO_NODE.frame(msgspec.structs.replace(question, number=number)))
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer: Answer = await answered
                return answer
        except TimeoutError:
            self.close()
            raise UnreachableError(self._address, f"it did not answer within {_ANSWER_S:g} s") from None
        finally:
            self._asked.pop(number, None)
            if self._idle is not None:
                self._idle.cancel()
            self._idle = loop.call_later(_IDLE_S, self._rest)

    def close(self) -> None:
        self._over = True
        if self._idle is not None:
            self._idle.cancel()
        if self.connection is not None:
            self.connection.close()
        self._fail("the connection was closed")

    def _rest(self) -> None:
        if not self._asked:
            self.close()

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for answer in TO_CALLER.decode(body):
            answered = self._asked.get(answer.number)
            if answered is not None and not answered.done():
                answered.set_result(answer)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._fail(str(error))

    def writable(self, connection: FrameConnection) -> None:
        """Questions are small."""

    def closed(self, connection: FrameConnection) -> None:
        self._over = True
        self._fail("it closed the connection")

    def _fail(self, why: str) -> None:
        for answered in self._asked.values():
            if not answered.done():
                answered.set_exception(UnreachableError(self._address, why))
