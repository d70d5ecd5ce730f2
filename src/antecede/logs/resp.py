"""A lean connection to Redis for the two commands that carry every message: XADD and XREAD.

redis-py makes each command and each reply in many small steps, about 20 µs a record. Here a pipeline is one write, and
the entries of a reply are cut out of the bytes that came. Protocol: RESP2. Other commands go through redis-py.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable, Sequence
from typing import Any, Final

#: A reply of a batch of large records comes in pieces of at most this size.
_CHUNK_BYTES: Final = 1 << 20
_BULK, _ARRAY, _INTEGER, _SIMPLE, _ERROR = b"$*:+-"

#: An entry of a stream: its id, and its fields and their values in turn.
Entry = tuple[bytes, list[bytes]]


class ReplyError(Exception):
    """An error that the server replied. Its first word is a code: ERR, NOPERM, OOM, LOADING …"""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


class _Incomplete(Exception):
    """The rest of a reply has not come yet."""


def words(of: Iterable[bytes]) -> bytes:
    """Words of a command as they are sent."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in of])


def command(of: Sequence[bytes]) -> bytes:
    """A command as it is sent: the count of its words, and the words."""
    return b"*%d\r\n%b" % (len(of), words(of))


class RespConnection:
    """One connection. Its caller sends commands and reads their replies in the same order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience_s: float) -> None:
        self._reader = reader
        self._writer = writer
        self._patience_s = patience_s
        self._data = b""
        self._at = 0

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        login: list[str],
        database: int,
        name: str,
        tls: ssl.SSLContext | None,
        timeout_s: float,
        patience_s: float,
    ) -> "RespConnection":
        """`patience_s`: how long a reply may take. Raises `OSError` or `ReplyError`."""
        async with asyncio.timeout(timeout_s):
            self = cls(*await asyncio.open_connection(host, port, limit=_CHUNK_BYTES, ssl=tls), patience_s)
            greeting = [["AUTH", *login]] if login else []
            greeting += [["SELECT", str(database)]] if database else []
            greeting += [["CLIENT", "SETNAME", name]] if name else []
            try:
                for told in greeting:
                    self.send(command([word.encode() for word in told]))
                    answer = await self.reply()
                    if isinstance(answer, ReplyError):
                        raise answer
            except BaseException:
                self.close()
                raise
            return self

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def reply(self) -> Any:
        """The next reply: bytes, int, list, None; an error is returned, not raised."""
        while not (found := self.replies(1)):
            await self.more()
        return found[0]

    def replies(self, most: int) -> list[Any]:
        """The replies that have come, up to so many. If they are too few, wait for `more`."""
        found: list[Any] = []
        with contextlib.suppress(_Incomplete):
            while len(found) < most:
                value, self._at = _parse(self._data, self._at)
                found.append(value)
        return found

    async def entries(self) -> list[Entry]:
        """The reply to XREAD of one stream. Raises `ReplyError`: the connection is of no more use then."""
        while True:
            try:
                outer, at = _length(self._data, self._at, _ARRAY)
                if outer < 0:  # nothing came
                    self._at = at
                    return []
                _, at = _length(self._data, at, _ARRAY)
                _, at = _parse(self._data, at)
                count, at = _length(self._data, at, _ARRAY)
            except _Incomplete:
                await self.more()
            else:
                break
        self._at = at
        entries: list[Entry] = []
        while len(entries) < count:  # each entry is parsed once, however many reads the reply takes
            try:
                entry, self._at = _entry(self._data, self._at)
            except _Incomplete:
                await self.more()
            else:
                entries.append(entry)
        return entries

    async def more(self) -> None:
        """Wait until more bytes have come. Raises `OSError` if none will."""
        try:
            async with asyncio.timeout(self._patience_s):
                came = await self._reader.read(_CHUNK_BYTES)
        except TimeoutError:
            raise ConnectionError("no reply") from None
        if not came:
            raise ConnectionError("the server closed the connection")
        self._data = self._data[self._at :] + came
        self._at = 0

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the event loop may be closed already
            self._writer.close()


def _length(data: bytes, at: int, kind: int) -> tuple[int, int]:
    """The number behind the type at `at`, and where the next begins."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise _Incomplete
    if data[at] != kind:
        raise ReplyError(data[at + 1 : end].decode(errors="replace"))
    return int(data[at + 1 : end]), end + 2


def _parse(data: bytes, at: int) -> tuple[Any, int]:
    end = data.find(b"\r\n", at)
    if end < 0:
        raise _Incomplete
    kind, rest, after = data[at], data[at + 1 : end], end + 2
    if kind == _BULK:
        stop = after + int(rest)
        if stop < after:
            return None, after
        if stop + 2 > len(data):
            raise _Incomplete
        return data[after:stop], stop + 2
    if kind == _ARRAY:
        if int(rest) < 0:
            return None, after
        found = []
        for _ in range(int(rest)):
            value, after = _parse(data, after)
            found.append(value)
        return found, after
    if kind == _ERROR:
        return ReplyError(rest.decode(errors="replace")), after
    if kind not in (_INTEGER, _SIMPLE):
        raise ConnectionError(f"a reply of Redis begins with the byte {kind}")
    return int(rest) if kind == _INTEGER else rest, after


def _entry(data: bytes, at: int) -> tuple[Entry, int]:
    _, at = _length(data, at, _ARRAY)
    name, at = _parse(data, at)
    count, at = _length(data, at, _ARRAY)
    find, size, words = data.find, len(data), list[bytes]()
    for _ in range(count):
        end = find(b"\r\n", at)
        stop = end + 2 + int(data[at + 1 : end]) if end >= 0 else size
        if stop + 2 > size:
            raise _Incomplete
        words.append(data[end + 2 : stop])
        at = stop + 2
    return (name, words), at
