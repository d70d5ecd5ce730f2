"""A connection that carries frames: it splits the bytes that come in into bodies, and writes bodies as frames.

It knows lengths and limits, and nothing of what bodies mean. Its owner is told of whole frames, of room to write and of
the end, and may hand it on to another owner: a handshake hands it to a link or to a client's session. It uses asyncio's
callbacks; streams would cost a task switch for each message.

A body is given to the owner as a view into the bytes read, valid during the call only. An incomplete frame is kept
until the rest has come; its length was checked before its first byte was kept.

An owner that has enough pauses the connection. Frames that were read already are kept, at most one read of the socket
and one frame, until it resumes.
"""

import asyncio
import ssl
from typing import Any, Final, Protocol, cast

from antecede.core import ProtocolError
from antecede.core.native import mypyc_attr
from antecede.wire.address import join_address
from antecede.wire.codec import LENGTH_BYTES, body_length

#: Bytes the event loop may buffer for a socket before `can_write` turns false. Whatever else waits is in the owner's
#: queue, where it is counted and bounded.
WRITE_BYTES_HIGH: Final = 256 * 1024


class Owner(Protocol):
    """The object that a connection reports to. Called on the event loop."""

    def frame(self, connection: "FrameConnection", body: memoryview) -> None:
        """A whole frame. May raise `ProtocolError`: the frame was not acceptable."""
        ...

    def malformed(self, connection: "FrameConnection", error: ProtocolError) -> None:
        """The bytes are malformed. The connection reads nothing more and closes after this call."""
        ...

    def writable(self, connection: "FrameConnection") -> None:
        """There is room to write again, after `can_write` was false."""
        ...

    def closed(self, connection: "FrameConnection") -> None:
        """The connection is over. Called exactly once."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class FrameConnection(asyncio.Protocol):
    """A connection, from the side that dialled or the side that answered."""

    def __init__(self, owner: Owner, *, bytes_max: int) -> None:
        self.owner = owner
        #: The largest body accepted. An owner may raise it once it knows its peer.
        self.bytes_max = bytes_max
        self.can_write = True
        #: When something last came in, by the loop's clock.
        self.heard = 0.0
        self.wrote = False
        #: The address of the other side, for logs and limits.
        self.host = "?"
        #: Both ends of the connection, as this side sees them; empty where it is no socket.
        self.here = self.there = ""
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rest = bytearray()
        self._need = LENGTH_BYTES
        self._done = False
        self._upgrading = False
        self._paused = False
        self._resuming = False

    # -- what an owner does ------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        return not self._done

    def write(self, data: bytes) -> None:
        """Write whole frames. Ignored when the connection is over."""
        if not self._done and self._transport is not None:
            self.wrote = True
            self._transport.write(data)

    def pause(self) -> None:
        """Read nothing more, and give the owner no more frames, until `resume`. May be called from `frame`."""
        self._paused = True
        if self._transport is not None and not self._done and self._transport.is_reading():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on, in the next turn of the event loop: first with the frames that were read already."""
        if self._paused and not self._resuming and self._loop is not None and not self._done:
            self._resuming = True
            self._loop.call_soon(self._go_on)
        self._paused = False

    @property
    def paused(self) -> bool:
        return self._paused

    def fail(self, error: ProtocolError) -> None:
        """A frame was not acceptable: tell the owner, and close."""
        if not self._done:
            self.owner.malformed(self, error)
            self.close()

    def close(self) -> None:
        """Write what is left, then close. Reads nothing more."""
        self._done = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._done = True
        if self._transport is not None:
            self._transport.abort()

    def certificate(self) -> dict[str, Any] | None:
        """The other side's verified certificate; None without TLS, or when it showed none."""
        tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        if not isinstance(tls, ssl.SSLObject):
            return None
        return tls.getpeercert() or None

    async def start_tls(self, context: ssl.SSLContext, timeout_s: float) -> None:
        """Answer a TLS client. Called before anything was read (`connection_made` with reading paused)."""
        assert self._transport is not None
        assert self._loop is not None
        self._upgrading = True
        upgraded = await self._loop.start_tls(
            self._transport, self, context, server_side=True, ssl_handshake_timeout=timeout_s
        )
        if upgraded is None or self._done:
            raise ConnectionResetError("the connection closed during the TLS handshake")
        self._set(upgraded)
        self._upgrading = False
        if self._rest:  # the other side's first words may be here before we are told that TLS is up
            words = bytes(self._rest)
            self._rest.clear()
            self.data_received(words)

    # -- what asyncio calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop = asyncio.get_running_loop()
        self.heard = self._loop.time()
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.host = str(name[0])
            self.there = join_address(*name[:2])
        name = transport.get_extra_info("sockname")
        if isinstance(name, tuple):
            self.here = join_address(*name[:2])
        self._set(cast(asyncio.Transport, transport))  # not checked: a transport of uvloop is no subclass

    def data_received(self, data: bytes | bytearray) -> None:
        assert self._loop is not None
        self.heard = self._loop.time()
        if self._rest or self._upgrading or self._paused:
            self._rest += data
            if len(self._rest) < self._need or self._upgrading or self._paused:
                return
            data, self._rest = self._rest, bytearray()  # not copied: a frame may have a megabyte
        try:
            taken = self._split(data)
        except ProtocolError as error:
            self.fail(error)
            return
        if taken < len(data) and not self._done:
            self._rest += memoryview(data)[taken:]

    def pause_writing(self) -> None:
        self.can_write = False

    def resume_writing(self) -> None:
        self.can_write = True
        if not self._done:
            self.owner.writable(self)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._done = True
        self._rest.clear()
        self.owner.closed(self)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _set(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)

    def _go_on(self) -> None:
        self._resuming = False
        if self._rest and not self._paused and not self._done:
            self.data_received(b"")
        if not self._paused and not self._done and self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def _split(self, data: bytes | bytearray) -> int:
        """Give every whole frame to the owner; return how many bytes that took. Notes how many the next one needs."""
        view = memoryview(data)
        at, end = 0, len(data)
        while not self._done:
            start = at + LENGTH_BYTES
            if start > end:
                self._need = LENGTH_BYTES
                break
            stop = start + body_length(data, at, self.bytes_max)
            if stop > end:
                self._need = stop - at
                break
            if stop > start:
                self.owner.frame(self, view[start:stop])
            at = stop
            if self._paused:
                self._need = LENGTH_BYTES
                break
        return at
