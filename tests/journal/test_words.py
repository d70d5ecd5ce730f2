"""Kept records packed with a dictionary: they come back as they were, and the dictionary stays as it is."""

from pathlib import Path
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core import Message
from antecede.journal import words
from antecede.journal.blocks import DamagedError, open_block, seal_block
from antecede.protocols.tno.event import encode_event, topic_id
from antecede.protocols.tno.records import Told
from antecede.protocols.vcube_ps.records import Delivered
from tests.wire.helpers import Got, message

from .test_journal import append, opened, play


@given(
    st.binary(max_size=700)
    | st.lists(st.sampled_from([b"vps.stable", b"\xa4main", b"\x00\x01", b"x" * 50])).map(b"".join)
)
def test_records_come_back_as_they_were(data: bytes) -> None:
    records = b"\x90" + data
    packed = words.pack(records)
    assert len(packed) <= len(records)
    assert bytes(open_block(seal_block(packed))) == records


def test_the_dictionary_belongs_to_the_format() -> None:
    """Journals of version 6 cannot be read with other words: take another mark and another version for them."""
    assert (len(words.WORDS), crc32(words.WORDS)) == (759, 2891806116)


def test_records_of_a_message_in_total_become_a_third() -> None:
    event = Message("main", 0, 300, (), encode_event(message(300, topic="main", payload=b""), 0, 300, (), ()))
    records = msgspec.msgpack.encode([Delivered(event), Told(topic_id("main"), 300, True)])
    assert len(records) > 100
    assert len(words.pack(records)) < 40


@given(st.binary(max_size=60))
def test_bytes_that_do_not_unpack_are_damage(noise: bytes) -> None:
    try:
        open_block(seal_block(bytes([words.MARK]) + noise))
    except DamagedError:
        return


def test_packed_records_that_are_cut_short_are_damage() -> None:
    packed = words.pack(msgspec.msgpack.encode(["tno.told"] * 50))
    with pytest.raises(DamagedError, match="cut short"):
        open_block(seal_block(packed[:-3]))


def test_a_journal_gives_packed_records_back(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        kept: list[object] = [Got(message(seq, payload=b"other")) for seq in range(1, 40)]
        await append(journal, message(1, payload=b"payload " * 20), kept=kept)
        await journal.close()
        journal = await opened(tmp_path / "journal")
        assert await journal.kept() == kept
        await journal.close()

    play(test)
