"""One peer of a node: its address, its queue, its connection, and the task that dials it.

A connection ends in one of two ways. It breaks: packets written and not yet read at the other side are lost, and
protocols retransmit them. Or it is retired, because another connection replaces it or a node stops: each side writes a
goodbye (a frame with an empty array) and nothing after it, reads until the other's goodbye, and then closes. Nothing is
lost by that.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from antecede.core import ProtocolError
from antecede.wire.codec import LENGTH_BYTES, SIGN_OF_LIFE
from antecede.wire.frames import FrameConnection
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.wire.tcp import TcpTransport

_NO_PACKETS: Final = b"\x90"
GOODBYE: Final = len(_NO_PACKETS).to_bytes(LENGTH_BYTES, "big") + _NO_PACKETS

#: Bytes written to a socket before looking whether it takes more.
_PIECE_BYTES: Final = 256 * 1024


class Peer:
    """Another node, linked or not."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.address: tuple[str, int] | None = None
        self.link: Link | None = None
        self.dialling: asyncio.Task[None] | None = None
        #: Failed attempts since the last success, and the error of the last one.
        self.failures = 0
        self.problem = ""
        #: With TLS: the name of the certificate it was linked by; what follows is of that one.
        self.holder: str | None = None
        #: The highest incarnation of it that was linked with us.
        self.incarnation = 0
        #: Of the processes that claimed this incarnation, the one we are linked with (`codec.Hello.life`); 0: not told.
        self.life = 0
        #: Encoded packets not yet written, and their bytes.
        self.queue: list[bytes] = []
        self.queued = 0
        self.dirty = False


@dataclass(slots=True, eq=False)
class Link:
    """Owns a connection to a peer after the handshake."""

    transport: "TcpTransport"
    peer: Peer
    connection: FrameConnection
    dialled_by: int
    incarnation: int
    retired: bool = False

    def write_queue(self) -> None:
        """Write the packets in the peer's queue, as long as the socket takes them."""
        peer, connection, codec = self.peer, self.connection, self.transport.codec
        if peer.queued <= _PIECE_BYTES:
            if connection.can_write:
                self.transport.counts.packets_sent += len(peer.queue)
                self._write(codec.frames(peer.queue))
                peer.queue.clear()
                peer.queued = 0
            return
        at = 0
        while at < len(peer.queue) and connection.can_write:
            begin, size = at, 0
            while at < len(peer.queue) and (at == begin or size + len(peer.queue[at]) <= _PIECE_BYTES):
                size += len(peer.queue[at])
                at += 1
            self.transport.counts.packets_sent += at - begin
            self._write(codec.frames(peer.queue[begin:at]))
            peer.queued -= size
        del peer.queue[:at]

    def sign_of_life(self) -> None:
        if not self.connection.wrote and self.connection.can_write:
            self.connection.write(SIGN_OF_LIFE)
        self.connection.wrote = False

    def retire(self) -> None:
        """Write a goodbye, and read on until the other side's has come."""
        if not self.retired:
            self.retired = True
            self.connection.write(GOODBYE)

    # -- the connection's owner --------------------------------------------------------------------------------------

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        if len(body) == 1 and body[0] == _NO_PACKETS[0]:
            self.retire()
            connection.close()
            self.transport.link_ended(self)
            return
        packets = self.transport.codec.decode(body)
        counts = self.transport.counts
        counts.packets_received += len(packets)
        counts.bytes_received += len(body) + LENGTH_BYTES
        self.transport.hand_over(self, packets)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self.transport.refused(connection, Reason.MALFORMED, f"node {self.peer.node}: {error}")

    def writable(self, connection: FrameConnection) -> None:
        self.transport.write_to(self.peer)

    def closed(self, connection: FrameConnection) -> None:
        self.transport.link_ended(self)

    def _write(self, data: bytes) -> None:
        self.transport.counts.bytes_sent += len(data)
        self.connection.write(data)
