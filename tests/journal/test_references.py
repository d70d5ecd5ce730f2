"""The log has a message once, though deliveries and kept records contain it, and gives both back whatever happens."""

import asyncio
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core import Message
from antecede.core.process import Change
from antecede.journal import Journal, Retention, export_rows, index, segments
from antecede.journal.blocks import DamagedError, encode_deliveries, encode_messages, seal_block
from antecede.journal.references import MARK, refer, resolve
from antecede.journal.schema import connect
from antecede.journal.segments import segment_bases, segment_path
from antecede.journal.view import View
from tests.wire.helpers import Got, Sent, message

from .test_journal import append, opened, play

PAYLOADS = st.sampled_from([b"", b"short", b"a" * 24, b"ab" * 30, bytes(range(200)), b"\xc1" * 40, b"\x00" * 70_000])
MESSAGES = st.builds(
    Message,
    st.sampled_from(["t", "u"]),
    st.integers(0, 3),
    st.integers(1, 300),
    st.just(()) | st.just(((1, 2),)),
    PAYLOADS,
    st.just(()) | st.just((("v", 1, 5),)),
)


def logs(path: Path) -> bytes:
    return b"".join([segment_path(path, base).read_bytes() for base in segment_bases(path)])


@given(st.lists(MESSAGES, max_size=6), st.data())
def test_what_refers_is_resolved(messages: list[Message], data: st.DataObject) -> None:
    """Messages in any order, some of them twice, or not among the deliveries, or only their payloads."""
    among = st.sampled_from(messages) if messages else MESSAGES
    pieces = data.draw(st.lists(st.one_of(among, MESSAGES, among.map(lambda one: one.payload), st.binary(max_size=60))))
    kept = b"".join([one if isinstance(one, bytes) else encode_deliveries([one], {}) for one in pieces])
    if kept[:1] == bytes([MARK]):  # no msgpack value begins so
        kept = b"\x90" + kept
    block = encode_deliveries(messages, {}, pack=data.draw(st.booleans()))
    assert resolve(refer(kept, messages, encode_messages(messages, {})), block) == kept


def test_a_run_of_messages_costs_some_bytes_each() -> None:
    rng = Random(1)
    messages = [message(seq, payload=rng.randbytes(128)) for seq in range(1, 401)]
    block = encode_deliveries(messages, {})
    referring = refer(block[:-4], messages, block[:-4])
    assert referring[0] == MARK
    assert len(referring) < 10 * len(messages)
    assert resolve(referring, block) == block[:-4]


@given(st.binary(max_size=60), st.lists(st.integers(-(1 << 40), 1 << 40), max_size=9), st.binary(max_size=9))
def test_wrong_references_are_damage(noise: bytes, pieces: list[int], rest: bytes) -> None:
    block = encode_deliveries([message(1, payload=b"x" * 50)], {})
    for hostile in (noise, msgspec.msgpack.encode([pieces, rest])):
        try:
            resolve(bytes([MARK]) + hostile, block)
        except DamagedError:
            continue


def test_references_that_multiply_and_deliveries_that_changed_are_damage() -> None:
    huge = encode_deliveries([message(1, payload=bytes(1 << 20))], {})
    hostile = bytes([MARK]) + msgspec.msgpack.encode([[0, 0, 1 << 20, 0, -(1 << 20), 1 << 20] * 520, b""])
    with pytest.raises(DamagedError, match="to too much of them"):
        resolve(hostile, huge)
    block = encode_deliveries([message(1, payload=b"x" * 50)], {})
    with pytest.raises(DamagedError, match="checksum"):
        resolve(refer(block[:-4], [message(1, payload=b"x" * 50)], block[:-4]), block[:-1] + b"!")


@pytest.mark.parametrize("kept", [lambda sent: [*sent, *sent], lambda sent: [one for one in sent for _ in range(3)]])
def test_what_is_kept_twice_refers_twice(kept: Any) -> None:
    rng = Random(2)
    sent = [message(seq, payload=rng.randbytes(100)) for seq in range(1, 31)]
    data, block = msgspec.msgpack.encode(kept(sent)), encode_deliveries(sent, {})
    referring = refer(data, sent, block[:-4])
    assert [referring.count(one.payload) for one in sent] == [0] * 30
    assert resolve(referring, block) == data


def test_a_message_that_is_delivered_and_kept_is_on_the_disk_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    sent = [message(seq, payload=Random(seq).randbytes(128)) for seq in range(1, 41)]

    async def test() -> None:
        journal = await opened(path)
        await append(journal, sent[0], kept=[Got(sent[0])])
        await append(journal, *sent[1:], kept=[Got(one) for one in sent[1:]])
        kept_bytes = journal.kept_bytes
        await journal.close()
        data = logs(path)
        assert [data.count(one.payload) for one in sent] == [1] * 40
        journal = await opened(path)
        assert await journal.kept() == [Got(one) for one in sent]
        assert journal.kept_bytes == kept_bytes > 40 * 128  # what a node reads when it starts, and compaction bounds
        await journal.close()

    play(test)


def test_what_is_kept_and_not_delivered_with_it_is_there_itself(tmp_path: Path) -> None:
    """A publication that the node does not deliver, and records of messages that come later or came before."""
    path = tmp_path / "journal"
    one, other, third = (message(seq, payload=Random(seq).randbytes(128)) for seq in (1, 2, 3))

    async def test() -> None:
        journal = await opened(path)
        await journal.set_node(9)
        await append(journal, kept=[Got(one)])
        await append(journal, one, kept=[Got(other), Got(one)])
        away = message(1, source=9, payload=other.payload)
        await append(journal, other, kept=[Sent(away), Got(other)], changes=[Change(1, "publish", "t", away)])
        await append(journal, third, kept=[Got(other)])
        await journal.close()
        journal = await opened(path)
        assert await journal.kept() == [Got(one), Got(other), Got(one), Sent(away), Got(other), Got(other)]
        await journal.close()
        assert [row.source for row in export_rows([path]) if row.event.name == "PUBLISH"] == [9]
        with closing(View(path, connect(path, read_only=True))) as view, view.reading():
            assert [change.message for _, _, change in view.changes() if change.what == "publish"] == [away]
        assert logs(path).count(other.payload) == 3  # alone, beside a delivery of another message, and delivered

    play(test)


@pytest.mark.parametrize("seed", range(3))
def test_retention_and_compaction_leave_what_kept_records_need(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers lose deliveries while kept records refer to them; also over restarts, in small segments."""
    monkeypatch.setattr(index, "SECTION_BYTES", 300)
    monkeypatch.setattr(index, "TAIL_BYTES", 500)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1000)
    path, rng = tmp_path / "journal", Random(seed)

    async def test() -> None:
        wanted: list[Any] = []
        journal: Journal = await opened(path)
        for _ in range(80):
            begin = journal.position + 1
            sent = [message(seq, payload=rng.randbytes(60)) for seq in range(begin, begin + rng.randint(1, 4))]
            wanted += [Got(one) for one in sent]
            await append(journal, *sent, kept=[Got(one) for one in sent])
            draw = rng.random()
            if draw < 0.2:
                await journal.retain(Retention(bytes_max=rng.choice((0, 300))))
            elif draw < 0.3:
                cut = rng.randint(0, len(wanted))
                await journal.compact_kept(lambda records, cut=cut: records[cut:])  # type: ignore[misc]
                wanted = wanted[cut:]
            elif draw < 0.4:
                await (journal.close() if rng.random() < 0.5 else asyncio.to_thread(journal.abort))
                journal = await opened(path, check="full")
            assert await journal.kept() == wanted
        assert journal.removed > 100
        await journal.close()

    play(test)


def test_records_without_references_begin_otherwise() -> None:
    sent = message(1, payload=b"x" * 50)
    block = encode_deliveries([sent], {})
    for kept in (b"\x90", block[:-4], b""):
        assert resolve(kept, seal_block(b"")) == kept
