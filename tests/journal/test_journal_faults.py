"""A journal in trouble: a full disk, a wrong clock. Nothing acknowledged is lost, and what is left can be audited."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest

from antecede.audit import audit
from antecede.core.errors import JournalError, StoppedError
from antecede.journal import Journal, JournalFile, Retention, export_rows, segments
from antecede.journal.clock import Clock
from antecede.node.driver import Driver
from antecede.wire.memory import MemoryNetwork
from tests.wire.helpers import Keeper, message

from .test_journal import append, opened, play

DAY_US = 24 * 3600 * 1_000_000


class Hands:
    """A clock whose hands the test moves."""

    def __init__(self, wall_us: int = 1_700_000_000 * 1_000_000) -> None:
        self.wall_us = wall_us
        self.elapsed_us = 0
        self.clock = Clock(lambda: self.wall_us, lambda: self.elapsed_us)

    def pass_us(self, time_us: int) -> None:
        """Time passes, at both clocks."""
        self.wall_us += time_us
        self.elapsed_us += time_us


# -- a full disk -------------------------------------------------------------------------------------------------------


async def fill_up(path: Path, monkeypatch: pytest.MonkeyPatch, *, close: bool) -> list[int]:
    """A life of a node that ends with a full disk; the numbers of messages that were acknowledged."""
    journal = await Journal.open(path, cluster="test", kept=Keeper.records)
    await journal.set_node(3)
    driver = Driver(Keeper(3), MemoryNetwork().transport(3), lambda batch: None, journal=journal)
    await driver.start()
    safe = []
    write, room = os.pwritev, 1 << 40

    def limited(file: int, parts: Sequence[bytes], at: int) -> int:
        nonlocal room
        data = b"".join(parts)
        room -= len(data)
        return write(file, [data[: max(0, len(data) + min(0, room))]], at)

    try:
        for number in range(10_000):
            if number == 20:  # as much as there is, and a few batches more
                monkeypatch.setattr(segments.os, "pwritev", limited)
                room = 10_000
            several = [driver.publish_durably("t", b"payload " * 20) for _ in range(7)]
            for done in await asyncio.gather(*several):
                safe.append(done.seq)
    except StoppedError:
        assert isinstance(driver.stopped.exception(), JournalError)
    assert journal.position == safe[-1]  # it moves with the commit, not before
    driver.abort()
    if close:
        await journal.close()
    else:
        journal.abort()
    monkeypatch.setattr(segments.os, "pwritev", write)
    return safe


@pytest.mark.parametrize("close", [True, False])
def test_after_a_full_disk_the_journal_goes_on_and_can_be_audited(
    close: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"

    async def test() -> None:
        first = await fill_up(path, monkeypatch, close=close)
        second = await fill_up(path, monkeypatch, close=close)
        assert first + second == list(range(1, len(first) + len(second) + 1))
        assert len(first) > 140
        journal = await Journal.open(path, cluster="test", kept=Keeper.records, check="full")
        page = await journal.read(0, limit=100_000)
        assert [item.message.seq for item in page.items] == first + second
        await journal.close()

    play(test)
    report = audit(list(export_rows([path])))
    assert report.ok, str(report)


def test_a_stop_that_cannot_be_written_still_releases_the_file(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        await append(journal, message(1))
        connection = journal._store._writer._connection
        connection.execute("PRAGMA query_only=1")
        await journal.close()
        journal = await opened(tmp_path / "journal")
        assert journal.position == 1
        await journal.close()

    play(test)


# -- a wrong clock -----------------------------------------------------------------------------------------------------


async def life(path: Path, hands: Hands, seqs: Iterator[int] | range, wanted: Retention) -> list[int]:
    """A life of a journal: a message and a look of retention each minute; the positions that are left."""
    journal = await opened(path, clock=hands.clock)
    for seq in seqs:
        await append(journal, message(seq), time_us=hands.wall_us)
        hands.pass_us(60 * 1_000_000)
        await journal.retain(wanted)
    page = await journal.read(journal.removed)
    await journal.close()
    return [item.position for item in page.items]


def test_a_clock_that_jumps_ahead_does_not_age_anything(tmp_path: Path) -> None:
    hour = Retention(age_us=60 * 60 * 1_000_000)

    async def test() -> None:
        path, hands = tmp_path / "journal", Hands()
        assert await life(path, hands, range(1, 31), hour) == list(range(1, 31))
        hands.wall_us += 2 * DAY_US  # the clock is set wrong while the node is off
        assert await life(path, hands, range(31, 41), hour) == list(range(1, 41))
        hands.wall_us -= 2 * DAY_US  # and set right
        assert await life(path, hands, range(41, 51), hour) == list(range(1, 51))
        # An hour of running time later what is older goes, whatever the clock said.
        left = await life(path, hands, range(51, 121), hour)
        assert left[-1] == 120
        assert 55 <= left[0] <= 62
        with JournalFile(path) as file:
            times = [one.time_us for chunk in file.blocks(left[0] - 1, 120) for one in chunk]
        assert max(times) < hands.wall_us  # stamped by the clock as it is, not as it was

    play(test)


def test_a_clock_that_jumps_while_the_node_runs(tmp_path: Path) -> None:
    async def test() -> None:
        hands = Hands()
        journal = await Journal.open(tmp_path / "journal", cluster="test", kept=Keeper.records, clock=hands.clock)
        driver = Driver(
            Keeper(3), MemoryNetwork().transport(3), lambda batch: None, journal=journal, wall_us=hands.clock.wall_us
        )
        await driver.start()
        await journal.set_node(3)
        right = hands.wall_us
        for wrong in (0, 2 * DAY_US, -3 * DAY_US, 0):
            hands.wall_us = right + wrong
            await driver.publish_durably("t", b"x")
            removed = await journal.retain(Retention(age_us=60 * 1_000_000))
            assert removed.removed == 0
        page = await journal.read(0)
        assert [item.time_us - right for item in page.items] == [0, 2 * DAY_US, -3 * DAY_US, 0]
        await driver.close()
        await journal.close()

    play(test)
    report = audit(list(export_rows([tmp_path / "journal"])))  # times in a trace never decrease
    assert report.ok, str(report)


def test_reading_from_a_time_misses_nothing_though_the_clock_was_set(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        times = [10, 20, 30, 100, 110, 25, 35, 40]
        for seq, time_us in enumerate(times, 1):
            await append(journal, message(seq), time_us=time_us)
        await journal.close()
        with JournalFile(tmp_path / "journal") as file:
            for since in chain(range(0, 130, 5)):
                after = file.before(since)
                wanted = [position for position, time_us in enumerate(times, 1) if time_us >= since]
                assert after == (wanted[0] - 1 if wanted else len(times))

    play(test)


def test_age_is_running_time_across_restarts(tmp_path: Path) -> None:
    """Off for a month, then on: what was there when it stopped is as old as it was."""
    week = Retention(age_us=7 * DAY_US)

    async def test() -> None:
        path, hands = tmp_path / "journal", Hands()
        for begin in range(1, 301, 100):
            assert len(await life(path, hands, range(begin, begin + 100), week)) == begin + 99
            hands.pass_us(30 * DAY_US)
        journal = await opened(path, clock=hands.clock)
        hands.pass_us(7 * DAY_US - 250 * 60 * 1_000_000)
        removed = await journal.retain(week)
        assert 40 <= removed.removed <= 50
        await journal.close()

    play(test)
