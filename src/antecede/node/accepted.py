"""A socket that a node has accepted, for HTTP or MQTT: TLS where it is asked for, one deadline, and an end.

Subclasses are told of bytes (`received`) and of a TLS handshake that failed (`tls_failed`).
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from antecede.wire.frames import WRITE_BYTES_HIGH


class AcceptedSocket(asyncio.Protocol):
    """One socket."""

    def __init__(self) -> None:
        self.host = "?"
        self.can_write = True
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._securing: asyncio.Task[None] | None = None
        #: Bytes that arrived before the TLS handshake was complete.
        self._early = bytearray()
        self._done = False

    @property
    def open(self) -> bool:
        return not self._done

    def abort(self) -> None:
        self._done = True
        if self._transport is not None:
            self._transport.abort()

    def received(self, data: bytes) -> None:
        """Bytes arrived, behind TLS."""
        raise NotImplementedError

    def tls_failed(self, problem: str) -> None:
        """The TLS handshake failed, and the socket is closed."""
        raise NotImplementedError

    # -- what asyncio calls --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._use(cast(asyncio.Transport, transport))  # not checked: a transport of uvloop is no subclass
        self.host = str((transport.get_extra_info("peername") or ("?",))[0])

    def data_received(self, data: bytes) -> None:
        if self._securing is not None:
            self._early += data
        else:
            self.received(data)

    def _use(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)

    # -- TLS -----------------------------------------------------------------------------------------------------------

    def secure(self, context: ssl.SSLContext, within_s: float) -> None:
        """Begin with the server's side of a TLS handshake."""
        assert self._transport is not None
        self._transport.pause_reading()  # the next bytes belong to the handshake
        self._securing = asyncio.get_running_loop().create_task(self._secure(self._transport, context, within_s))

    async def _secure(self, transport: asyncio.Transport, context: ssl.SSLContext, within_s: float) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=within_s
            )
            if secured is None:
                raise ConnectionResetError("the connection closed during the TLS handshake")
        except (OSError, ssl.CertificateError) as error:
            self.tls_failed(str(error) or type(error).__name__)
            transport.abort()
            self.connection_lost(None)  # asyncio does not report the end of a connection whose TLS never began
            return
        self._use(secured)
        self._securing = None
        if self._early:
            self.received(bytes(self._early))

    # -- the deadline --------------------------------------------------------------------------------------------------

    def _at(self, in_s: float, do: Callable[[], None]) -> None:
        """Do this then, instead of what was due before."""
        self._no_deadline()
        self._deadline = asyncio.get_running_loop().call_later(in_s, do)

    def _no_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
