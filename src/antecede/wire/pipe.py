"""A connection within the process, for `memory://`.

It has two ends, each an `asyncio.Transport` to the protocol at its side. So the code above it (frames, handshake,
limits) is the code that runs over sockets. Bytes written in one turn of the loop arrive in the next, in one piece.
"""

import asyncio
from typing import Final

#: Bytes under way to one end before the writer is told to wait.
_HIGH_BYTES: Final = 1024 * 1024


class PipeEnd(asyncio.Transport):
    """One end. Made in pairs by `pipe`."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("memory", 0)})
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._other: PipeEnd | None = None
        self._inbox: list[bytes] = []
        self._size = 0
        self._due = False
        self._reading = True
        self._closing = False
        self._ended = False
        self._full = False

    def join(self, other: "PipeEnd") -> None:
        self._other = other

    # -- what a protocol calls -----------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        other = self._other
        if self._closing or other is None or other._ended:
            return
        other._inbox.append(bytes(data))
        other._size += len(data)
        other._call()
        if other._size > _HIGH_BYTES and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return 0 if self._other is None else self._other._size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """One bound for all pipes."""

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._call()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """What was written still arrives."""
        if not self._closing:
            self._closing = True
            if self._other is not None:
                self._other._call()
            self._loop.call_soon(self._end)

    def abort(self) -> None:
        if self._other is not None and not self._ended:
            self._other._inbox.clear()
        self.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _call(self) -> None:
        if not self._due and not self._ended:
            self._due = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._due = False
        if self._ended or self._closing or not self._reading:
            return
        other = self._other
        if self._inbox:
            data = b"".join(self._inbox)
            self._inbox.clear()
            self._size = 0
            self._protocol.data_received(data)
            if other is not None and other._full and not other._ended:
                other._full = False
                other._protocol.resume_writing()
        if other is not None and other._closing and not self._inbox:
            self._closing = True
            self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._inbox.clear()
            self._protocol.connection_lost(None)
            if self._other is not None:
                self._other._call()


def pipe(dialler: asyncio.Protocol, answerer: asyncio.Protocol) -> None:
    """Connect two protocols; both have been told when this returns."""
    here, there = PipeEnd(dialler), PipeEnd(answerer)
    here.join(there)
    there.join(here)
    answerer.connection_made(there)
    dialler.connection_made(here)
