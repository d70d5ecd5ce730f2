"""A log that was damaged, or lost a segment: the node says so, when it starts and while it runs."""

import re
from pathlib import Path

import pytest

from antecede.core.errors import JournalError
from antecede.journal import Retention
from antecede.journal.segments import segment_bases, segment_path

from .test_journal import opened, play
from .test_log_torture import batches, check, small

__all__ = ["small"]


@pytest.mark.parametrize("durability", ["power", "process"])
def test_damage_amid_batches_that_are_not_indexed_is_told(
    durability: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Batches behind it were on the disk. A node that promised no more than to survive `kill -9` may have lost them."""
    path = tmp_path / "journal"

    async def test() -> None:
        journal = await opened(path, durability=durability)
        await batches(journal, 20)
        last = journal.position
        journal.abort()
        journal = await opened(path, durability=durability)
        assert await check(journal) == last
        assert not caplog.records
        begin = segment_path(path, 0).stat().st_size
        await batches(journal, 20)
        journal.abort()
        log = bytearray(segment_path(path, 0).read_bytes())
        log[begin + 100] ^= 1
        segment_path(path, 0).write_bytes(log)
        if durability == "power":
            with pytest.raises(JournalError, match="its log is not whole at byte"):
                await opened(path, durability=durability)
            return
        journal = await opened(path, durability=durability)
        assert last <= await check(journal) < last + 10
        assert f"bytes behind position {journal.position} are not whole" in caplog.text
        await journal.close()

    play(test)


@pytest.mark.parametrize("which", [0, 2])
def test_a_segment_that_is_removed_under_a_running_node_is_told(which: int, tmp_path: Path, small: None) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        await batches(journal, 60)
        bases = segment_bases(tmp_path / "journal")
        segment_path(tmp_path / "journal", bases[which]).unlink()
        told = "a part of its log is (missing|not whole)"
        failed = None
        for less in range(journal.stored_bytes, 0, -40):
            try:
                await journal.retain(Retention(bytes_max=less))
            except JournalError as error:
                failed = str(error)
                break
        assert failed is not None
        assert re.search(told, failed)
        with pytest.raises(JournalError, match=told):
            await batches(journal, 1)
        await journal.close()

    play(test)
