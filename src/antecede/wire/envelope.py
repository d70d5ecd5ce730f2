"""The envelope: the payload of a message in the live system, with the topic and headers of the application.

The protocol orders the messages of a whole causal domain; the topics of applications are labels inside. An envelope is
one msgpack array: topic, time of publication, body, headers. It adds the topic's own bytes and 14 more to a body (9 of
them for the time).
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core.errors import LimitError, ProtocolError, UsageError
from antecede.core.limits import TOPIC_BYTES_MAX
from antecede.wire.topics import check_topic

#: Largest body. A message travels in one frame and is held in memory at every node it passes.
BODY_BYTES_MAX: Final = 512 * 1024

#: Headers are for a few words about a body. More belongs into the body.
HEADERS_MAX: Final = 32
HEADER_BYTES_MAX: Final = 1024

_Word: TypeAlias = Annotated[str, Meta(max_length=HEADER_BYTES_MAX)]
#: Microseconds since 1970, as far as a table can store them.
_Time: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Envelope(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An application's message. Later versions may append fields; today's readers skip them."""

    topic: Annotated[str, Meta(min_length=1, max_length=TOPIC_BYTES_MAX)]
    #: When it was published, by its publisher's clock. For people and statistics, never order.
    time_us: _Time
    body: Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)]
    headers: Annotated[dict[_Word, _Word], Meta(max_length=HEADERS_MAX)] = {}


class _Label(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The first field of an envelope; the decoder skips over the rest."""

    topic: Annotated[str, Meta(min_length=1, max_length=TOPIC_BYTES_MAX)]


class _Stamp(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The first two fields of an envelope."""

    topic: msgspec.Raw
    time_us: _Time


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)
_labels = msgspec.msgpack.Decoder(_Label)
_stamps = msgspec.msgpack.Decoder(_Stamp)


def seal(
    topic: str,
    body: bytes,
    *,
    time_us: int,
    headers: dict[str, str] | None = None,
    mark: tuple[int, int] | None = None,
) -> bytes:
    """Make the payload of a message. Raises `UsageError` or `LimitError` for whatever the caller got wrong.

    `mark`: two numbers behind the fields that readers see, by which a node finds the rows of a batch it published
    (`node.bulk`).
    """
    check_topic(topic)
    check_body(body)
    if headers:
        check_headers(headers)
    if mark is not None:
        return _encoder.encode((topic, time_us, body, headers or {}, mark))
    return _encoder.encode((topic, time_us, body, headers or {}))


#: Encodes (topic, time, body, headers), which were checked, as `seal` does.
seal_checked: Final[Callable[[tuple[str, int, bytes, dict[str, str]]], bytes]] = _encoder.encode


def check_body(body: bytes) -> None:
    """Raises `UsageError` or `LimitError`."""
    if type(body) is not bytes and not isinstance(body, bytes | bytearray | memoryview):
        raise UsageError("body", type(body).__name__, "is not bytes", "encode it, for example with str.encode()")
    if len(body) > BODY_BYTES_MAX:
        raise LimitError("the body in bytes", len(body), BODY_BYTES_MAX, "send it in pieces, or a reference to it")


def unseal(payload: bytes) -> Envelope:
    """Open the envelope of a message. Raises `ProtocolError` when the payload is none."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a message's payload is not an envelope: {error}") from None


def unseal_all(payloads: Iterable[bytes]) -> list[Envelope]:
    """`unseal` for many."""
    try:
        return list(map(_decoder.decode, payloads))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a message's payload is not an envelope: {error}") from None


def check_header_bytes(headers: dict[str, str]) -> None:
    """Check the encoded size of names and values: the decoder has counted characters. Raises `LimitError`."""
    for word in (*headers, *headers.values()):
        if 4 * len(word) > HEADER_BYTES_MAX and (size := len(word.encode())) > HEADER_BYTES_MAX:
            raise LimitError("a header in bytes", size, HEADER_BYTES_MAX, "put it into the body")


class Opened(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An envelope whose bounds are not checked again."""

    topic: str
    time_us: _Time
    body: bytes
    headers: dict[str, str] = {}


_opened = msgspec.msgpack.Decoder(Opened)


def open_all(payloads: Iterable[bytes]) -> list[Opened]:
    """Open the envelopes of many messages that a node accepted before. Raises `ProtocolError`."""
    try:
        return list(map(_opened.decode, payloads))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a message's payload is not an envelope: {error}") from None


def label(payload: bytes) -> str:
    """Read the topic alone, at a fraction of the cost. Raises `ProtocolError` like `unseal`."""
    try:
        return _labels.decode(payload).topic
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a message's payload is not an envelope: {error}") from None


def time_of(payload: bytes) -> int:
    """Read when a message was published; 0 if its envelope does not say."""
    try:
        return _stamps.decode(payload).time_us
    except msgspec.DecodeError:
        return 0


class _Marked(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An envelope with a mark behind the fields that readers see."""

    topic: msgspec.Raw
    time_us: msgspec.Raw
    body: msgspec.Raw
    headers: msgspec.Raw
    mark: tuple[int, int]


_marks = msgspec.msgpack.Decoder(_Marked)

#: The first byte of a marked envelope: an array of five, not of four.
_MARKED: Final = b"\x95"
_FIRST_BYTE: Final = itemgetter(0)


def mark_of(payload: bytes) -> tuple[int, int] | None:
    """The mark of an envelope, if it has one."""
    if not payload.startswith(_MARKED):
        return None
    try:
        return _marks.decode(payload).mark
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def unmarked(payloads: Sequence[bytes]) -> Sequence[bytes]:
    """Payloads without their marks: what clients may send, and what they are shown."""
    try:
        if _MARKED[0] not in set(map(_FIRST_BYTE, payloads)):
            return payloads  # mostly: marks are for rows of a bulk release
    except IndexError:
        pass  # one is empty
    return [payload if payload[:1] != _MARKED else _unmark(payload) for payload in payloads]


def _unmark(payload: bytes) -> bytes:
    try:
        found = _marks.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload
    return b"".join((b"\x94", found.topic, found.time_us, found.body, found.headers))


def check_headers(headers: dict[str, str]) -> None:
    """Raises `UsageError` or `LimitError`."""
    if not isinstance(headers, dict):
        raise UsageError("headers", type(headers).__name__, "is not a dict", 'write for example {"lang": "en"}')
    if len(headers) > HEADERS_MAX:
        raise LimitError("the number of headers", len(headers), HEADERS_MAX, "put the rest into the body")
    for word in (*headers, *headers.values()):
        if not isinstance(word, str):
            raise UsageError("header", word, "is not text", "names and values of headers are str")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError("header", word[:40], "is not valid Unicode", "leave lone surrogates out") from None
    check_header_bytes(headers)
