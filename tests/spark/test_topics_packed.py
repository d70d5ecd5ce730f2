"""Columns by whole arrays are those made message by message, whatever a journal holds."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from antecede.core import Message
from antecede.journal.blocks import DamagedError, decode_lean, encode_deliveries
from antecede.spark.topics.chunks import Chunk
from antecede.spark.topics.columns import SCHEMA, Builder
from antecede.spark.topics.frontiers import Window
from antecede.spark.topics.packed import packed_columns
from antecede.spark.topics.plain import plain_columns
from antecede.wire.bulk import Piece
from antecede.wire.envelope import seal

KINDS = {field.name: field.type for field in to_arrow_schema(SCHEMA, timezone="UTC")}

#: On both sides of every length at which msgpack writes another head, and the largest there are.
LENGTHS = st.integers(0, 40) | st.sampled_from([255, 256, 65_535, 65_536])
NUMBERS = st.integers(0, 300) | st.integers(0, 2**63 - 1) | st.sampled_from([127, 128, 2**16 - 1, 2**16, 2**32])
TOPICS = st.sampled_from(["a", "a/b", "rooms/1/chat", "löwe/🦁", "t" * 31, "t" * 32, "t" * 250, "$own"])
WORDS = st.dictionaries(st.text(max_size=5), st.text(max_size=40), max_size=20)
#: Bytes of any value, without hypothesis drawing each.
BODIES = st.builds(lambda size, first: bytes([(first + at) % 256 for at in range(size)]), LENGTHS, st.integers(0, 255))

OURS = st.builds(
    lambda topic, body, time_us, headers, mark: seal(topic, body, time_us=time_us, headers=headers, mark=mark),
    TOPICS,
    BODIES,
    NUMBERS,
    st.none() | WORDS,
    st.none() | st.tuples(NUMBERS, NUMBERS),
)
#: What others may send: nearly an envelope, or nothing of the kind.
ALMOST = st.lists(
    st.sampled_from(["a", "a/b", b"x", 1, -1, 2**63, 1.5, None, {}, {"k": "v"}, {"k": 1}, [1, 2], [], b"a"]), max_size=6
).map(msgspec.msgpack.encode)
STRANGE = st.sampled_from(
    [
        st.binary(max_size=20),
        ALMOST,
        st.builds(lambda payload, more: payload + more, OURS, st.binary(min_size=1, max_size=3)),
        st.builds(lambda payload, cut: payload[: len(payload) * cut // 10], OURS, st.integers(0, 9)),
    ]
)

#: Payloads that differ in one thing from what we write. Some are envelopes all the same.
TRAPS = {
    "something behind": b"\x94\xa1a\x01\xc4\x00\x80\x00",
    "something behind a mark": b"\x95\xa1a\x01\xc4\x00\x80\x92\x01\x01\x00",
    "a mark of one number": b"\x95\xa1a\x01\xc4\x00\x80\x91\x01",
    "a mark that is none": b"\x95\xa1a\x01\xc4\x00\x80\xc0",
    "a mark cut off": b"\x95\xa1a\x01\xc4\x00\x80\x92\x01",
    "nothing behind the body": b"\x93\xa1a\x01\xc4\x00",
    "too little behind the body": b"\x94\xa1a\x01\xc4\x00",
    "too few fields": b"\x92\xa1a\x01",
    "headers of another size": b"\x94\xa1a\x01\xc4\x00\xde\x00\x00",
    "headers that are no text": b"\x94\xa1a\x01\xc4\x00\x81\x01\x02",
    "a longer head of the array": b"\xdc\x00\x04\xa1a\x01\xc4\x00\x80",
    "a longer head of the topic": b"\x94\xd9\x01a\x01\xc4\x00\x80",
    "a longer time": b"\x94\xa1a\xcf\x00\x00\x00\x00\x00\x00\x00\x01\xc5\x00\x00\x80",
    "a signed time": b"\x94\xa1a\xd0\x01\xc4\x00\x80",
    "a time before 1970": b"\x94\xa1a\xff\xc4\x00\x80",
    "a time beyond all": b"\x94\xa1a\xcf\x80\x00\x00\x00\x00\x00\x00\x00\xc4\x00\x80",
    "a topic that is no text": b"\x94\xa1\xff\x01\xc4\x00\x80",
    "a topic that leaves the payload": b"\x94\xbfa\x01\xc4\x00\x80",
    "a body that leaves the payload": b"\x94\xa1a\x01\xc4\x90\x80",
    "a body that ends the payload": b"\x94\xa1a\x01\xc4\x01\x80",
    "a body that is text": b"\x94\xa1a\x01\xa1b\x80",
    "nothing": b"",
}


OWN = seal("a", b"body", time_us=1)


def messages(payloads: st.SearchStrategy[bytes], slots: int) -> st.SearchStrategy[Message]:
    sources, seqs = st.integers(0, slots - 1), NUMBERS.map(lambda number: max(1, number))
    return st.builds(
        Message,
        topic=st.sampled_from(["main", "d" * 40, "p0", "p7", "p63", "p100", "p255"]),
        source=sources,
        seq=seqs,
        deps=st.lists(st.tuples(sources, seqs), max_size=20).map(tuple),
        payload=payloads,
        across=st.lists(st.tuples(st.sampled_from(["other", "p0", "p9", "p255"]), sources, seqs), max_size=2).map(
            tuple
        ),
        clock=NUMBERS,
    )


@st.composite
def chunks(draw: st.DrawFn, payloads: st.SearchStrategy[bytes], slots: int = 2**16) -> Chunk:
    """Blocks one after the other, whole or picked from, of which some positions are asked for."""
    pieces: list[Piece] = []
    first = draw(st.integers(1, 2**40))
    begin = first
    for _ in range(draw(st.integers(0, 4))):
        sent = draw(st.lists(messages(payloads, slots), max_size=draw(st.sampled_from([3, 20]))))
        held = draw(st.dictionaries(st.integers(0, max(0, len(sent) - 1)), NUMBERS, max_size=3)) if sent else {}
        block = encode_deliveries(sent, held, draw(st.just(()) | st.just((0,))))
        places = None
        span = len(sent)
        if draw(st.booleans()):
            steps = draw(st.lists(st.integers(1, 3), min_size=len(sent), max_size=len(sent)))
            places = tuple(sum(steps[: index + 1]) for index in range(len(sent)))
            span = sum(steps) + 1
        pieces.append(Piece(first, draw(NUMBERS), block, places))
        first += span
    after = draw(st.integers(begin - 1, first))
    last = draw(st.just(first) | st.integers(after, first))
    return Chunk(pieces, after, last, last)


@st.composite
def frontiers(draw: st.DrawFn, chunk: Chunk) -> dict[int, int]:
    """By stream a number, of some streams of the chunk and of others."""
    blocks = [decode_lean(piece.block).messages for piece in chunk.pieces]
    streams = sorted({message.stream for block in blocks for message in block} | {1, 7168})
    numbers = sorted({message.seq for block in blocks for message in block} | {1})
    return draw(st.dictionaries(st.sampled_from(streams), st.sampled_from(numbers)))


def takes(some: bool) -> Any:
    return (lambda topic: topic.startswith("a")) if some else (lambda topic: True)


def table(columns: dict[str, pa.Array], kinds: dict[str, pa.DataType]) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(list(kinds.items())))
    batch.validate(full=True)
    return batch


@given(chunks(OURS), st.booleans(), st.lists(st.sampled_from(sorted(KINDS)), unique=True))
@settings(max_examples=100, deadline=None)
def test_what_we_write(chunk: Chunk, some: bool, names: Sequence[str]) -> None:
    kinds = {name: KINDS[name] for name in names} or KINDS
    assert table(packed_columns(chunk, kinds, takes(some)), kinds).equals(
        table(plain_columns(chunk, kinds, takes(some)), kinds)
    )


@given(st.data(), chunks(OURS, slots=1024))
@settings(max_examples=100, deadline=None)
def test_a_window_chooses_alike(data: st.DataObject, chunk: Chunk) -> None:
    had, until = data.draw(frontiers(chunk)), data.draw(st.none() | frontiers(chunk))
    one, other = Window(had, until), Window(had, until)
    kinds = {name: KINDS[name] for name in ("source", "seq", "deps", "payload", "position")}
    packed = table(packed_columns(chunk._replace(window=one), kinds, takes(False)), kinds)
    plain = table(plain_columns(chunk._replace(window=other), kinds, takes(False)), kinds)
    assert packed == plain
    assert one.reached == other.reached
    for row in packed.to_pylist():
        assert row["seq"] > had.get(row["source"], 0)
        assert until is None or row["seq"] <= until.get(row["source"], 0)


def check(chunk: Chunk, some: bool) -> None:
    plain = table(plain_columns(chunk, KINDS, takes(some)), KINDS)
    batch = Builder(SCHEMA, takes(some)).batch(chunk)
    assert (batch is None and not plain.num_rows) or plain.equals(batch)


@given(STRANGE.flatmap(lambda kind: chunks(OURS | kind)), st.booleans())
@settings(max_examples=100, deadline=None)
def test_whatever_others_send(chunk: Chunk, some: bool) -> None:
    check(chunk, some)


@pytest.mark.parametrize("trap", TRAPS)
def test_nearly_what_we_write(trap: str) -> None:
    ours = [seal("a", b"body", time_us=1, headers={"k": "v"}), seal("b", bytes(300), time_us=2**40, mark=(1, 2))]
    payloads = [ours[0], TRAPS[trap], ours[1]]
    sent = [Message("main", 3, seq, ((1, seq),), payload) for seq, payload in enumerate(payloads, 1)]
    block = encode_deliveries(sent, {1: 7})
    for after in range(3):
        check(Chunk([Piece(1, 5, block)], after, 2, 2), some=False)
        check(Chunk([Piece(1, 5, block), Piece(4, 6, block)], after, 6, 6), some=False)


@pytest.mark.parametrize("count", [15, 16, 1999, 2001, 4096])
def test_many_dependencies(count: int) -> None:
    deps = tuple((number % 7, number + 1) for number in range(count))
    sent = [Message("main", 0, 1, deps, OWN), Message("main", 0, 2, (), OWN), Message("main", 0, 3, deps[:20], OWN)]
    check(Chunk([Piece(1, 5, encode_deliveries(sent, {}))], 0, 3, 3), some=False)


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_damaged_block_is_told(cut: int) -> None:
    block = encode_deliveries([Message("main", 0, 1, (), seal("a", b"hello" * 20, time_us=1))], {})
    for damaged in (block[:-cut], block[:-cut] + b"\0" * cut):
        with pytest.raises(DamagedError):
            Builder(SCHEMA, takes(False)).batch(Chunk([Piece(1, 1, damaged)], 0, 1, 1))
