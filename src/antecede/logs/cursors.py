"""Cursors and cuts as text: what a reader has taken of each log, and what its client depends on.

A cursor is `logs1.` and base64 of one msgpack array. A cut is a cursor of which only the offsets matter.
"""

import base64
import binascii
from typing import Final

import msgspec

from antecede.core.errors import UsageError
from antecede.protocols.logs import ChannelCursor, LogCursor

_PREFIX: Final = "logs1."
#: Sixty-four writers of a log take about 1.5 kB, and a bus has up to 1,024 logs.
CURSOR_CHARACTERS_MAX: Final = 4 << 20


class LogsCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a feed goes on."""

    logs: dict[int, LogCursor]
    #: Logs that were read from their first record.
    whole: frozenset[int] = frozenset()
    #: By log: the highest offset that the client had read, also transitively. What it publishes depends on that.
    frontier: dict[int, int] = {}


_decoder = msgspec.msgpack.Decoder(LogsCursor)


def write_cursor(cursor: LogsCursor) -> str:
    data = msgspec.msgpack.encode(cursor)
    return _PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_cursor(text: str) -> LogsCursor:
    """Raises `UsageError` for a text that is no cursor."""
    try:
        if not isinstance(text, str) or not text.startswith(_PREFIX) or len(text) > CURSOR_CHARACTERS_MAX:
            raise ValueError
        body = text[len(_PREFIX) :]
        return _decoder.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, binascii.Error, msgspec.DecodeError):
        shown = text[:40] if isinstance(text, str) else text
        remedy = 'use message.cursor, bus.cut(), or "0" for everything the logs still have'
        raise UsageError("since", shown, "is not a cursor of logs", remedy) from None


def behind(cursor: LogCursor, taken: list[tuple[int, int, int, bool]], *, whole: bool) -> LogCursor:
    """The cursor after more records of its log were taken: (offset, writer, number, late?); number 0: a plain one."""
    channels = {(one.writer, one.key): one for one in cursor.channels}
    for _, writer, number, late in taken:
        if number:
            channel = channels.pop((writer, ""), ChannelCursor(writer, "", 0, 1 if whole else number))
            if late:
                channel = channel._replace(late=(*channel.late, number))
            else:
                channel = channel._replace(taken=max(channel.taken, number))
            channels[writer, ""] = channel  # the last heard is the last
    beyond = sorted({*cursor.beyond, *(offset for offset, *_ in taken)})
    return cursor._replace(beyond=tuple(beyond), channels=tuple(channels.values()))
