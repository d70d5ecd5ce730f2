"""A connection of an MQTT client over TCP, TLS or WebSocket, driven by asyncio. It takes no decision of MQTT.

Until its CONNECT is complete a connection is a stranger's: it has a few seconds for TLS, the WebSocket handshake and
CONNECT together. Then its client owns it.
"""

import asyncio
import ssl
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from antecede.node.accepted import AcceptedSocket
from antecede.wire.mqtt.connection import ServerConnection
from antecede.wire.mqtt.packets import Connect
from antecede.wire.mqtt.reasons import MqttError, Reason
from antecede.wire.transport import Reason as Refusal

if TYPE_CHECKING:
    from antecede.node.mqtt.client import Client
    from antecede.node.mqtt.server import MqttServer

#: From the first byte of a connection to the end of its CONNECT.
HANDSHAKE_S: Final = 5.0
#: How long a connection may take to write its last words, and how much its peer may send meanwhile: a packet or two.
_CLOSE_S: Final = 2.0
_UNREAD_BYTES_MAX: Final = 2 * 1024 * 1024


class Framing(Protocol):
    """What lies between the socket and MQTT: WebSocket, or nothing."""

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """MQTT's bytes in what arrived, and bytes to write in answer. Raises `MqttError`."""
        ...

    def wrap(self, data: bytes) -> bytes:
        """Bytes of MQTT as they go over the socket."""
        ...

    def last(self) -> bytes:
        """What to write before the socket is closed."""
        ...

    @property
    def over(self) -> bool:
        """Should the socket be closed: did the peer say goodbye, or was it refused?"""
        ...


class Plain:
    """Nothing between the socket and MQTT."""

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""

    def wrap(self, data: bytes) -> bytes:
        return data

    def last(self) -> bytes:
        return b""

    @property
    def over(self) -> bool:
        return False


class DeviceConnection(AcceptedSocket):
    """One socket."""

    def __init__(
        self, server: "MqttServer", rules: ServerConnection, framing: Framing, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__()
        self.paused = False
        self._server = server
        self._rules = rules
        self._framing = framing
        self._tls = tls
        self._client: Client | None = None
        self._heard = 0.0
        #: Bytes that came after the last words.
        self._unread_bytes = 0

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The certificate that the client has shown, verified; None: it has shown none."""
        return None if self._transport is None else self._transport.get_extra_info("peercert") or None

    # -- what the client does ------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if not self._done and self._transport is not None:
            self._transport.write(self._framing.wrap(data))

    def pause(self) -> None:
        """Read nothing more until `resume`."""
        self.paused = True
        if self._transport is not None and not self._done:
            self._transport.pause_reading()

    def resume(self) -> None:
        self.paused = False
        if self._transport is not None and not self._done:
            self._transport.resume_reading()

    def refused(self, error: MqttError) -> None:
        """The peer broke a rule."""
        if not self._done:
            self._server.door.refused(self, Refusal.MALFORMED, str(error))

    def finish(self, last: bytes = b"") -> None:
        """Write `last`, then close once the peer has closed, or has had time to.

        Closed at once, a socket with unread bytes resets the connection, and `last` may be lost on the way.
        """
        if self._done or self._transport is None:
            return
        if last:
            self.write(last)
        if not last or not self._transport.can_write_eof():  # as over TLS
            self.close()
            return
        self._done = True
        self._transport.write(self._framing.last())
        try:
            self._transport.write_eof()
        except OSError:  # the peer is gone
            self.abort()
            return
        self._transport.resume_reading()
        self._at(_CLOSE_S, self.abort)

    def close(self) -> None:
        """Write what is left, then close."""
        if self._transport is not None:
            if not self._done:
                self._done = True
                self._transport.write(self._framing.last())
                self._at(_CLOSE_S, self.abort)
            self._transport.close()

    # -- what asyncio calls --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._server.door.enter(self):
            self.abort()
            return
        self._at(HANDSHAKE_S, self._too_slow)
        if self._tls is not None:
            self.secure(self._tls, HANDSHAKE_S)

    def tls_failed(self, problem: str) -> None:
        self._server.door.refused(self, Refusal.TLS, problem)

    def received(self, data: bytes) -> None:
        if self._done:
            self._unread_bytes += len(data)
            if self._unread_bytes > _UNREAD_BYTES_MAX:
                self.abort()
            return
        self._heard = asyncio.get_running_loop().time()
        self._server.node.counts_edge.bytes_received += len(data)
        try:
            inner, answer = self._framing.receive(data)
        except MqttError as error:
            self.refused(error)
            self.finish()
            return
        if answer and self._transport is not None:
            self._transport.write(answer)
        if inner:
            self._rules.receive(inner)
            if self._client is not None:
                self._client.received()
            else:
                self._greet()
        if self._framing.over:
            self.close()

    def _greet(self) -> None:
        try:
            packet = next(self._rules.packets(), None)
        except MqttError as error:
            self.refused(error)
            self.finish(self._rules.last_words(error))
            return
        if packet is not None:
            assert isinstance(packet, Connect)
            self._client = self._server.connect(self, self._rules)
            if self._client is not None:
                self._stay()
                self._client.received()

    def pause_writing(self) -> None:
        self.can_write = False

    def resume_writing(self) -> None:
        self.can_write = True
        if self._client is not None and not self._done:
            self._client.writable()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._done = True
        self._no_deadline()
        if self._client is not None:
            self._client.closed()
        self._server.door.leave(self)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _too_slow(self) -> None:
        self._server.door.refused(self, Refusal.SILENT, "no CONNECT in time")
        self.abort()

    def _stay(self) -> None:
        """The client is in: from now on only its keep alive ends a silent connection."""
        self._no_deadline()
        if self._rules.patience_s and not self._done:
            self._at(self._rules.patience_s, self._check_alive)

    def _check_alive(self, *, again: bool = False) -> None:
        """[MQTT-3.1.2-22]: one and a half keep alives without a packet end the connection."""
        silent_s = asyncio.get_running_loop().time() - self._heard
        left_s = self._rules.patience_s - silent_s
        if left_s > 0:
            self._at(left_s, self._check_alive)
        elif self.paused:  # a client that we do not read is not silent
            self._at(1.0, self._check_alive)
        elif not again:  # a node that was busy reads first what has come meanwhile
            self._at(0.0, partial(self._check_alive, again=True))
        elif self._client is not None:
            self._client.leave(Reason.KEEP_ALIVE_TIMEOUT)
