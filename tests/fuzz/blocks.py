"""The blocks of a journal: only `DamagedError` may escape.

An input is a byte that chooses a reader, and the body of a block. The harness adds the checksum, which would keep the
fuzzer out. What a full reader takes must encode to a block that decodes to the same.
"""

from collections.abc import Callable
from typing import Any

from antecede.core import Message
from antecede.journal import blocks
from antecede.journal.blocks import DamagedError, KeptCodec, StoredChange, seal_block
from antecede.journal.references import MARK, refer, resolve
from antecede.node.protocol import node_records
from antecede.protocols.live_registry import LIVE
from tests.fuzz.parsers import kind_of
from tests.fuzz.wire import some

KEPT = {name: KeptCodec(node_records(LIVE[name])) for name in sorted(LIVE)}


def _deliveries(block: bytes) -> object:
    found = blocks.decode_deliveries(block)
    again = blocks.encode_deliveries(found.messages, found.held_us, found.out_of_order)
    assert blocks.decode_deliveries(again) == found
    found.read(1, 0)
    return len(found.messages)


def _lean(block: bytes) -> object:
    found = blocks.decode_lean(block)
    return blocks.unpack_deps(found.messages)[0]


def _skimmed(block: bytes) -> object:
    return blocks.skim(block).begin


def _changes(block: bytes) -> object:
    return {change.what for change in blocks.decode_changes(block)}


def _kept(codec: KeptCodec) -> Callable[[bytes], object]:
    def read(block: bytes) -> object:
        records = codec.decode(block)
        assert codec.decode(seal_block(codec.encode(records))) == records
        return sorted({type(record).__name__ for record in records})

    return read


DELIVERIES = blocks.encode_deliveries(
    [Message("t", 1, seq, (), b"the payload of message %d" % seq) for seq in (1, 2)], {}
)


def _references(block: bytes) -> object:
    return len(resolve(bytes([MARK]) + block[:-4], DELIVERIES)) > 0


READERS: list[Callable[[bytes], Any]] = [
    _deliveries,
    _lean,
    _skimmed,
    _changes,
    *map(_kept, KEPT.values()),
    _references,
]


def read(data: bytes) -> set[str]:
    if not data:
        return set()
    reader = data[0] % len(READERS)
    try:
        return {f"{reader} {READERS[reader](seal_block(data[1:]))}"}
    except DamagedError as error:
        return {f"{reader} {kind_of(error)}"}


def seeds() -> dict[str, bytes]:
    messages = [Message("t", 1, 2, ((0, 1),), b"payload"), Message("u", 0, 3, (), b"", (("t", 1, 2),))]
    deliveries = blocks.encode_deliveries(messages, {1: 5}, [0])[:-4]
    changes = [
        StoredChange(0, "publish", "t", messages[0]),
        StoredChange(1, "publish", "t", None, 3),
        StoredChange(2, "subscribe", "t"),
    ]
    found = {f"deliveries-{reader}": bytes([reader]) + deliveries for reader in range(3)}
    packed = blocks.encode_deliveries(messages * 20, {}, pack=True)[:-4]
    found |= {f"packed-{reader}": bytes([reader]) + packed for reader in range(3)}
    found["changes"] = b"\x03" + blocks.encode_changes(changes)[:-4]
    for reader, (name, codec) in enumerate(KEPT.items(), start=4):
        for kind in node_records(LIVE[name]):
            for number, record in enumerate(some(kind)[:2]):
                found[f"{name}-{kind.__name__}-{number}"] = bytes([reader]) + codec.encode([record])
    sent = blocks.decode_deliveries(DELIVERIES).messages
    found["references"] = bytes([len(READERS) - 1]) + refer(DELIVERIES[:-4], sent, DELIVERIES[:-4])[1:]
    return found
