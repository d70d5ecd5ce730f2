"""Answers other nodes that ask for the past of a partition. Each question is answered in a task of its own."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from antecede.core import LimitError, ProtocolError
from antecede.core.errors import JournalError, RefusedError, StoppedError
from antecede.node.past.records import SPEAKS, TO_CALLER, TO_NODE
from antecede.protocols.homes.records import PAGE_BYTES, Answer, AskHome, Question, StreamPage
from antecede.wire.codec import Hello
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Questions of one connection that may be under way. A node asks for a page of each stream at the most.
_UNDER_WAY_MAX: Final = 4096


class PastService:
    """Answers the questions of other nodes."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._answering: set[asyncio.Task[None]] = set()

    def judge(self, connection: FrameConnection, hello: Hello) -> Callable[[], Owner]:
        if hello.speaks != SPEAKS:
            raise RefusedError(connection.host, Reason.PACKETS, f"we speak {SPEAKS}")
        if self._node.credentials.tls is not None and not self._is_node(connection):
            raise RefusedError(connection.host, Reason.UNTRUSTED, "only a node of this cluster may read the past")
        return lambda: self

    def _is_node(self, connection: FrameConnection) -> bool:
        from antecede.wire.security.tls import holder  # noqa: PLC0415 - cryptography is slow to load

        shown = holder(connection.certificate())
        return shown is not None and shown.role == "node"

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for question in TO_NODE.decode(body):
            if self._node.partitions.number(question.name) < 0:
                raise ProtocolError(f"there is no partition {question.name!r}")
            if len(self._answering) >= _UNDER_WAY_MAX:
                raise ProtocolError(f"more than {_UNDER_WAY_MAX} questions are under way")
            task = asyncio.get_running_loop().create_task(self._respond(connection, question))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _respond(self, connection: FrameConnection, question: Question) -> None:
        try:
            connection.write(_frame(await self.answer(question)))
        except (JournalError, StoppedError) as error:  # the other node asks elsewhere
            log.error("node %d cannot read the past for another one: %s", self._node.slot, error)
            connection.close()

    async def answer(self, question: Question) -> Answer:
        """What this node has of a stream, or of a partition."""
        node = self._node
        if isinstance(question, AskHome):
            return node.homes.state(question)
        stream = node.partitions.stream(question.name, question.source)
        delivered = node.hub.delivered.get(stream, 0)
        last = min(question.last, delivered)
        if last < question.first:
            return StreamPage(question.number, (), question.first - 1, delivered)
        found = await node.hub.history.stretch(
            stream, question.first, last, bytes_max=min(question.bytes_max, PAGE_BYTES)
        )
        return StreamPage(question.number, tuple(found.messages), found.reached, delivered)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._node.refused(connection, Reason.MALFORMED, f"past: {error}")

    def writable(self, connection: FrameConnection) -> None:
        """The caller bounds what it asks for."""

    def closed(self, connection: FrameConnection) -> None:
        """Answers that are under way are dropped by the connection."""


def _frame(page: Answer) -> bytes:
    """The answer as a frame, with fewer messages if those do not fit: their dependencies may be many."""
    while True:
        try:
            return TO_CALLER.frame(page)
        except LimitError:
            messages = page.messages[: len(page.messages) // 2] if isinstance(page, StreamPage) else ()
            if not messages:
                raise
            assert isinstance(page, StreamPage)
            page = StreamPage(page.number, messages, messages[-1].seq, page.delivered)
