"""A bulk client, for programs without an event loop: ask a question, and get the answer or an error that says why.

Every question may be asked twice. So a connection that breaks is dialled again, for up to `patience_s`, and the
question is repeated. It is always the same node: positions and batches belong to one node.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from antecede.client.dialler import Dialler
from antecede.core import AntecedeError, ProtocolError, UsageError
from antecede.core.errors import DeniedError, GapError, RefusedError, StoppedError, UnreachableError
from antecede.wire.address import split_address
from antecede.wire.backoff import redial
from antecede.wire.bulk import (
    ANSWER_BYTES_MAX,
    ROLE,
    SPEAKS,
    TO_CALLER,
    TO_NODE,
    Answer,
    Failed,
    Question,
)
from antecede.wire.frames import FrameConnection, Owner

A = TypeVar("A", bound=Answer)
T = TypeVar("T")

#: How long an answer may take. A release has a patience of its own.
_ANSWER_S: Final = 60.0


class BrokenError(AntecedeError):
    """The connection broke before the answer came. Ask again."""


class Caller:
    """A connection to one node, used with `with`. Entering raises `UnreachableError` or `RefusedError`."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        token: str = "",
        tls: ssl.SSLContext | None = None,
        cluster: str = "antecede",
        timeout_s: float = 5.0,
        patience_s: float = 30.0,
        clear_token: bool = False,
    ) -> None:
        scheme, _, rest = url.partition("://")
        if scheme != "antecede" or not rest or "," in rest:
            raise UsageError("url", url, "is not that of one node", "write antecede://host:port")
        self._dialler = Dialler(
            (split_address(rest.rstrip("/")),),
            cluster=cluster,
            name=name,
            token=token,
            speaks=SPEAKS,
            role=ROLE,
            bytes_max=ANSWER_BYTES_MAX,
            tls=tls,
            timeout_s=timeout_s,
            patience_s=patience_s,
            clear_token=clear_token,
        )
        self._loop = asyncio.new_event_loop()
        self._line: _Line | None = None

    def __enter__(self) -> "Caller":
        try:
            self._patiently(self._dial)
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if self._line is not None:
            self._loop.run_until_complete(self._line.close())
        self._loop.close()

    def ask(self, question: Question, answer: type[A], *, within_s: float = _ANSWER_S) -> A:
        """Raises the node's error: `GapError`, `DeniedError`, `StoppedError`, or `UsageError`."""
        found = self._patiently(lambda: self._ask(question, within_s))
        if isinstance(found, Failed):
            raise _error(found)
        if not isinstance(found, answer):
            raise ProtocolError(f"{type(found).__name__} is no answer to {type(question).__name__}")
        return found

    def _patiently(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Again and again, as long as patience lasts and the node does not say no."""
        return self._loop.run_until_complete(
            redial(
                attempt,
                self._dialler.backoff,
                patience_s=self._dialler.patience_s,
                retried=(BrokenError, UnreachableError, RefusedError),
            )
        )

    async def _dial(self) -> "_Line":
        line = _Line()
        await self._dialler.dial(line)
        self._line = line
        return line

    async def _ask(self, question: Question, within_s: float) -> Answer:
        line = self._line
        if line is None or line.over:
            line = await self._dial()
        answered: asyncio.Future[Answer] = self._loop.create_future()
        line.answered = answered
        assert line.connection is not None
        line.connection.write(TO_NODE.frame(question))
        try:
            async with asyncio.timeout(within_s):
                return await answered
        except TimeoutError:
            line.connection.abort()
            raise BrokenError(f"{self._dialler.where} did not answer within {within_s:g} s") from None


class _Line:
    """Owns the connection, and waits for one answer at a time."""

    def __init__(self) -> None:
        self.connection: FrameConnection | None = None
        self.answered: asyncio.Future[Answer] | None = None
        self.over = False
        self._ended = asyncio.get_running_loop().create_future()

    def adopt(self, connection: FrameConnection) -> Owner:
        self.connection = connection
        return self

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for record in TO_CALLER.decode(body):
            if self.answered is not None and not self.answered.done():
                self.answered.set_result(record)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._break(f"the node sent what is not an answer ({error})")

    def writable(self, connection: FrameConnection) -> None:
        """One question at a time."""

    def closed(self, connection: FrameConnection) -> None:
        self.over = True
        self._break("the connection broke before the answer came")
        if not self._ended.done():
            self._ended.set_result(None)

    async def close(self) -> None:
        if not self.over and self.connection is not None:
            self.connection.close()
            await self._ended

    def _break(self, why: str) -> None:
        if self.answered is not None and not self.answered.done():
            self.answered.set_exception(BrokenError(why))


def _error(failed: Failed) -> AntecedeError:
    if failed.kind == "gap":
        return GapError(failed.after, failed.first)
    if failed.kind == "denied":
        return DeniedError(failed.text)
    return StoppedError(failed.text)
