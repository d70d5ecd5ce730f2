"""The log of a journal, mistreated: cut at every byte, robbed of unsynced sectors, and out of room in mid-batch.

What survives is always a run of whole batches from the first on, with everything that was promised.
"""

import asyncio
import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from antecede.core.errors import GapError, JournalError
from antecede.core.process import Change
from antecede.journal import Journal, JournalFile, Retention, export_rows, index, segments
from antecede.journal.recovery import recover_log
from antecede.journal.schema import connect
from antecede.journal.segments import HEAD_BYTES, segment_bases, segment_path
from tests.wire.helpers import Got, message

from .test_journal import append, opened, play
from .torn import tear


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections, segments and tails of a few batches."""
    monkeypatch.setattr(index, "SECTION_BYTES", 300)
    monkeypatch.setattr(index, "TAIL_BYTES", 500)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1000)


async def batches(journal: Journal, count: int, **more: Any) -> None:
    """Batches of one to three messages, each with a kept record that names its last one."""
    for _ in range(count):
        begin = journal.position + 1
        sent = [message(seq, payload=b"the payload of message %d" % seq) for seq in range(begin, begin + 1 + begin % 3)]
        await append(journal, *sent, kept=[Got(sent[-1])], time_us=begin, **more)


async def check(journal: Journal, first: int = 1) -> int:
    """The journal is whole, from position `first` to its last one, which is returned."""
    found, position = [], first - 1
    while position < journal.position:
        page = await journal.read(position)
        found += page.items
        position = page.position
    wanted = list(range(first, journal.position + 1))
    assert [(one.position, one.message.seq, one.message.payload) for one in found] == [
        (seq, seq, b"the payload of message %d" % seq) for seq in wanted
    ]
    assert [one.seq for one in await journal.messages("t", 0, 1, 1 << 40)] == wanted
    ends = [record.message.seq for record in await journal.kept()]  # type: ignore[attr-defined]
    assert ends == sorted(ends)
    assert ends[-1:] == ([journal.position] if journal.position else [])
    return journal.position


def test_a_log_cut_at_every_byte_of_its_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write() -> list[int]:
        journal = await opened(tmp_path / "a" / "journal")
        ends = [0]
        for _ in range(4):
            await batches(journal, 1)
            ends.append(journal.position)
        journal.abort()
        return ends

    (tmp_path / "a").mkdir()
    ends = asyncio.run(write())
    log = segment_path(tmp_path / "a" / "journal", 0).read_bytes()
    tables = (tmp_path / "a" / "journal").read_bytes()
    copy = tmp_path / "journal"
    reached = []
    for sync in ("fsync", "fdatasync"):  # it would take most of the time, and changes nothing here
        monkeypatch.setattr(segments.os, sync, lambda file: None)
    for cut in range(HEAD_BYTES, len(log) + 1):
        copy.write_bytes(tables)
        segment_path(copy, 0).write_bytes(log[:cut])
        connection = connect(copy)
        connection.execute("PRAGMA synchronous=OFF")
        writer, gathering = recover_log(connection, copy)
        assert segment_path(copy, 0).stat().st_size == writer.end <= cut
        reached.append(gathering.position)
        writer.close()
        connection.close()
    assert reached == sorted(reached)
    assert sorted(set(reached)) == ends
    # Nothing more is lost than the entry that was cut.
    assert [reached.count(end) for end in ends[:-1]] == [size for size in _sizes(log) if size]


def _sizes(log: bytes) -> Iterator[int]:
    at = HEAD_BYTES
    while at < len(log):
        size = segments.entry_size(log[at:])
        assert size is not None
        yield size
        at += size


@pytest.mark.parametrize("shortens", [True, False], ids=["short write", "error"])
def test_a_disk_that_is_full_in_mid_batch(
    shortens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None
) -> None:
    """At any byte of an entry, in the middle of a segment or in the head of the next."""
    write, room = os.pwritev, 1 << 40

    def limited(file: int, parts: Sequence[bytes], at: int) -> int:
        nonlocal room
        data = b"".join(parts)
        taken = data[: max(0, room)]
        room -= len(data)
        if len(taken) == len(data):
            return write(file, parts, at)
        done = write(file, [taken], at) if taken else 0
        if shortens and taken:
            return done
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(segments.os, "pwritev", limited)

    async def test() -> None:
        nonlocal room
        rng = Random(5)
        for _ in range(25):
            room = 1 << 40
            journal = await opened(tmp_path / "journal")
            before = await check(journal)
            await batches(journal, rng.randrange(5))
            room = rng.randrange(400)
            with pytest.raises(JournalError, match="cannot be written"):
                await batches(journal, 20)
            with pytest.raises(JournalError, match="cannot be written"):  # it takes no more
                await batches(journal, 1)
            after = await check(journal)
            assert after >= before
            if rng.random() < 0.5:
                await journal.close()
            else:
                journal.abort()
            room = 1 << 40
            journal = await opened(tmp_path / "journal", check="full")
            assert await check(journal) == after
            await batches(journal, 2)
            await journal.close()

    play(test)


class Machine:
    """What is on the disk for certain, and what the system still holds in its memory.

    The log may lose any unsynced sector, and any part of its end. Of SQLite's files, which sync what they must keep, an
    earlier state may come back, but none before its last sync.
    """

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        #: By segment: how much of it is on the disk.
        self.synced = {
            base: segment_path(home / "journal", base).stat().st_size for base in segment_bases(home / "journal")
        }
        self.tables: list[dict[str, bytes]] = []
        monkeypatch.setattr(segments.os, "fdatasync", self._sync)

    def _sync(self, file: int) -> None:
        self.synced[int(os.readlink(f"/proc/self/fd/{file}")[-16:], 16)] = os.fstat(file).st_size

    def note(self, *, synced: bool = False) -> None:
        """SQLite has committed something; `synced`: to the disk itself."""
        now = {one.name: one.read_bytes() for one in self.home.iterdir() if one.name in ("journal", "journal-wal")}
        self.tables = [now] if synced else [*self.tables, now]

    def fail(self, into: Path, rng: Random) -> None:
        """Write what a power failure leaves."""
        into.mkdir()
        for name, data in rng.choice(self.tables).items():
            (into / name).write_bytes(data)
        tear(self.home / "journal", into / "journal", self.synced, rng)


@pytest.mark.parametrize("seed", range(12))
def test_power_failures(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    rng = Random(seed)

    async def test() -> None:
        home = tmp_path / "0"
        home.mkdir()
        promised = removed = 0
        machine = Machine(home, monkeypatch)
        for life in range(1, 6):
            journal = await opened(home / "journal", durability="power" if rng.random() < 0.3 else "process")
            machine.note(synced=True)
            assert await check(journal, journal.removed + 1) >= promised
            assert journal.removed >= removed
            assert all(position <= journal.position for position in (await journal.cursors()).values())
            for _ in range(rng.randrange(40)):
                what = rng.random()
                if what < 0.8:
                    sync = rng.random() < 0.1
                    await batches(journal, 1, sync=sync)
                    await asyncio.sleep(0)
                    if sync or journal._store._always_sync:
                        promised = journal.position
                    machine.note()
                elif what < 0.94:
                    await journal.set_cursor("reader", journal.position)
                    machine.note()
                elif what < 0.97:
                    await journal.compact_kept(lambda records: records[-1:])
                    promised = journal.position
                    machine.note(synced=True)
                else:
                    await journal.set_cursor("reader", journal.position)
                    kept = await journal.retain(Retention(bytes_max=rng.randrange(400)))
                    promised, removed = journal.position, kept.removed
                    machine.note(synced=True)
            await journal.set_cursor("reader", journal.position)  # behind it the index is written, if it was due
            machine.note()
            if rng.random() < 0.3:  # the process is killed, and the machine runs on
                promised = journal.position
                journal.abort()
                machine.note()
                continue
            machine.fail(tmp_path / str(life), rng)
            journal.abort()
            home = tmp_path / str(life)
            machine = Machine(home, monkeypatch)
        journal = await opened(home / "journal", check="full")
        assert await check(journal, journal.removed + 1) >= promised
        await journal.close()

    play(test)


def test_what_a_killed_process_left_is_on_the_disk_once_its_journal_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None
) -> None:
    """Several segments that were written, and neither synced nor indexed."""
    monkeypatch.setattr(index, "TAIL_BYTES", 1 << 20)

    async def test() -> None:
        home = tmp_path / "0"
        home.mkdir()
        machine = Machine(home, monkeypatch)
        journal = await opened(home / "journal")
        await batches(journal, 30)
        last = journal.position
        journal.abort()
        assert len(machine.synced) == 1 < len(segment_bases(home / "journal"))
        (await opened(home / "journal")).abort()
        machine.note(synced=True)
        machine.fail(tmp_path / "1", Random(1))
        journal = await opened(tmp_path / "1" / "journal", check="full")
        assert await check(journal) == last
        await journal.close()

    play(test)


@pytest.mark.parametrize("seed", range(4))
def test_small_segments_against_a_list(seed: int, tmp_path: Path, small: None) -> None:
    """Reading, exporting and removing, inside and outside, over many lives and segments."""
    path, rng = tmp_path / "journal", Random(seed)

    async def test() -> None:
        published = 0
        seen: dict[int, bytes] = {}
        for _ in range(4):
            gone = sorted(seen.keys() - set(segment_bases(path)))
            for base in gone[: rng.randrange(2)]:  # removed, and a power failure took that back
                segment_path(path, base).write_bytes(seen[base])
            journal = await opened(path)
            assert not gone or gone[0] not in segment_bases(path)
            await journal.set_node(0)
            for _ in range(rng.randrange(30)):
                change = [Change(0, "subscribe", "t")] if rng.random() < 0.1 else []
                await batches(journal, 1, changes=change)
                published += len(change)
                if rng.random() < 0.2:  # in a partition that the node does not take
                    for number in range(rng.randrange(20)):
                        sent = message(number + 1, source=1, payload=bytes(60))
                        await append(journal, changes=[Change(0, "publish", "u", sent)])
                seen |= {base: segment_path(path, base).read_bytes() for base in segment_bases(path)}
                if rng.random() < 0.1:
                    await journal.compact_kept(lambda records: records[-1:])
                if rng.random() < 0.1:
                    await journal.retain(Retention(bytes_max=rng.randrange(600)))
            last = await check(journal, journal.removed + 1)
            with JournalFile(path) as file:
                assert file.extent() == (journal.removed, last)
                found = [
                    one.first + at
                    for chunk in file.blocks(journal.removed, last)
                    for one in chunk
                    for at in range(len(one.block.messages))
                ]
                assert found == list(range(journal.removed + 1, last + 1))
                if journal.removed:
                    with pytest.raises(GapError):
                        list(file.blocks(journal.removed - 1, last))
            rows = list(export_rows([path]))
            assert [row.seq for row in rows if row.event.name == "DELIVER"] == found
            assert sum(row.event.name == "SUBSCRIBE" for row in rows) == published
            stored = sum(segment_path(path, base).stat().st_size for base in segment_bases(path))
            if rng.random() < 0.5:
                await journal.close()
            else:
                journal.abort()
        journal = await opened(path, check="full")
        await journal.compact_kept(lambda records: records[-1:])
        await journal.retain(Retention(age_us=0))
        assert len(segment_bases(path)) <= 2
        assert stored > sum(segment_path(path, base).stat().st_size for base in segment_bases(path))
        await batches(journal, 3)
        await check(journal, journal.removed + 1)
        await journal.close()

    play(test)


def test_records_that_are_kept_alone_do_not_fill_the_disk(tmp_path: Path, small: None) -> None:
    """A journal without deliveries, as a manager has, gives up the segments whose records were compacted."""

    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        for life in range(3):
            for number in range(1, 41):
                await append(journal, kept=[Got(message(number, payload=bytes(50)))])
            assert await journal.compact_kept(lambda records: records[-1:]) == (40 + (life > 0), 1)
            assert len(segment_bases(tmp_path / "journal")) <= 2
            await journal.close()
            journal = await opened(tmp_path / "journal")
            assert await journal.kept() == [Got(message(40, payload=bytes(50)))]
        await journal.close()

    play(test)


def test_a_segment_of_another_log_is_not_read(tmp_path: Path) -> None:
    async def write(path: Path) -> None:
        path.parent.mkdir()
        journal = await opened(path)
        await batches(journal, 3)
        await journal.close()

    for name in ("a", "b"):
        asyncio.run(write(tmp_path / name / "journal"))
    shutil.copy(segment_path(tmp_path / "a" / "journal", 0), segment_path(tmp_path / "b" / "journal", 0))
    with pytest.raises(JournalError, match="its log is not whole at byte 40"):
        asyncio.run(opened(tmp_path / "b" / "journal"))


def test_a_log_without_its_tables_is_not_written_over(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        await batches(journal, 3)
        await journal.close()
        (tmp_path / "journal").unlink()
        before = segment_path(tmp_path / "journal", 0).read_bytes()
        for _ in range(2):
            with pytest.raises(JournalError, match="is missing, and a part of its log is there"):
                await opened(tmp_path / "journal")
        assert segment_path(tmp_path / "journal", 0).read_bytes() == before

    play(test)


def test_an_index_that_cannot_be_written_stops_the_journal(tmp_path: Path, small: None) -> None:
    """SQLite's file is out of room, though the log is not."""

    async def test() -> None:
        journal = await opened(tmp_path / "journal")

        async def on_and_on() -> None:
            while True:
                await batches(journal, 1)
                await asyncio.sleep(0.01)

        await batches(journal, 5)
        connection: sqlite3.Connection = journal._store._writer._connection
        connection.execute("PRAGMA query_only=1")
        with pytest.raises(JournalError, match="cannot be written"):
            await on_and_on()
        last = await check(journal)
        await journal.close()
        journal = await opened(tmp_path / "journal", check="full")
        assert await check(journal) == last
        await journal.close()

    play(test)


def test_readers_see_no_batch_that_a_power_failure_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that syncs each batch shows it to readers from outside after the sync."""
    seen = []

    async def test() -> None:
        path = tmp_path / "journal"
        journal = await opened(path, durability="power")
        await batches(journal, 1)
        with JournalFile(path) as file:
            assert file.extent() == (0, journal.position)
            sync = os.fdatasync

            def looking(of: int) -> None:
                seen.append(file.extent().position)
                sync(of)

            before = journal.position
            monkeypatch.setattr(segments.os, "fdatasync", looking)
            await batches(journal, 1)
            assert seen == [before]
            assert file.extent() == (0, journal.position)
            assert journal.position > before
        await journal.close()

    play(test)


def test_kept_records_beside_long_deliveries_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, taken = os.pread, 0

    def counting(file: int, size: int, at: int) -> bytes:
        nonlocal taken
        data = read(file, size, at)
        taken += len(data)
        return data

    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        for seq in range(1, 21):
            long = message(seq, payload=bytes(300_000)) if seq % 4 else message(seq, payload=b"short")
            await append(journal, long, kept=[Got(message(seq, payload=b"other"))])
        monkeypatch.setattr(segments.os, "pread", counting)
        assert [record.message.seq for record in await journal.kept()] == [*range(1, 21)]  # type: ignore[attr-defined]
        nonlocal taken
        before, taken = taken, 0
        assert len(await journal.kept()) == 20
        assert before > 15 * 300_000  # the tail was indexed
        assert taken < 4 * 300_000
        await journal.close()

    play(test)
