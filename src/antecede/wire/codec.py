"""Encodes records as bytes and decodes them. Bytes off the wire become records of known types or a `ProtocolError`.

    frame = length (4 bytes, big-endian) + body
    body  = one msgpack array of records; empty: a sign of life

The length is checked before memory is allocated for it. A body holds all packets that were waiting. An array is its
count followed by its elements, so a packet is encoded once, however many peers it goes to and whatever other packets
share its frame; and one call decodes the whole body.

A connection begins with `Hello` from the dialling end and `Welcome` or `Refusal` from the other, in frames of at most
`HELLO_BYTES_MAX`; packets follow. Nodes without TLS prove in between that they have the cluster key (`cluster_key`).
Records are arrays with their tag in front (`core.packet`), decoded against exactly
the types of the protocol in use, with the bounds of their fields.

**Versions.** Behind the fields a record is known to have, more may follow: a later version appended them, and they are
skipped. Fields that are missing at the end have their defaults, where they have one. Nothing else is tolerated: not an
unknown tag, a missing required field, a value of another type or out of bounds, bytes behind the array. So a release
may append optional fields without a new version; `WIRE_VERSION` counts what goes beyond that. Each end names the range
of versions it speaks, and the highest common one is used.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from antecede.core import LimitError, Packet, ProtocolError, UsageError
from antecede.core.message import Source
from antecede.wire.cluster_key import NONCE_BYTES, PROOF_BYTES
from antecede.wire.shapes import shapes_of

#: Goes up with every change that a reader of the version before would not understand.
WIRE_VERSION: Final = 2
#: The oldest version this code still speaks: that of the release before, so that a cluster is upgraded node by node.
WIRE_VERSION_OLDEST: Final = 2

#: A frame is held in memory whole, one for every peer that sends one. Twice the largest body (`envelope`).
FRAME_BYTES_MAX: Final = 1024 * 1024

#: The first frame of a stranger: a few names, a token, the shapes of its packets.
HELLO_BYTES_MAX: Final = 16 * 1024

#: Packets share a frame up to this size; a larger packet travels alone.
FRAME_BYTES_FULL: Final = 64 * 1024

LENGTH_BYTES: Final = 4

#: The first byte of a body with one record.
_ONE_RECORD: Final = 0x91

#: A frame without a body: it proves that the connection is up.
SIGN_OF_LIFE: Final = bytes(LENGTH_BYTES)

#: Characters of the names that a hello carries.
NAME_CHARACTERS_MAX: Final = 256
_Name: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)]
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Shape: TypeAlias = Annotated[str, Meta(max_length=1024)]
_Nonce: TypeAlias = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
_Proof: TypeAlias = Annotated[bytes, Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]

S = TypeVar("S", bound=msgspec.Struct)


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello", kw_only=True):
    """Names the dialling end, and the cluster, role and protocol it expects of the other end."""

    magic: Literal["antecede"] = "antecede"
    #: The latest version the dialling end speaks; `oldest` is the earliest.
    version: int = WIRE_VERSION
    cluster: _Name
    #: Which records follow: their family and its number. Of two nodes: the protocol (`PacketCodec.name`).
    speaks: _Name
    #: "node" for a link between nodes; every other service (`Listener.serve`) has a word of its own.
    role: Annotated[str, Meta(min_length=1, max_length=32)] = "node"
    #: The slot of a node that dials; others say −1.
    node: Annotated[int, Meta(ge=-1, lt=1 << 16)] = -1
    #: Counts the starts of that node: a later incarnation replaces an earlier one.
    incarnation: _Number = 0
    #: Where the dialling end can be dialled, as host:port; empty when it cannot.
    address: _Name = ""
    #: A client's name and its proof.
    name: _Name = ""
    token: _Name = ""
    oldest: int = WIRE_VERSION_OLDEST
    #: Settings on which both ends must agree: a name that both give must have one value.
    agreement: Annotated[dict[_Name, _Name], Meta(max_length=64)] = {}
    #: Of a node: what its packets look like (`shapes`).
    shapes: Annotated[dict[_Name, _Shape], Meta(max_length=256)] = {}
    #: Of a node: drawn at random when it started. Two processes that claim one incarnation differ in it; 0: not told.
    life: _Number = 0
    #: Of a node without TLS: drawn at random for this connection (`cluster_key`); None: the caller has no key.
    nonce: _Nonce | None = None


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag="challenge", kw_only=True):
    """Proves to a node without TLS that the answering end has the cluster key, and asks for the same proof."""

    nonce: _Nonce
    proof: _Proof


class Proof(msgspec.Struct, frozen=True, array_like=True, tag="proof", kw_only=True):
    """Proves that the dialling end has the cluster key."""

    proof: _Proof


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome", kw_only=True):
    """Accepts: packets may follow, in both directions, in the highest version both ends speak."""

    version: int = WIRE_VERSION
    node: Source
    incarnation: _Number = 0
    life: _Number = 0


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag="refused", kw_only=True):
    """Refuses: the connection closes after it. `reason` is one of `transport.Reason`, or one of a later version."""

    reason: _Name
    detail: Annotated[str, Meta(max_length=1024)] = ""


class RecordCodec(Generic[S]):
    """Encodes and decodes the records of a closed set of tagged types."""

    def __init__(
        self, types: Sequence[type[S]], *, frame_bytes_max: int = FRAME_BYTES_MAX, shared_bytes_max: int | None = None
    ) -> None:
        """`shared_bytes_max`: a larger frame must hold one record only. It bounds how many come at once."""
        _check_types(types)
        self._shared_bytes_max = frame_bytes_max if shared_bytes_max is None else shared_bytes_max
        self.types = tuple(types)
        self.frame_bytes_max = frame_bytes_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._full = min(FRAME_BYTES_FULL, frame_bytes_max - 5)
        any_of_them: Any = reduce(or_, types)
        self._decoder: msgspec.msgpack.Decoder[list[S]] = msgspec.msgpack.Decoder(list[any_of_them])

    def encode(self, record: S) -> bytes:
        """Encode one record, for `frames` to join with others."""
        body = self._encode(record)
        if len(body) > self.frame_bytes_max - 5:  # an array's count takes up to 5 bytes
            raise LimitError("an encoded packet in bytes", len(body), self.frame_bytes_max - 5, "send less at a time")
        return body

    def frames(self, bodies: Iterable[bytes]) -> bytes:
        """Join encoded records into frames ready to be written, in order, up to `FRAME_BYTES_FULL` to a frame."""
        parts: list[bytes] = []
        filling: list[bytes] = []
        size = 0
        for body in bodies:
            if size + len(body) > self._full and filling:
                parts += _head(len(filling), size), *filling
                filling, size = [], 0
            filling.append(body)
            size += len(body)
        if filling:
            parts += _head(len(filling), size), *filling
        return b"".join(parts)

    def frame(self, *records: S) -> bytes:
        """Encode a few records as frames, where speed does not matter."""
        return self.frames([self.encode(record) for record in records])

    def decode(self, body: bytes | memoryview) -> list[S]:
        """Decode the records of a frame's body. Raises `ProtocolError`, and nothing else."""
        if len(body) > self._shared_bytes_max and body[0] != _ONE_RECORD:
            raise ProtocolError(f"a frame of {len(body)} bytes holds one record; use {FRAME_BYTES_FULL} to share one")
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"a frame of {len(body)} bytes does not decode: {error}") from None

    def body(self, records: Sequence[S]) -> bytes:
        """Encode records as one body that `decode` reads, of any size."""
        return self._encode(records)


class PacketCodec(RecordCodec[Packet]):
    """Encodes and decodes the packets of one protocol."""

    def __init__(
        self,
        protocol: str,
        types: Sequence[type[Packet]],
        *,
        version: int = 1,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        """`version` goes up when the meaning of packets changes though their shapes do not."""
        super().__init__(types, frame_bytes_max=frame_bytes_max)
        #: What both ends of a link must say alike; and what must fit (`shapes.difference`).
        self.name = f"{protocol}/{version}"
        self.shapes = shapes_of(types)


def body_length(head: bytes | bytearray | memoryview, at: int, bytes_max: int) -> int:
    """Read the length of the body whose frame begins at `at`, and check it against `bytes_max`."""
    length = int.from_bytes(head[at : at + LENGTH_BYTES], "big")
    if length > bytes_max:
        raise ProtocolError(f"a frame announces {length} bytes, at most {bytes_max} are allowed")
    return length


def _head(count: int, size: int) -> bytes:
    """The frame's length and the array's count."""
    array = array_head(count)
    return (size + len(array)).to_bytes(4, "big") + array


def array_head(count: int) -> bytes:
    """The beginning of an array of `count` elements."""
    if count < 16:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def _tag(kind: type[msgspec.Struct]) -> object:
    return kind.__struct_config__.tag


def _check_types(types: Sequence[type[msgspec.Struct]]) -> None:
    if not types:
        raise UsageError("packets", types, "there are none", "name every packet type of the protocol")
    seen: dict[object, str] = {}
    for kind in types:
        tag = _tag(kind)
        if tag is None or not kind.__struct_config__.array_like:
            raise UsageError("packet", kind.__name__, "cannot be told from others", "make it array_like, with a tag")
        if tag in seen:
            raise UsageError("packet", kind.__name__, f"has the tag of {seen[tag]}", "give each its own")
        seen[tag] = kind.__name__


#: The records of a handshake, in either direction.
Greeting: TypeAlias = Hello | Challenge | Proof | Welcome | Refusal
HANDSHAKE: Final = RecordCodec[Greeting]((Hello, Challenge, Proof, Welcome, Refusal), frame_bytes_max=HELLO_BYTES_MAX)
