"""The port of a node: it admits connections, secures and greets them, and hands each on by the role its hello names.

Nodes and clients dial the same port. The listener checks what holds for all: there is room, TLS succeeds, and the first
frame is a hello for this cluster, in a version spoken here, in time, with a certificate that is trusted for its role.
Without TLS it asks callers with a role of members for a proof of the cluster key instead.
Further checks belong to the service of the role.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import msgspec

from antecede.core import ProtocolError, UsageError
from antecede.core.errors import RefusedError
from antecede.wire.accepting import Acceptor, connections_within_limit
from antecede.wire.address import is_loopback, join_address
from antecede.wire.admission import AdmissionControl, AdmissionLimits, HandshakeQueue, origin
from antecede.wire.cluster_key import ClusterKey
from antecede.wire.codec import FRAME_BYTES_MAX, HELLO_BYTES_MAX, Hello, Welcome
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import VERSIONS, Greeter, VersionRange, common_version, disagreement
from antecede.wire.transport import Counts, Reason

log = logging.getLogger("antecede.wire")

#: Judges a peer by its hello or welcome, its verified certificate, and the name of the certificate that its slot
#: belongs to, if that is known: why it is not trusted, or None.
Trust: TypeAlias = Callable[[Hello | Welcome, Mapping[str, Any] | None, str | None], str | None]

#: Judges a hello of its role: raises `RefusedError`, or returns what takes the connection over once it was welcomed.
Serve: TypeAlias = Callable[[FrameConnection, Hello], Callable[[], Owner]]


@dataclass(slots=True, kw_only=True)
class Tls:
    """The TLS contexts of a node, and its judgement of certificates (`security.node_tls`).

    The contexts may be replaced; connections that begin later use the new ones.
    """

    server: ssl.SSLContext
    client: ssl.SSLContext
    trust: Trust
    #: The name in a verified certificate; None: it is not one of ours.
    name_in: Callable[[Mapping[str, Any] | None], str | None]
    #: By slot: the name of the certificate that it belongs to.
    holder_of: Callable[[int], str | None] = lambda slot: None

    def check(self, connection: FrameConnection, who: Hello | Welcome) -> None:
        problem = self.trust(who, connection.certificate(), self.holder_of(who.node))
        if problem is not None:
            raise RefusedError(connection.host, Reason.UNTRUSTED, problem)


class Listener:
    """A listening socket and the connections that came through it."""

    def __init__(
        self,
        welcome: Callable[[], Welcome],
        *,
        cluster: str,
        host: str,
        port: int,
        tls: Tls | None = None,
        limits: AdmissionLimits | None = None,
        counts: Counts | None = None,
        bytes_max: int = FRAME_BYTES_MAX,
        versions: VersionRange = VERSIONS,
        agreement: Mapping[str, str] | None = None,
        key: ClusterKey | None = None,
    ) -> None:
        """`agreement`: settings that must not differ from what a hello says of them. `key`: what members must prove."""
        #: Where it can be dialled; the port is known after `start`.
        self.address = (host, port)
        self.admission = AdmissionControl(limits or AdmissionLimits(), counts or Counts())
        self._welcome = welcome
        self._cluster = cluster
        self._tls = tls
        self._bytes_max = bytes_max
        self._versions = versions
        self._agreement = dict(agreement or {})
        self._roles: dict[str, Serve] = {}
        self._key = key
        self._member_roles: set[str] = set()
        self._acceptor: Acceptor | None = None
        #: Connections that were admitted, each with the origin it counts for.
        self._inside: dict[FrameConnection, str] = {}
        self._handshakes = HandshakeQueue[FrameConnection](self.admission.limits.handshakes_max)
        self._greeting: dict[FrameConnection, asyncio.Task[None]] = {}
        self._trimming: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None
        self._closing = False

    @property
    def greeting(self) -> int:
        """Handshakes under way."""
        return len(self._handshakes)

    def serve(self, role: str, judge: Serve, *, members: bool = False) -> None:
        """Let `judge` decide on connections whose hello names `role`. `members`: only nodes of this cluster."""
        self._roles[role] = judge
        if members:
            self._member_roles.add(role)

    async def start(self) -> None:
        """Listen, unless it does already."""
        if self._acceptor is not None:
            return
        host, port = self.address
        if self._tls is None and not is_loopback(host):
            raise UsageError("host", host, "would be open to the network without TLS", "give `tls`, or use 127.0.0.1")
        limits = self.admission.limits
        most = connections_within_limit(limits.connections_max)
        if most < limits.connections_max:
            text = "at most %d connections at a time, not %d: the process may open too few files (ulimit -n)"
            log.info(text, most, limits.connections_max)
            self.admission.limits = replace(limits, connections_max=most)
        acceptor = Acceptor(self._admit)
        try:
            self.address = (host, await acceptor.start(host, port))
        except OSError as error:
            problem = f"cannot be listened on ({error})"
            raise UsageError("address", join_address(host, port), problem, "choose another") from None
        self._acceptor = acceptor

    def stop(self) -> None:
        """Accept no more connections. Those that are open stay."""
        self._closing = True
        if self._acceptor is not None:
            self._acceptor.close()
        if self._trimming is not None:
            self._trimming.cancel()
        for task in self._greeting.values():
            task.cancel()

    def abort(self) -> None:
        """Close every connection that came through here."""
        self.stop()
        for connection in list(self._inside):
            connection.abort()

    async def closed(self, within_s: float) -> None:
        """After `abort`: return when the event loop has let go of every connection."""
        await asyncio.sleep(0)
        if self._inside:
            self._empty = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty, within_s)

    def refused(self, connection: FrameConnection, reason: str, detail: str) -> None:
        """Count a refusal. A malformed greeting also costs its host a token; a peer that was let in is no stranger."""
        counted = self._inside.get(connection, origin(connection.host))
        if reason == Reason.MALFORMED and self._handshakes.has(connection, counted):
            reason = self.admission.record_malformed(counted, asyncio.get_running_loop().time())
        self.admission.refused(connection.host, reason, detail)

    def incoming(self) -> FrameConnection:
        """A connection for a client within the process, to be connected by other means than the port."""
        return self._admit("?") or _Incoming(self)  # one that was not admitted is closed when it arrives

    # -- admission ---------------------------------------------------------------------------------------------------

    def _admit(self, host: str) -> "_Incoming | None":
        """Admit a new connection from `host`; None: it must be closed, unread."""
        if self._closing:
            return None
        counted = origin(host)
        reason = self.admission.admit(counted)
        if reason is not None:
            # A handshake under way has shown nothing yet: it makes way for a newcomer.
            self._make_way(self._handshakes.make_room(None if self.admission.full else counted))
            reason = self.admission.admit(counted)
        if reason is not None:
            self.admission.refused(host, reason, "before the handshake")
            return None
        connection = _Incoming(self)
        self._inside[connection] = counted
        self._handshakes.enter(connection, counted)
        loop = asyncio.get_running_loop()
        if self.admission.penalised(counted, loop.time()):
            self._make_way(self._handshakes.excess_of(counted, self.admission.limits.penalised_handshakes))
        if self._handshakes.over and self._trimming is None:
            self._trimming = loop.call_later(self.admission.limits.excess_s, self._trim)
        return connection

    def _trim(self) -> None:
        self._trimming = None
        self._make_way(self._handshakes.excess())

    def _make_way(self, connections: list[tuple[FrameConnection, str]]) -> None:
        for connection, counted in connections:
            self.admission.refused(counted, Reason.BUSY, "its handshake made way for a newer one")
            task = self._greeting.get(connection)
            if task is not None:
                task.cancel()
            connection.abort()
            self.departed(connection)

    # -- what connections report -------------------------------------------------------------------------------------

    def arrived(self, connection: FrameConnection) -> None:
        """Greet a connection that was admitted. Nothing was read before that."""
        if self._closing or connection not in self._inside:
            connection.abort()
            return
        task = asyncio.get_running_loop().create_task(self._greet(connection))
        self._greeting[connection] = task
        task.add_done_callback(lambda _: self._greeting.pop(connection, None))

    def departed(self, connection: FrameConnection) -> None:
        counted = self._inside.pop(connection, None)
        if counted is not None:
            self._handshakes.leave(connection, counted)
            self.admission.left(counted)
            if not self._inside and self._empty is not None and not self._empty.done():
                self._empty.set_result(None)

    async def _greet(self, connection: FrameConnection) -> None:
        """TLS first, then the hello, both within one timeout."""
        greeted = asyncio.get_running_loop().create_future()
        counted = self._inside[connection]

        def ended(_: FrameConnection) -> None:
            self._handshakes.leave(connection, counted)
            if not greeted.done():
                greeted.set_result(None)

        connection.owner = Greeter(self._judge, self._key_for, ended, self.refused)
        limits = self.admission.limits
        try:
            async with asyncio.timeout(limits.handshake_s):
                if self._tls is not None and connection.here:  # else it is within this process
                    await connection.start_tls(self._tls.server, limits.handshake_s)
                connection.resume()
                await greeted
        except TimeoutError:
            self.refused(connection, Reason.SILENT, "no handshake in time")
            connection.abort()
        except (OSError, ssl.CertificateError) as error:
            self.refused(connection, Reason.TLS, str(error) or type(error).__name__)
            connection.abort()
        finally:
            self._handshakes.leave(connection, counted)
            if not connection.open:  # asyncio does not report the end of a connection whose TLS never began
                self.departed(connection)

    def _key_for(self, connection: FrameConnection, hello: Hello) -> ClusterKey | None:
        """The key that the caller must prove before it is judged; None: it need not."""
        if self._key is None or hello.role not in self._member_roles:
            return None
        if hello.nonce is None:
            self._version(connection, hello)
            detail = "a node without TLS must prove that it has the cluster key: give all nodes one file (cluster_key)"
            raise RefusedError(connection.host, Reason.UNTRUSTED, detail)
        return self._key

    def _version(self, connection: FrameConnection, hello: Hello) -> int:
        """The version to speak with the caller."""
        version = common_version(self._versions, VersionRange(hello.version, hello.oldest))
        if version is None:
            spoken = f"we speak {self._versions.oldest} to {self._versions.latest}"
            raise RefusedError(connection.host, Reason.VERSION, f"{spoken}, not {hello.oldest} to {hello.version}")
        return version

    def _judge(self, connection: FrameConnection, hello: Hello) -> tuple[Welcome, Callable[[], Owner], int]:
        version = self._version(connection, hello)
        if hello.cluster != self._cluster:
            raise RefusedError(connection.host, Reason.CLUSTER, "this is another cluster")
        judge = self._roles.get(hello.role)
        if judge is None:
            raise RefusedError(connection.host, Reason.ROLE, f"this node does not serve the role {hello.role!r}")
        problem = disagreement(self._agreement, hello.agreement)
        if problem is not None:
            raise RefusedError(connection.host, Reason.SETTINGS, problem)
        if self._tls is not None:
            self._tls.check(connection, hello)
        welcome = msgspec.structs.replace(self._welcome(), version=version)
        take_over = judge(connection, hello)
        self._handshakes.welcomed(self._inside.get(connection, connection.host))
        return welcome, take_over, self._bytes_max


class _Incoming(FrameConnection):
    """A connection that a peer opened. It tells the listener of its beginning and end, whatever owns it meanwhile."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(_Refused(), bytes_max=HELLO_BYTES_MAX)
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.pause()  # a TLS client writes at once, and those bytes are for TLS
        self._listener.arrived(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._listener.departed(self)


class _Refused:
    """Owns a connection that was refused before its handshake."""

    def frame(self, connection: FrameConnection, body: memoryview) -> None: ...
    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None: ...
    def writable(self, connection: FrameConnection) -> None: ...
    def closed(self, connection: FrameConnection) -> None: ...
