"""A journal read from outside: the same as the node reads, in chunks, beside retention."""

import asyncio
import random
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede import Node
from antecede.core import Message
from antecede.core.errors import GapError, JournalError
from antecede.core.partitions import stream_base
from antecede.journal import Extent, Journal, JournalFile, Retention, blocks, reading
from antecede.journal.blocks import (
    DamagedError,
    decode_deliveries,
    decode_lean,
    encode_deliveries,
    plain_block,
    seal_block,
    unpack_deps,
)
from antecede.journal.schema import open_for_reading
from tests.client.running import awaited
from tests.wire.strategies import instances

from .test_journal import append, message, opened, play


async def written(path: Path, sizes: list[int]) -> Journal:
    """Batches of these sizes, the n-th at time 1000 n."""
    journal = await opened(path)
    for number, size in enumerate(sizes, 1):
        base = journal.position
        await append(journal, *[message(base + index + 1) for index in range(size)], time_us=1000 * number)
    return journal


def seqs(file: JournalFile, after: int, last: int) -> list[tuple[int, int]]:
    """Position and number of everything given, also what lies around the range."""
    return [
        (stored.first + index, one.seq)
        for chunk in file.blocks(after, last)
        for stored in chunk
        for index, one in enumerate(stored.block.messages)
    ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
@settings(max_examples=25, deadline=None)
def test_ranges_times_and_sizes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal")
    total = sum(sizes)
    after = data.draw(st.integers(0, total))
    last = data.draw(st.integers(after, total))
    bytes_max = data.draw(st.integers(1, 400))

    async def test() -> None:
        journal = await written(path / reading.FILE_NAME, sizes)
        ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
        with JournalFile(path) as file:
            assert file.extent() == Extent(0, total)
            found = seqs(file, after, last)
            assert [one for one in found if after < one[0] <= last] == [(at, at) for at in range(after + 1, last + 1)]
            for number in range(len(sizes) + 2):
                assert file.before(1000 * number) == (0, *ends)[max(0, number - 1)]
            end = file.within(after, last, bytes_max)
            assert end == last or (end in ends and end > after)
        await journal.close()

    play(test)


@given(st.lists(instances(Message), max_size=20), st.dictionaries(st.integers(0, 19), st.integers(0, 9)))
@settings(max_examples=50, deadline=None)
def test_lean_blocks_say_what_others_say(sent: list[Message], held_us: dict[int, int]) -> None:
    block = encode_deliveries(sent, held_us)
    plain, lean = decode_deliveries(block), decode_lean(block)
    assert lean.held_us == plain.held_us
    for one, other in zip(lean.messages, plain.messages, strict=True):
        assert (one.topic, one.source, one.seq, one.payload) == (other.topic, other.source, other.seq, other.payload)
    counts, flat = unpack_deps(lean.messages)
    assert counts == [len(one.deps) + len(one.across) for one in sent]
    named = [[*[(one.topic, *dep) for dep in one.deps], *one.across] for one in sent]
    assert flat == [
        number for one in named for topic, source, seq in one for number in (stream_base(topic) + source, seq)
    ]


@given(st.lists(instances(Message), max_size=20), st.dictionaries(st.integers(0, 19), st.integers(0, 9)))
@settings(max_examples=50, deadline=None)
def test_packed_blocks_say_what_plain_ones_say(sent: list[Message], held_us: dict[int, int]) -> None:
    plain, packed = encode_deliveries(sent, held_us), encode_deliveries(sent, held_us, pack=True)
    assert decode_deliveries(packed) == decode_deliveries(plain)
    assert plain_block(packed) == plain
    assert plain_block(plain) is plain


def named_alike(count: int = 16) -> list[Message]:
    """Messages of a partitioned cluster: each names the same forty of other partitions."""
    across = tuple([(f"p{number}", number % 8, 100_000 + number) for number in range(40)])
    return [Message("p0", 1, seq, (), random.Random(seq).randbytes(128), across) for seq in range(1, count + 1)]


def test_messages_that_name_the_same_others_take_little_more_than_their_payloads() -> None:
    sent = named_alike()
    assert len(encode_deliveries(sent, {})) > 16 * 500
    assert len(encode_deliveries(sent, {}, pack=True)) < 16 * 200


def test_packed_blocks_that_are_damaged() -> None:
    block = encode_deliveries(named_alike(), {}, pack=True)
    with pytest.raises(DamagedError, match="checksum"):
        decode_deliveries(block[:50] + bytes([block[50] ^ 1]) + block[51:])
    with pytest.raises(DamagedError, match="unpack"):
        decode_deliveries(seal_block(block[:2] + bytes(100)))
    with pytest.raises(DamagedError, match="cut short"):
        decode_deliveries(seal_block(block[:100]))


def test_a_packed_block_that_would_take_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_UNPACKED_MAX", 5000)
    with pytest.raises(DamagedError, match="more than 5,000 bytes"):
        decode_deliveries(encode_deliveries(named_alike(), {}, pack=True))


def test_readers_get_packed_batches_plain(tmp_path: Path) -> None:
    sent = named_alike()

    async def test() -> None:
        journal = await opened(tmp_path / "j")
        await append(journal, *sent)
        with JournalFile(tmp_path / "j") as file:
            (one,), _ = file.sealed(0, 16)
            assert one.block == encode_deliveries(sent, {})
            ((stored,),) = file.blocks(0, 16)
            assert [message.payload for message in stored.block.messages] == [message.payload for message in sent]
        await journal.close()

    play(test)


def test_chunks_are_small_and_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 1)

    async def test() -> None:
        journal = await written(tmp_path / "j", [3, 4, 5])
        with JournalFile(tmp_path / "j") as file:
            chunks = list(file.blocks(0, 12))
            assert [[stored.first for stored in chunk] for chunk in chunks] == [[1], [4], [8]]
            assert [stored.time_us for chunk in chunks for stored in chunk] == [1000, 2000, 3000]
        await journal.close()

    play(test)


def test_retention_between_two_chunks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 1)

    async def test() -> None:
        journal = await written(tmp_path / "j", [3, 4, 5])
        with JournalFile(tmp_path / "j") as file:
            chunks = file.blocks(0, 12)
            next(chunks)
            await journal.retain(Retention(bytes_max=1))
            with pytest.raises(GapError) as gap:
                next(chunks)
            assert (gap.value.after, gap.value.first) == (3, 13)
            assert file.extent() == Extent(12, 12)
            assert file.before(2500) == 12
        await journal.close()

    play(test)


def test_what_the_node_commits_is_seen_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await written(tmp_path / "j", [3])
        with JournalFile(tmp_path / "j") as file:
            await append(journal, message(4), time_us=5000)
            assert file.extent().position == 4
            assert seqs(file, 3, 4) == [(4, 4)]
            with pytest.raises(JournalError, match="ends at position 4, before 6"):
                list(file.blocks(3, 6))
        await journal.close()

    play(test)


def test_what_is_not_a_journal_of_ours(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no such file"):
        JournalFile(tmp_path)
    (tmp_path / "text").write_text("hello, I am not a journal")
    with pytest.raises(JournalError, match="is not a journal"):
        JournalFile(tmp_path / "text")
    asyncio.run(_closed(tmp_path / "j"))
    with sqlite3.connect(tmp_path / "j") as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(JournalError, match="schema version 99"):
        JournalFile(tmp_path / "j")


async def _closed(path: Path) -> None:
    await (await written(path, [1])).close()


@awaited
async def test_a_journal_that_is_written_meanwhile_is_not_taken_for_damaged(tmp_path: Path) -> None:
    """The check reads several tables: in one state of the file, though the node goes on."""
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus:
        done = asyncio.Event()

        async def check() -> int:
            checked = 0
            while not done.is_set():
                connection = await asyncio.to_thread(open_for_reading, tmp_path / "journal.db", "quick")
                connection.close()
                checked += 1
            return checked

        checking = asyncio.create_task(check())
        for _ in range(1500):
            await bus.publish("t", b"x")
        done.set()
        assert await checking > 0
