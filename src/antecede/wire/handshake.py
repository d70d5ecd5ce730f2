"""The first frames of a connection: the dialling end says `Hello`, the answering end `Welcome` or `Refusal`.

`greet` dials, for links between nodes and for clients alike. `Greeter` owns a connection on the answering side until
its hello has been judged. Both hand the connection over *within* the call that read the last handshake frame: packets
may stand right behind it in the same read.

Both ends must speak a common version (`common_version`), of the same cluster; nodes must also agree on the settings and
packet shapes that their hello names (`disagreement`). The answering end judges; both tests are symmetric.

Between nodes without TLS, each end first proves that it has the cluster key (`cluster_key`). Until then neither acts on
what the other says: a hello changes nothing at the node, and a refusal counts as no answer.
"""

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec

from antecede.core import ProtocolError, UsageError
from antecede.core.errors import RefusedError, UnreachableError
from antecede.wire.address import is_loopback, join_address
from antecede.wire.cluster_key import ClusterKey, new_nonce
from antecede.wire.codec import (
    HANDSHAKE,
    HELLO_BYTES_MAX,
    LENGTH_BYTES,
    WIRE_VERSION,
    WIRE_VERSION_OLDEST,
    Challenge,
    Greeting,
    Hello,
    Proof,
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
    key: ClusterKey | None = None,
) -> FrameConnection:
    """Dial, say hello, and give the connection to the owner that `adopt` names.

    `bytes_max` is what the connection takes once it is welcomed. `dial` connects it by other means than TCP. Raises
    `RefusedError` or `UnreachableError`; and `UsageError` for a hello with a token that would leave this machine
    without TLS, unless `clear_token`. `key`: both ends must prove that they have it.
    """
    loop = asyncio.get_running_loop()
    who = join_address(host, port)
    if hello.token and not clear_token and tls is None and dial is None and not is_loopback(host):
        problem = "would have the token travel in clear"
        raise UsageError("address", who, problem, "use TLS, or allow it with clear_token (--clear-token)")
    if key is not None:
        hello = msgspec.structs.replace(hello, nonce=new_nonce())
    frame = HANDSHAKE.frame(hello)
    versions = VersionRange(hello.version, hello.oldest)
    caller = _Caller(who, loop.create_future(), adopt, bytes_max, versions, key, frame[LENGTH_BYTES:])
    connection = FrameConnection(caller, bytes_max=HELLO_BYTES_MAX)
    try:
        async with asyncio.timeout(timeout_s):
            if dial is not None:
                await dial(connection)
            else:
                await loop.create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=host if tls is not None else None
                )
            connection.write(frame)
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


@dataclass(eq=False)
class _Caller:
    """Owns a connection while it waits for the answer."""

    _who: str
    welcomed: "asyncio.Future[None]"
    _adopt: Adopt
    _bytes_max: int
    _versions: VersionRange
    #: To be proved by both ends. None: no proof is asked for, or the other end has given it.
    _key: ClusterKey | None
    #: The body that was sent.
    _hello: bytes

    def __post_init__(self) -> None:
        # The dialling task may have given up by the time the answer is known.
        self.welcomed.add_done_callback(lambda future: future.cancelled() or future.exception())

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        answer = _only(HANDSHAKE.decode(body))
        if self._key is not None:
            self._check(connection, answer, self._key)
        elif isinstance(answer, Welcome):
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
            raise ProtocolError(f"{self._who} answered a hello with {type(answer).__name__.lower()}")

    def _check(self, connection: FrameConnection, answer: Greeting, key: ClusterKey) -> None:
        """Take the other end's proof, and give ours. Anything else is no answer: it may come from any process."""
        if isinstance(answer, Challenge):
            said = self._hello, answer.nonce, connection.there
            if key.proves(answer.proof, "answer", *said):
                self._key = None
                connection.write(HANDSHAKE.frame(Proof(proof=key.prove("call", *said))))
                return
            problem = f"it has another cluster key than {key.where}"
        elif isinstance(answer, Refusal):
            problem = f"it refused us and did not prove that it has the cluster key: {answer.detail or answer.reason}"
        else:
            problem = "it did not prove that it has the cluster key"
        self._fail(UnreachableError(self._who, f"{problem}; give all nodes one key file (cluster_key)"))
        connection.close()

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
    """Owns an incoming connection until its hello is judged.

    `judge` returns the welcome, or raises `RefusedError`. `key_for` returns the key that the caller must prove first,
    None if it need not, or raises `RefusedError`.
    """

    def __init__(
        self,
        judge: Callable[[FrameConnection, Hello], tuple[Welcome, Callable[[], Owner], int]],
        key_for: Callable[[FrameConnection, Hello], ClusterKey | None],
        ended: Callable[[FrameConnection], None],
        refused: Callable[[FrameConnection, str, str], None],
    ) -> None:
        self._judge = judge
        self._key_for = key_for
        self._ended = ended
        self._refused = refused
        #: What waits for the caller's proof.
        self._challenged: _Challenged | None = None

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        said = _only(HANDSHAKE.decode(body))
        try:
            hello = self._proved(connection, said, bytes(body))
            if hello is None:
                return
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

    def _proved(self, connection: FrameConnection, said: Greeting, body: bytes) -> Hello | None:
        """The hello to judge; None: the caller was asked for its proof."""
        waiting = self._challenged
        if waiting is not None:
            if not isinstance(said, Proof):
                raise ProtocolError("a challenge must be answered with a proof")
            if not waiting.key.proves(said.proof, "call", waiting.body, waiting.nonce, connection.here):
                raise RefusedError(connection.host, Reason.UNTRUSTED, "the caller has another cluster key")
            return waiting.hello
        if not isinstance(said, Hello):
            raise ProtocolError("a connection must begin with a hello")
        key = self._key_for(connection, said)
        if key is None:
            return said
        nonce = new_nonce()
        self._challenged = _Challenged(said, body, nonce, key)
        proof = key.prove("answer", body, nonce, connection.here)
        connection.write(HANDSHAKE.frame(Challenge(nonce=nonce, proof=proof)))
        return None

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._refused(connection, Reason.MALFORMED, str(error))

    def writable(self, connection: FrameConnection) -> None:
        """A welcome is small."""

    def closed(self, connection: FrameConnection) -> None:
        self._ended(connection)


class _Challenged(NamedTuple):
    """A hello whose caller was asked for its proof."""

    hello: Hello
    body: bytes
    nonce: bytes
    key: ClusterKey


def _only(records: list[Greeting]) -> Greeting:
    if len(records) != 1:
        raise ProtocolError(f"a handshake frame holds one record, not {len(records)}")
    return records[0]
