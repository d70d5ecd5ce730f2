"""The first two frames of a connection: the dialling end says `Hello`, the answering end `Welcome` or `Refusal`.

`greet` dials, for links between nodes and for clients alike. `Greeter` owns a connection on the answering side until
its hello has been judged. Both hand the connection over *within* the call that read the last handshake frame: packets
may stand right behind it in the same read.

Both ends must speak a common version (`common_version`), of the same cluster; nodes must also agree on the settings and
packet shapes that their hello names (`disagreement`). The answering end judges; both tests are symmetric.
"""

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from antecede.core import ProtocolError, UsageError
from antecede.core.errors import RefusedError, UnreachableError
from antecede.wire.address import is_loopback, join_address
from antecede.wire.codec import (
    HANDSHAKE,
    HELLO_BYTES_MAX,
    WIRE_VERSION,
    WIRE_VERSION_OLDEST,
    Hello,
    Refusal,
    Welcome,
)
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.transport import Reason

#: Takes over a connection that was welcomed. Raises `RefusedError` to break it off.
Adopt: TypeAlias = Callable[[FrameConnection, Welcome], Owner]


class VersionRange(NamedTuple):
    """The versions one end of a connection speaks."""

    latest: int = WIRE_VERSION
    oldest: int = WIRE_VERSION_OLDEST


#: What this code speaks.
VERSIONS: Final = VersionRange()


def common_version(ours: VersionRange, theirs: VersionRange) -> int | None:
    """The highest version both ends speak; None: there is none."""
    version = min(ours.latest, theirs.latest)
    return version if version >= max(ours.oldest, theirs.oldest) else None


def brief(value: str) -> str:
    """The value of a setting as a hello can carry it: a long one is cut, and told from others by its hash."""
    return value if len(value) <= 200 else f"{value[:160]}… sha256:{hashlib.sha256(value.encode()).hexdigest()[:16]}"


def disagreement(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """The first setting of which both ends give different values, in words; None: they agree."""
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name] != theirs[name]:
            return f"{name} is {ours[name]!r} at the one that answered and {theirs[name]!r} at the one that called"
    return None


async def greet(
    host: str,
    port: int,
    hello: Hello,
    adopt: Adopt,
    *,
    tls: ssl.SSLContext | None = None,
    timeout_s: float = 5.0,
    bytes_max: int = HELLO_BYTES_MAX,
    dial: Callable[[FrameConnection], Awaitable[object]] | None = None,
    clear_token: bool = False,
) -> FrameConnection:
    """Dial, say hello, and give the connection to the owner that `adopt` names.

    `bytes_max` is what the connection takes once it is welcomed. `dial` connects it by other means than TCP. Raises
    `RefusedError` or `UnreachableError`; and `UsageError` for a hello with a token that would leave this machine
    without TLS, unless `clear_token`.
    """
    loop = asyncio.get_running_loop()
    who = join_address(host, port)
    if hello.token and not clear_token and tls is None and dial is None and not is_loopback(host):
        problem = "would have the token travel in clear"
        raise UsageError("address", who, problem, "use TLS, or allow it with clear_token (--clear-token)")
    caller = _Caller(who, loop.create_future(), adopt, bytes_max, VersionRange(hello.version, hello.oldest))
    connection = FrameConnection(caller, bytes_max=HELLO_BYTES_MAX)
    try:
        async with asyncio.timeout(timeout_s):
            if dial is not None:
                await dial(connection)
            else:
                await loop.create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=host if tls is not None else None
                )
            connection.write(HANDSHAKE.frame(hello))
            await caller.welcomed
    except TimeoutError:
        connection.abort()
        raise UnreachableError(who, f"no answer within {timeout_s:g} s") from None
    except (ConnectionResetError, ssl.SSLEOFError) as error:
        connection.abort()
        problem = str(error) or "it closed the connection"
        if tls is not None:
            problem = "it ended the TLS handshake, as a node without TLS does: leave out tls, or start it with TLS"
        raise UnreachableError(who, problem) from None
    except (OSError, ssl.CertificateError) as error:
        connection.abort()
        raise UnreachableError(who, str(error) or type(error).__name__) from None
    except BaseException:
        connection.abort()
        raise
    return connection


class _Caller:
    """Owns a connection while it waits for the answer."""

    def __init__(
        self, who: str, welcomed: "asyncio.Future[None]", adopt: Adopt, bytes_max: int, versions: VersionRange
    ) -> None:
        self.welcomed = welcomed
        # The dialling task may have given up by the time the answer is known.
        welcomed.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._who = who
        self._adopt = adopt
        self._bytes_max = bytes_max
        self._versions = versions

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        answer = _only(HANDSHAKE.decode(body))
        if isinstance(answer, Welcome):
            latest, oldest = self._versions
            if not oldest <= answer.version <= latest:
                raise ProtocolError(f"{self._who} speaks version {answer.version}, we speak {oldest} to {latest}")
            try:
                connection.owner = self._adopt(connection, answer)
            except RefusedError as error:
                self._fail(error)
                connection.close()
                return
            connection.bytes_max = self._bytes_max
            if not self.welcomed.done():
                self.welcomed.set_result(None)
        elif isinstance(answer, Refusal):
            self._fail(RefusedError(self._who, answer.reason, answer.detail))
            connection.close()
        else:
            raise ProtocolError(f"{self._who} answered a hello with a hello")

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._fail(UnreachableError(self._who, f"it does not speak antecede ({error})"))

    def writable(self, connection: FrameConnection) -> None:
        """A hello is small."""

    def closed(self, connection: FrameConnection) -> None:
        self._fail(
            UnreachableError(self._who, "it closed the connection without an answer, as a node that asks for TLS does")
        )

    def _fail(self, error: Exception) -> None:
        if not self.welcomed.done():
            self.welcomed.set_exception(error)


class Greeter:
    """Owns an incoming connection until its hello is judged. `judge` returns the welcome, or raises `RefusedError`."""

    def __init__(
        self,
        judge: Callable[[FrameConnection, Hello], tuple[Welcome, Callable[[], Owner], int]],
        ended: Callable[[FrameConnection], None],
        refused: Callable[[FrameConnection, str, str], None],
    ) -> None:
        self._judge = judge
        self._ended = ended
        self._refused = refused

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        hello = _only(HANDSHAKE.decode(body))
        if not isinstance(hello, Hello):
            raise ProtocolError("a connection must begin with a hello")
        try:
            welcome, take_over, bytes_max = self._judge(connection, hello)
        except RefusedError as error:
            self._refused(connection, error.reason, error.detail)
            connection.write(HANDSHAKE.frame(Refusal(reason=error.reason, detail=error.detail)))
            connection.close()
            return
        self._ended(connection)
        connection.write(HANDSHAKE.frame(welcome))
        connection.bytes_max = bytes_max
        connection.owner = take_over()

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._refused(connection, Reason.MALFORMED, str(error))

    def writable(self, connection: FrameConnection) -> None:
        """A welcome is small."""

    def closed(self, connection: FrameConnection) -> None:
        self._ended(connection)


def _only(records: list[Hello | Welcome | Refusal]) -> Hello | Welcome | Refusal:
    if len(records) != 1:
        raise ProtocolError(f"a handshake frame holds one record, not {len(records)}")
    return records[0]
