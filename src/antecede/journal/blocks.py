"""Blocks: what a journal stores, as bytes with a checksum.

A batch is stored as up to three blocks: its deliveries, its changes, its kept records, in one entry of the log
(`entries`). The checksum notices flipped bits, which become an error that names the journal.

Messages of a partitioned cluster name dozens of others, mostly the same ones as the message before. So their blocks are
*packed* by zlib, to about half. A plain block begins with the head of a msgpack array; a packed one with zlib's 0x78.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import reduce
from operator import attrgetter, or_
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from antecede.core import Message, UsageError
from antecede.core.partitions import stream_base
from antecede.core.process import Change
from antecede.journal import words
from antecede.journal.batch import Batch

T = TypeVar("T")

_Count: TypeAlias = Annotated[int, Meta(ge=0)]


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """A delivery as the journal gives it back."""

    position: int
    time_us: int
    held_us: int
    message: Message
    #: Could it not be given in the order promised?
    out_of_order: bool = False


class DeliveryBlock(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The deliveries of a batch."""

    messages: list[Message]
    #: Index to hold time, of those that waited.
    held_us: dict[int, _Count]
    #: Indexes of those that could not be given in the order promised.
    out_of_order: list[int] = []

    def read(self, first: int, time_us: int) -> list[Delivered]:
        held, tagged = self.held_us, frozenset(self.out_of_order)
        return [
            Delivered(first + index, time_us, held.get(index, 0), message, index in tagged)
            for index, message in enumerate(self.messages)
        ]


class LeanMessage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A stored message for bulk readers: not checked again, its dependencies not unpacked."""

    topic: str
    source: int
    seq: int
    deps: msgspec.Raw
    payload: bytes
    across: msgspec.Raw = msgspec.Raw(b"\x90")
    clock: int = 0

    @property
    def stream(self) -> int:
        """`core.partitions`."""
        return stream_base(self.topic) + self.source


class LeanBlock(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """`DeliveryBlock` for bulk readers."""

    messages: list[LeanMessage]
    held_us: dict[int, int]


class SkimmedBlock(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """`DeliveryBlock` with its messages unopened, as bytes; the first is at byte `begin` of the block."""

    messages: list[msgspec.Raw]
    held_us: dict[int, int]

    @property
    def begin(self) -> int:
        # Behind the first byte of the block's array, and the head of the array of messages.
        count = len(self.messages)
        return 1 + (1 if count < 16 else 3 if count < 1 << 16 else 5)


class StoredChange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A change of a batch: after how many deliveries, kind, topic. The journal itself adds crash, stop and recover."""

    after: _Count
    what: str
    topic: str
    #: With `publish`: the message; None when it is the delivery right behind, as a publisher's own mostly is.
    message: Message | None = None
    #: With `publish`: this many, each with the delivery right behind it. Read back as so many changes.
    count: _Count = 1
    #: With `publish`: the index of the kept record of the batch that begins with the message; −1: there is none.
    kept: Annotated[int, Meta(ge=-1)] = -1


def store_changes(batch: Batch) -> list[StoredChange]:
    """The changes of a batch, its runs as one each."""
    deliveries = batch.deliveries
    stored: list[StoredChange] = []
    done_to = 0
    holders = _holders(batch) if any(change.message is not None for change in batch.changes) else {}
    for run in batch.runs:
        stored += [_stored(change, deliveries, holders) for change in batch.changes[done_to : run.before]]
        done_to = run.before
        stored.append(StoredChange(run.after, "publish", deliveries[run.after].topic, None, run.length))
    stored += [_stored(change, deliveries, holders) for change in batch.changes[done_to:]]
    return stored


def _stored(change: Change, deliveries: Sequence[Message], holders: dict[int, int]) -> StoredChange:
    behind = change.after < len(deliveries) and deliveries[change.after] is change.message
    if behind or change.message is None:
        return StoredChange(change.after, change.what, change.topic)
    holder = holders.get(id(change.message), -1)
    message = change.message if holder < 0 else None
    return StoredChange(change.after, change.what, change.topic, message, 1, holder)


def _holders(batch: Batch) -> dict[int, int]:
    """By the identity of messages: the index of the kept record that begins with it."""
    found: dict[int, int] = {}
    for index, record in enumerate(batch.kept):
        message = getattr(record, "message", None)
        if message is not None and getattr(record, "__struct_fields__", ())[:1] == ("message",):
            found[id(message)] = index
    return found


class DamagedError(ValueError):
    """A block does not match its checksum or does not decode."""


class UnknownRecordError(DamagedError):
    """A block is sound, but holds a record whose tag is not known here: of another protocol or a later version."""


#: Changes of one batch: many times what a node takes from clients in one turn of its event loop.
_CHANGES_MAX: Final = 1 << 20

#: What decoding raises for bytes that are no block: of another type, no UTF-8, nested too deep.
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


#: Bytes of the checksum behind a block.
SEAL_BYTES: Final = 4

#: The first byte of a packed block, and what one may hold unpacked: many times the largest batch.
_PACKED: Final = 0x78
_UNPACKED_MAX: Final = 1 << 30

#: Smaller blocks are not worth the time; zlib's fastest level does nearly as well as its best.
_PACK_FROM_BYTES: Final = 512
_PACK_LEVEL: Final = 1


def checksum(data: bytes) -> bytes:
    """What stands behind the data of a sealed block."""
    return zlib.crc32(data).to_bytes(SEAL_BYTES, "big")


def pack_block(data: bytes) -> bytes:
    """Pack a block that is not sealed, if it is large enough."""
    return zlib.compress(data, _PACK_LEVEL) if len(data) >= _PACK_FROM_BYTES else data


def seal_block(data: bytes, *, pack: bool = False) -> bytes:
    """Add the checksum; with `pack`, pack the block first if it is large enough."""
    packed = pack_block(data) if pack else data
    return b"".join((packed, checksum(packed)))


def open_block(block: bytes) -> memoryview:
    view = memoryview(block)
    if len(block) < 4 or zlib.crc32(view[:-4]) != int.from_bytes(view[-4:], "big"):
        raise DamagedError("its checksum is wrong")
    if len(block) == 4 or view[0] not in (_PACKED, words.MARK):
        return view[:-4]
    unpacking, begin = (zlib.decompressobj(), 0) if view[0] == _PACKED else (words.unpacking(), 1)
    try:
        data = unpacking.decompress(view[begin:-4], _UNPACKED_MAX)
    except zlib.error as error:
        raise DamagedError(f"it does not unpack ({error})") from None
    if not unpacking.eof:
        raise DamagedError(f"it is cut short, or holds more than {_UNPACKED_MAX:,} bytes")
    return memoryview(data)


def plain_block(block: bytes) -> bytes:
    """The same block as it would be without packing. Raises `DamagedError`."""
    return seal_block(bytes(open_block(block))) if block[:1] == bytes([_PACKED]) else block


class _Tagged(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Any kept record, of which only the tag is read."""

    tag: str


class _Holding(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A kept record that begins with a message."""

    tag: str
    message: Message


_across_of = attrgetter("across")
_encode = msgspec.msgpack.Encoder().encode
_deliveries = msgspec.msgpack.Decoder(DeliveryBlock)
_lean = msgspec.msgpack.Decoder(LeanBlock)
_skimmed = msgspec.msgpack.Decoder(SkimmedBlock)
_lean_deps = msgspec.msgpack.Decoder(list[tuple[tuple[int, int], ...]])
_deps = msgspec.msgpack.Decoder(list[tuple[int, int]])
_across = msgspec.msgpack.Decoder(list[tuple[str, int, int]])
_changes = msgspec.msgpack.Decoder(list[StoredChange])
_tagged = msgspec.msgpack.Decoder(list[_Tagged])
_raw_records = msgspec.msgpack.Decoder(list[msgspec.Raw])
_holding = msgspec.msgpack.Decoder(_Holding)


def encode_deliveries(
    messages: list[Message], held_us: dict[int, int], out_of_order: Sequence[int] = (), *, pack: bool = False
) -> bytes:
    """`pack`: pack them if they name messages of other partitions."""
    return seal_block(encode_messages(messages, held_us, out_of_order), pack=pack and name_others(messages))


def encode_messages(messages: list[Message], held_us: dict[int, int], out_of_order: Sequence[int] = ()) -> bytes:
    """Deliveries as a block that is neither packed nor sealed yet."""
    return _encode((messages, held_us, out_of_order) if out_of_order else (messages, held_us))


def name_others(messages: Sequence[Message]) -> bool:
    """Do they name messages of other partitions? Such blocks are packed in a journal."""
    return any(map(_across_of, messages))


def decode_deliveries(block: bytes) -> DeliveryBlock:
    return _decode(_deliveries, block)


def decode_lean(block: bytes) -> LeanBlock:
    return _decode(_lean, block)


def skim(block: bytes) -> SkimmedBlock:
    return _decode(_skimmed, block)


def unpack_deps(messages: Sequence[LeanMessage]) -> tuple[list[int], list[int]]:
    """How many dependencies each has, and all of them: stream, seq, stream, seq, … Raises `DamagedError`."""
    try:
        return _unpack(messages)
    except _UNDECODABLE as error:
        raise DamagedError(f"the dependencies of a message do not decode ({error})") from None


def _unpack(messages: Sequence[LeanMessage]) -> tuple[list[int], list[int]]:
    if any(stream_base(message.topic) or len(message.across) > 1 for message in messages):
        return _unpack_streams(messages)
    counts = [0] * len(messages)
    # An empty array is one byte.
    some = [index for index, message in enumerate(messages) if len(message.deps) > 1]
    if not some:
        return counts, []
    packed = b"".join([b"\xdd", len(some).to_bytes(4, "big"), *[messages[index].deps for index in some]])
    unpacked = _lean_deps.decode(packed)
    for index, deps in zip(some, unpacked, strict=True):
        counts[index] = len(deps)
    return counts, [number for deps in unpacked for pair in deps for number in pair]


def _unpack_streams(messages: Sequence[LeanMessage]) -> tuple[list[int], list[int]]:
    """`unpack_deps`, where there are partitions."""
    counts, flat = [], []
    for message in messages:
        here = stream_base(message.topic)
        found = [(here + source, seq) for source, seq in _deps.decode(message.deps)]
        found += [(stream_base(name) + source, seq) for name, source, seq in _across.decode(message.across)]
        counts.append(len(found))
        flat += [number for pair in found for number in pair]
    return counts, flat


def encode_changes(changes: list[StoredChange]) -> bytes:
    return seal_block(_encode(changes), pack=True)


def decode_changes(block: bytes, kept: Callable[[], bytes] | None = None) -> list[StoredChange]:
    """`kept`: gives the kept records of their batch, sealed; publications that they hold have their messages then."""
    stored = _decode(_changes, block)
    if kept is not None and any(change.kept >= 0 for change in stored):
        records = kept()
        stored = [change if change.kept < 0 else _held(change, records) for change in stored]
    if all(change.count == 1 for change in stored):
        return stored
    if sum([change.count for change in stored]) > _CHANGES_MAX:
        raise DamagedError(f"it claims more than {_CHANGES_MAX:,} changes")
    return [
        change if change.count == 1 else StoredChange(change.after + index, change.what, change.topic, change.message)
        for change in stored
        for index in range(change.count)
    ]


def _held(change: StoredChange, kept: bytes) -> StoredChange:
    records = _decode(_raw_records, kept)
    if change.kept >= len(records):
        raise DamagedError(f"it names kept record {change.kept} of {len(records)}")
    try:
        message = _holding.decode(records[change.kept]).message
    except _UNDECODABLE as error:
        raise DamagedError(f"the message of a kept record does not decode ({error})") from None
    return StoredChange(change.after, change.what, change.topic, message)


class KeptCodec:
    """Encodes and decodes the records a protocol keeps: a closed set of array-like structs, told apart by their tags.

    A block is one array of records, each an array with its tag in front. Python's names are stored nowhere, so classes
    may be renamed and moved; a tag stays for as long as journals do.
    """

    def __init__(self, types: Sequence[type]) -> None:
        self._tags: dict[object, str] = {}
        for kind in types:
            config = getattr(kind, "__struct_config__", None)
            if config is None or config.tag is None or not config.array_like:
                raise UsageError("kept record", kind.__name__, "has no tag", "make it an array_like struct with a tag")
            if config.tag in self._tags:
                problem = f"has the tag of {self._tags[config.tag]}"
                raise UsageError("kept record", kind.__name__, problem, "give each type a tag of its own")
            self._tags[config.tag] = kind.__name__
        self._types = frozenset(types)
        any_of_them: Any = reduce(or_, types) if types else msgspec.Raw
        self._decoder: msgspec.msgpack.Decoder[list[object]] = msgspec.msgpack.Decoder(list[any_of_them])

    def encode(self, records: Sequence[object]) -> bytes:
        """The records as a block that is not sealed yet. Raises `UsageError` for a type that is not among ours."""
        for record in records:
            if type(record) not in self._types:
                problem = "is of a type the journal was not told of"
                raise UsageError("kept record", type(record), problem, "name its type when opening the journal")
        return _encode(records)

    def decode(self, block: bytes) -> list[object]:
        """The records of a block. Raises `DamagedError`, and `UnknownRecordError` for a tag not among ours."""
        body = open_block(block)
        try:
            if self._types:
                return self._decoder.decode(body)
        except _UNDECODABLE as error:
            self._check_tags(body)
            raise DamagedError(f"a record does not decode ({error})") from None
        self._check_tags(body)
        return []

    def _check_tags(self, body: memoryview) -> None:
        """Raise `UnknownRecordError` when it is an unknown tag that keeps `body` from decoding."""
        try:
            tags = [record.tag for record in _tagged.decode(body)]
        except _UNDECODABLE:
            return
        unknown = next((tag for tag in tags if tag not in self._tags), None)
        if unknown is not None:
            raise UnknownRecordError(f"it holds a record with the unknown tag {unknown!r}")


def _decode(decoder: msgspec.msgpack.Decoder[T], block: bytes) -> T:
    try:
        return decoder.decode(open_block(block))
    except _UNDECODABLE as error:
        raise DamagedError(f"it does not decode ({error})") from None
