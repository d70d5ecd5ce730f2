"""The journal: what goes in is there after any end; reading, pulling, cursors, retention; doubts raised on opening."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, UsageError
from antecede.core.errors import GapError, JournalError, StoppedError
from antecede.core.process import Change
from antecede.journal import Journal, Retention, index, segments, writer
from antecede.journal.batch import Batch
from antecede.journal.schema import APPLICATION
from antecede.journal.segments import segment_bases, segment_path
from antecede.journal.writer import copy_log
from tests.wire.helpers import Got, Sent, message


def play(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(timed())


async def opened(path: Path, **more: Any) -> Journal:
    return await Journal.open(path, cluster="test", kept=(Sent, Got), **more)


async def append(journal: Journal, *messages: Message, time_us: int = 0, sync: bool = False, **more: Any) -> None:
    """One batch, committed."""
    done = asyncio.get_running_loop().create_future()
    batch = Batch(
        first=journal.position + 1,
        time_us=time_us,
        deliveries=list(messages),
        **({"changes": [], "held_us": {}} | more),
    )
    journal.append(batch, lambda error: done.set_exception(error) if error else done.set_result(None), sync=sync)
    await done


def test_what_goes_in_comes_out_in_another_life(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "journal"
        journal = await opened(path)
        assert (journal.identity.node, journal.identity.incarnation, journal.position) == (-1, 1, 0)
        await journal.set_node(5)
        sent = message(1, source=5, payload=b"mine")
        await append(
            journal,
            message(1),
            sent,
            message(2),
            time_us=1000,
            held_us={2: 77},
            kept=[Sent(sent), Got(message(1))],
            changes=[Change(1, "publish", "t", sent), Change(3, "subscribe", "u")],
        )
        await append(journal, message(3), time_us=2000, kept=[Got(message(3))], sync=True)
        await append(journal, kept=[Got(message(9))])
        await journal.close()
        await journal.close()

        journal = await opened(path, durability="power", check="full")
        assert (journal.identity.node, journal.identity.incarnation, journal.position) == (5, 2, 4)
        assert await journal.kept() == [Sent(sent), Got(message(1)), Got(message(3)), Got(message(9))]
        page = await journal.read(0)
        assert [(item.position, item.time_us, item.held_us) for item in page.items] == [
            (1, 1000, 0),
            (2, 1000, 0),
            (3, 1000, 77),
            (4, 2000, 0),
        ]
        assert [item.message for item in page.items] == [message(1), sent, message(2), message(3)]
        assert page.position == 4
        assert await journal.compact_kept(lambda kept: kept[-1:]) == (4, 1)
        assert await journal.kept() == [Got(message(9))]
        await journal.close()

    play(test)


def test_batches_are_committed_while_kept_records_are_compacted(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "journal"
        journal = await opened(path)
        for number in range(1, 5):
            await append(journal, kept=[Got(message(number))])
        begun, go_on = threading.Event(), threading.Event()

        def compact(records: list[object]) -> list[object]:
            begun.set()
            assert go_on.wait(30)
            return records[-1:]

        compacting = asyncio.create_task(journal.compact_kept(compact))
        try:
            await asyncio.to_thread(begun.wait, 30)
            await asyncio.wait_for(append(journal, message(1), kept=[Got(message(5))]), 10)
        finally:
            go_on.set()
        assert await compacting == (4, 1)
        assert await journal.kept() == [Got(message(4)), Got(message(5))]
        kept_bytes = journal.kept_bytes
        await journal.close()
        journal = await opened(path)
        assert await journal.kept() == [Got(message(4)), Got(message(5))]
        assert journal.kept_bytes == kept_bytes
        await journal.close()

    play(test)


class Log:
    """A connection on which checkpoints find so many pages in the log."""

    def __init__(self, *pages: int) -> None:
        self._pages = iter(pages)
        self.rounds = 0

    def execute(self, _: str) -> "Log":
        return self

    def fetchone(self) -> tuple[int, int, int]:
        self.rounds += 1
        pages = next(self._pages)
        return 0, pages, pages

    def should_start_over(self) -> bool:
        return copy_log(self)  # type: ignore[arg-type]


def test_the_writer_copies_little_of_a_long_log() -> None:
    log = Log(40_000, 44_000, 45_000, 45_100, 45_101)
    assert log.should_start_over()
    assert log.rounds == 4
    assert Log(*range(40_000, 80_000, 1000)).should_start_over()
    assert not Log(15_000).should_start_over()


def test_the_log_is_read_ahead_of_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that writes over pages of the log which the system has dropped from its memory waits for the disk."""
    ahead: list[int] = []
    monkeypatch.setattr("antecede.journal.writer.os.posix_fadvise", lambda *what: ahead.append(what[1]))
    copy_log(Log(15_000), 9)  # type: ignore[arg-type]
    copy_log(Log(40_000, 40_001), 9)  # type: ignore[arg-type]
    assert ahead == [15_000 * 4120, 0], "the log goes on behind its end, or starts over"


#: Batches of messages: source, topic, and how far its number lies above the one before.
RUNS = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from([1, 1, 1, 3])), max_size=6),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(RUNS, st.data())
def test_reading_and_pulling_against_a_plain_list(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, str, int]]], data: st.DataObject
) -> None:
    after = data.draw(st.integers(0, sum(map(len, batches))))
    limit = data.draw(st.integers(1, 8))
    wanted = data.draw(st.sampled_from(["a", "b", None]))
    topic, source = data.draw(st.sampled_from("ab")), data.draw(st.integers(0, 2))
    first = data.draw(st.integers(1, 12))
    last = first + data.draw(st.integers(0, 12))

    async def test() -> None:
        journal = await opened(tmp_path_factory.mktemp("j") / "journal")
        everything: list[Message] = []
        counts: dict[tuple[str, int], int] = {}
        for batch in batches:
            messages = []
            for author, name, step in batch:
                seq = counts[name, author] = counts.get((name, author), 0) + step
                messages.append(message(seq, source=author, topic=name, payload=b"%d" % seq))
            await append(journal, *messages)
            everything += messages
        assert journal.position == len(everything)

        matches = None if wanted is None else lambda one: one.topic == wanted
        found, position = [], after
        while position < len(everything):
            page = await journal.read(position, limit=limit, matches=matches)
            assert page.position > position
            found += page.items
            position = page.position
        expected = [(n, one) for n, one in enumerate(everything, 1) if n > after and wanted in (None, one.topic)]
        assert [(item.position, item.message) for item in found] == expected

        theirs = [one for one in everything if (one.topic, one.source) == (topic, source) and first <= one.seq <= last]
        assert await journal.messages(topic, source, first, last) == theirs
        assert await journal.messages(topic, source, first, last, bytes_max=1) == theirs[:1]
        await journal.close()

    play(test)


def test_cursors_and_retention(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        for number in range(1, 11):
            batch = [message(2 * number - 1, payload=bytes(1000)), message(2 * number, payload=bytes(1000))]
            await append(journal, *batch, time_us=number, changes=[Change(0, "subscribe", "t")] if number == 1 else [])
        size = journal.stored_bytes
        assert size > 20_000
        await journal.set_cursor("reader", 7)
        with pytest.raises(UsageError, match="not a position"):
            await journal.set_cursor("reader", 21)

        kept = await journal.retain(Retention())
        assert (kept.removed, kept.deliveries) == (0, 0)
        kept = await journal.retain(Retention(age_us=0))
        assert (kept.removed, kept.deliveries, kept.held_back) == (
            6,
            6,
            {"reader": 7},
        )  # whole blocks, up to the cursor
        with pytest.raises(GapError, match="positions 3 to 6 were removed") as gap:
            await journal.read(2)
        assert gap.value.first == 7
        assert [item.position for item in (await journal.read(6)).items] == list(range(7, 21))
        assert await journal.messages("t", 0, 1, 9) == [
            message(7, payload=bytes(1000)),
            *[message(seq, payload=bytes(1000)) for seq in (8, 9)],
        ]

        await journal.set_cursor("reader", 20)
        kept = await journal.retain(Retention(bytes_max=size // 2), needed_from=9)
        assert (kept.removed, kept.held_back) == (8, {"node": 8})
        kept = await journal.retain(Retention(bytes_max=size // 2), needed_from=19)
        assert (kept.removed, kept.held_back) == (10, {})
        assert kept.bytes_left == journal.stored_bytes <= size // 2
        await journal.drop_cursor("reader")
        assert await journal.cursors() == {}
        await journal.close()

        journal = await opened(tmp_path / "journal")
        assert (journal.removed, journal.position, journal.stored_bytes) == (10, 20, kept.bytes_left)
        await journal.retain(Retention(age_us=0))
        assert (journal.removed, journal.position) == (20, 20)
        await journal.close()
        journal = await opened(tmp_path / "journal")
        assert (journal.removed, journal.position) == (20, 20)  # numbers go on, though nothing is left
        await append(journal, message(21))
        assert [item.position for item in (await journal.read(20)).items] == [21]
        await journal.close()

    play(test)


def test_a_batch_that_is_committed_while_a_page_is_read_is_not_missing(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        await append(journal, message(1), message(2))
        loop = asyncio.get_running_loop()
        look = journal._view._look

        def look_and_wait_for_another_batch() -> None:
            look()
            asyncio.run_coroutine_threadsafe(append(journal, message(3)), loop).result(20)

        journal._view._look = look_and_wait_for_another_batch  # type: ignore[method-assign]
        page = await journal.read(0)
        assert ([item.message.seq for item in page.items], page.position) == ([1, 2], 2)
        journal._view._look = look  # type: ignore[method-assign]
        assert [item.message.seq for item in (await journal.read(page.position)).items] == [3]
        await journal.close()

    play(test)


def test_the_first_message_with_a_number_is_found_at_its_position(tmp_path: Path) -> None:
    """Sections of the log hold many batches, and batches many messages."""

    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        await append(journal, message(1), message(1, source=2), message(2))
        await append(journal, message(3), message(5, source=2), message(4))
        wanted = {("t", 0): 3, ("t", 2): 2, ("t", 7): 1}
        assert await journal.locate(wanted) == {("t", 0): (3, 3), ("t", 2): (5, 4)}
        await journal.close()

    play(test)


def test_only_one_process_at_a_time(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "journal"
        journal = await opened(path)
        with pytest.raises(JournalError, match=r"in use by another process \(pid \d+\)"):
            await opened(path)
        journal.abort()
        journal.abort()
        with pytest.raises(StoppedError):
            await journal.set_node(1)
        (await opened(path)).abort()

    play(test)


def test_a_journal_closes_while_a_checkpoint_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` comes just before the thread takes note that something was committed. The thread ends all the same."""
    monkeypatch.setattr(writer, "_CHECKPOINT_S", 0)

    class ClosedMeanwhile(threading.Event):
        def clear(self) -> None:
            stop.set()
            self.set()
            super().clear()

    path = tmp_path / "journal"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x)")
        checkpointer = writer._Checkpointer(str(path))
        stop, waited_for = checkpointer._stop, checkpointer._committed
        checkpointer._committed = ClosedMeanwhile()
        waited_for.set()  # what the thread waits for; it goes on with the other one
        checkpointer._thread.join(timeout=60)
        assert not checkpointer._thread.is_alive()
        checkpointer.close()
    connection.close()


def _not_sqlite(path: Path) -> None:
    path.write_bytes(b"hello" * 1000)


def _other_sqlite(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()


def _torn(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(8192, len(data), 8192):
        data[at : at + 200] = bytes(200)
    path.write_bytes(data)


def _hole(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM sections WHERE first = 21")
    connection.close()


def _changed(statement: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()

    return harm


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20_000])


def _cut_log(path: Path) -> None:
    log = segment_path(path, 0)
    log.write_bytes(log.read_bytes()[:-200])  # more than the life after the stop has written


def _zeros_in_log(path: Path) -> None:
    """As many as an entry has, so that those behind it are where they were."""
    log = segment_path(path, 0)
    data = bytearray(log.read_bytes())
    data[20_000:22_000] = bytes(2000)
    log.write_bytes(data)


def _changed_kept_record(path: Path) -> None:
    log = segment_path(path, 0)
    data = log.read_bytes()
    assert data.count(b"test.got") == 21
    log.write_bytes(data[::-1].replace(b"tog.tset", b"tog.tseT", 1)[::-1])


def _no_log(path: Path) -> None:
    segment_path(path, 0).unlink()


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (_not_sqlite, "is not a journal"),
        (_other_sqlite, "is a SQLite file, but not a journal"),
        (_newer, "has schema version 99"),
        (_torn, "is damaged"),
        (_hole, "is damaged .positions 1 to 400 hold 380 deliveries"),
        (_truncated, "is damaged"),
        (_changed("DELETE FROM sections WHERE first = 381"), "written up to position 400, and are there up to 380"),
        (_changed("DELETE FROM sections"), "written up to position 400, and are there up to 0"),
        (_changed("DELETE FROM kept"), "written from number 1 to 1, 0 from 1 to 0 are there"),
        (_changed("DELETE FROM changes"), r"changes were written up to number \d+, and are there up to 0"),
        (_changed("UPDATE facts SET value = value + 500 WHERE name = 'indexed_to'"), "its log was written up to byte"),
        (_cut_log, "its log was written up to byte"),
        (_zeros_in_log, "its log is not whole at byte"),
        (_changed_kept_record, "its log is not whole at byte"),
        (_no_log, "its log is needed from byte .*, and its first segment is missing"),
        (_changed("DELETE FROM tail"), "the table of tails has 0 rows"),
        (_changed("DELETE FROM facts WHERE name = 'removed'"), "the table of facts is incomplete"),
        (_changed("UPDATE ranges SET at = 7 WHERE at = 1"), "1 ranges name deliveries that are not there"),
    ],
)
def test_doubts_are_raised_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None], problem: str
) -> None:
    monkeypatch.setattr(index, "SECTION_BYTES", 1)  # a section a batch

    async def test() -> None:
        path = tmp_path / "journal"
        journal = await opened(path)
        await append(journal, kept=[Got(message(1))])
        await append(journal, kept=[Got(message(2))])
        await journal.compact_kept(lambda kept: kept[:1])
        for number in range(20):
            messages = [message(number * 20 + n + 1, payload=bytes(100)) for n in range(20)]
            await append(journal, *messages, kept=[Got(messages[0])] if number else [])
        await journal.close()
        (await opened(path)).abort()  # it is sound
        harm(path)
        with pytest.raises(JournalError, match=problem):
            await opened(path)
        with pytest.raises(JournalError, match=problem):  # the lock was given back
            await opened(path)

    play(test)


def test_a_flipped_bit_is_an_error_not_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1)  # a segment a batch

    async def test() -> None:
        path = tmp_path / "journal"
        journal = await opened(path)
        await append(journal, message(1, payload=b"precious" * 10))
        await append(journal, message(2))
        await append(journal, kept=[Got(message(1, payload=b"valuable" * 10))])
        await journal.close()
        _, first, _, third, *_ = [segment_path(path, base) for base in segment_bases(path)]
        data = first.read_bytes()
        assert b"preciousprecious" in data
        first.write_bytes(data.replace(b"preciousprecious", b"preciouspreciuus"))
        journal = await opened(path)  # only the newest segment is read whole when a node starts
        with pytest.raises(JournalError, match="its checksum is wrong"):
            await journal.read(0)
        with pytest.raises(JournalError, match="its checksum is wrong"):
            await journal.messages("t", 0, 1, 1)
        assert [item.message.seq for item in (await journal.read(1)).items] == [2]
        await journal.close()
        with pytest.raises(JournalError, match="its log is not whole at byte"):
            await opened(path, check="full")
        data = third.read_bytes()
        third.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(JournalError, match="its log is not whole at byte"):  # kept records are read at every start
            await opened(path)

    play(test)


class Twin(msgspec.Struct, array_like=True, tag="test.got"):
    """Cannot be told from `Got`."""


def test_other_refusals(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(JournalError, match="cannot be locked"):
            await opened(tmp_path / "no" / "journal")
        journal = await opened(tmp_path / "journal")
        with pytest.raises(UsageError, match="was not told of"):
            await append(journal, kept=["what is this?"])
        await journal.close()
        with pytest.raises(JournalError, match="belongs to cluster 'test', not 'other'"):
            await Journal.open(tmp_path / "journal", cluster="other")
        journal = await Journal.open(tmp_path / "journal", cluster="test")
        await journal.close()
        with pytest.raises(UsageError, match="has the tag of Got"):
            await Journal.open(tmp_path / "journal", cluster="test", kept=(Got, Twin))
        with pytest.raises(UsageError, match="has no tag"):
            await Journal.open(tmp_path / "journal", cluster="test", kept=(Got, tuple))

    play(test)


def test_unknown_records_are_named(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        await append(journal, kept=[Got(message(1))])
        await journal.close()
        for kept in ((Sent,), ()):
            journal = await Journal.open(tmp_path / "journal", cluster="test", kept=kept)
            with pytest.raises(JournalError, match=r"unknown tag 'test.got'.*run the protocol that wrote it"):
                await journal.kept()
            with pytest.raises(JournalError, match=r"unknown tag 'test.got'.*run the protocol that wrote it"):
                await journal.compact_kept(lambda records: records)
            await journal.close()

    play(test)


def test_the_file_is_a_journal_to_other_tools_too(tmp_path: Path) -> None:
    async def test() -> None:
        await (await opened(tmp_path / "journal")).close()
        with sqlite3.connect(tmp_path / "journal") as connection:
            assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()

    play(test)
