"""The data types of MQTT (1.5): integers, text, binary data, and integers of variable length.

`FieldReader` reads them from the body of a packet and checks every byte. The functions write them. Both name the field
in their errors.
"""

from typing import Final

from antecede.core.errors import UsageError
from antecede.wire.mqtt.reasons import malformed

#: The largest integer of variable length (1.5.5), and so the largest remaining length of a packet.
VARIABLE_MAX: Final = 268_435_455
#: The longest text or binary data (1.5.4, 1.5.6).
TEXT_BYTES_MAX: Final = 65_535


class FieldReader:
    """Reads fields from the body of one packet, in order."""

    __slots__ = ("at", "body", "end")

    def __init__(self, body: bytes, at: int = 0, end: int | None = None) -> None:
        self.body = body
        self.at = at
        self.end = len(body) if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.at

    def _take(self, count: int, field: str) -> int:
        """Where the next `count` bytes begin."""
        at = self.at
        if at + count > self.end:
            raise malformed(field, f"{count} bytes are needed, {self.end - at} are left")
        self.at = at + count
        return at

    def byte(self, field: str) -> int:
        return self.body[self._take(1, field)]

    def two_bytes(self, field: str) -> int:
        at = self._take(2, field)
        return int.from_bytes(self.body[at : at + 2])

    def four_bytes(self, field: str) -> int:
        at = self._take(4, field)
        return int.from_bytes(self.body[at : at + 4])

    def variable(self, field: str) -> int:
        """[MQTT-1.5.5-1]: as few bytes as possible, at most four."""
        value = shift = 0
        while True:
            byte = self.byte(field)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise malformed(field, "has more than four bytes")
        if shift and not byte:
            raise malformed(field, "is not in as few bytes as possible")
        return value

    def binary(self, field: str) -> bytes:
        size = self.two_bytes(field)
        at = self._take(size, field)
        return self.body[at : at + size]

    def text(self, field: str) -> str:
        """[MQTT-1.5.4-1]: valid UTF-8 without surrogates. [MQTT-1.5.4-2]: no NUL. A BOM stays ([MQTT-1.5.4-3])."""
        data = self.binary(field)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise malformed(field, f"is not UTF-8 ({error.reason} at byte {error.start})") from None
        if "\0" in text:
            raise malformed(field, "has a NUL character")
        return text

    def rest(self) -> bytes:
        at, self.at = self.at, self.end
        return self.body[at : self.end]

    def finish(self, packet: str) -> None:
        """Every byte of the packet was read."""
        if self.at != self.end:
            raise malformed(packet, f"{self.end - self.at} bytes follow its last field")


def write_variable(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value > VARIABLE_MAX:
        raise UsageError("length", value, "does not fit", f"use at most {VARIABLE_MAX}")
    out = bytearray()
    while True:
        value, byte = value >> 7, value & 0x7F
        if not value:
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)


def write_binary(data: bytes, field: str) -> bytes:
    if len(data) > TEXT_BYTES_MAX:
        raise UsageError(field, f"{data[:40]!r}…", f"has {len(data)} bytes", f"use at most {TEXT_BYTES_MAX}")
    return len(data).to_bytes(2) + data


def write_text(text: str, field: str) -> bytes:
    try:
        return write_binary(text.encode(), field)
    except UnicodeEncodeError:
        raise UsageError(field, text[:40], "is not valid Unicode", "leave lone surrogates out") from None
