"""Cursors and cuts as text: what a reader has taken of each log, and what its client depends on.

A cursor is `logs1.` and base64 of one msgpack array. A cut is a cursor of which only the offsets matter.
"""

import base64
import binascii
from typing import Final

import msgspec

from antecede.core.errors import UsageError
from antecede.protocols.logs import LogsCursor

_PREFIX: Final = "logs1."
#: Sixty-four writers of a log take about 1.5 kB, and a bus has up to 1,024 logs.
CURSOR_CHARACTERS_MAX: Final = 4 << 20


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
