"""The topic index: a reader that skips by it gets exactly what a reader of everything finds, and looks at little."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message
from antecede.core.errors import GapError
from antecede.journal import Journal, JournalFile, Retention, replay, topics
from antecede.wire.topics import TopicFilter
from tests.wire.test_topics import FILTERS, TOPICS

from .test_journal import append, opened, play


async def deliver(journal: Journal, batch: Sequence[str | None]) -> None:
    """Append a batch with a delivery on each of these topics, and index it. The payload is the topic."""
    first = journal.position + 1
    messages = [Message("p0", 1, first + index, (), (topic or "").encode()) for index, topic in enumerate(batch)]
    await append(journal, *messages)
    journal.note_topics(first, batch)


def bulk(file: JournalFile, after: int, last: int, filters: Sequence[str]) -> list[int]:
    """The positions that a bulk reader with these filters is given."""
    found = []
    while after < last:
        chunk, reached = file.sealed(after, last, filters=filters)
        found += [at for one in chunk for at in range(max(one.first, after + 1), min(one.last, last) + 1)]
        assert after < reached <= last
        after = reached
    assert found == sorted(set(found))
    return found


async def replayed(journal: Journal, after: int, filters: Sequence[str]) -> list[int]:
    """The positions that a feed with these filters is given."""
    matchers = [TopicFilter(pattern).matches for pattern in filters]

    def matches(message: Message) -> bool:
        return bool(message.payload) and any(one(message.payload.decode()) for one in matchers)

    found: list[int] = []
    while after < journal.position:
        page = await journal.read(after, limit=3, matches=matches, filters=filters)
        assert page.position > after
        found += [item.position for item in page.items]
        after = page.position
    return found


Batches = st.lists(st.lists(st.none() | TOPICS, min_size=1, max_size=4), min_size=1, max_size=15)


@given(Batches, st.lists(FILTERS, min_size=1, max_size=3), st.sets(st.integers(0, 14), max_size=2), st.data())
@settings(max_examples=30, deadline=None)
def test_a_reader_that_skips_misses_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[str | None]],
    filters: list[str],
    crashes: set[int],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    whole = [topic for batch in batches for topic in batch]
    matchers = [TopicFilter(pattern).matches for pattern in filters]
    matching = [at for at, topic in enumerate(whole, 1) if topic and any(one(topic) for one in matchers)]
    after = data.draw(st.integers(0, len(whole)))
    last = data.draw(st.integers(after, len(whole)))
    removed_to = data.draw(st.integers(0, after))

    async def test() -> None:
        journal = await opened(path)
        for number, batch in enumerate(batches):
            await deliver(journal, batch)
            if number in crashes:
                journal.abort()
                journal = await opened(path)
        await journal.set_cursor("reader", removed_to)  # holds the rest back
        await journal.retain(Retention(bytes_max=1))
        assert await replayed(journal, after, filters) == [at for at in matching if at > after]
        with JournalFile(path) as file:
            found = bulk(file, after, last, filters)
            assert set(found) >= {at for at in matching if after < at <= last}
        await journal.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "SPAN", 5)
        patch.setattr(topics, "_ROWS_MAX", 2)
        play(test)


def test_a_rare_topic_costs_what_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 spans, three hold the topic. A reader looks at those, at the open span, and at few in vain."""
    path = tmp_path / "j"
    looked_at = 0
    decode = replay.decode_deliveries

    def counted(block: bytes) -> object:
        nonlocal looked_at
        looked_at += 1
        return decode(block)

    async def test() -> None:
        journal = await opened(path)
        for number in range(6000):
            rare = number in (1000, 2500, 4001)
            await deliver(journal, ["rare/one" if rare else f"often/{number % 100}/x"])
        await journal.retain(Retention())  # writes the index
        with JournalFile(path) as file:
            assert len(bulk(file, 0, 6000, ["rare/one"])) < 800
            assert len(bulk(file, 0, 6000, ["rare/#"])) < 800
            assert len(bulk(file, 0, 6000, ["often/#"])) == 6000
            assert len(bulk(file, 0, 6000, [])) == 6000
            assert len(bulk(file, 0, 6000, ["+/one"])) == 6000  # the index knows of no front to look for
        monkeypatch.setattr(replay, "decode_deliveries", counted)
        assert await replayed(journal, 0, ["rare/one"]) == [1001, 2501, 4002]
        assert looked_at < 800
        await journal.close()

    monkeypatch.setattr(topics, "SPAN", 100)
    play(test)


def test_spans_that_hold_the_same_topics_do_not_all_give_the_same_wrong_answer(tmp_path: Path) -> None:
    topics_held = [f"sensors/{number}/temperature" for number in range(16)]
    spans = [topics.Span(first, first + 15, topics_held) for first in range(1, 1600, 16)]
    blooms = [(span.first, topics._bloom(span)) for span in spans]
    wrong = [
        sum(topics._may_hold(bloom, first, [f"rare/{number}".encode()]) for first, bloom in blooms)
        for number in range(200)
    ]
    assert 0 < sum(wrong) < 200 * 100 / 40  # about one in eighty
    assert max(wrong) < 10


def test_the_index_of_a_stopped_node_is_complete(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "j")
        await deliver(journal, ["a", "b"])
        await journal.close()
        with JournalFile(tmp_path / "j") as file:
            assert bulk(file, 0, 2, ["c"]) == []

    play(test)


def test_a_journal_without_an_index_is_read_whole(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await opened(tmp_path / "j")
        await deliver(journal, ["a", "b"])
        await journal.close()
        connection = sqlite3.connect(tmp_path / "j")
        connection.execute("DROP TABLE topic_spans")  # as versions left it that had none
        connection.close()
        with JournalFile(tmp_path / "j") as file:
            assert bulk(file, 0, 2, ["c"]) == [1, 2]

    play(test)


def test_removed_deliveries_are_a_gap_for_every_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for one that the index knows was not among them: its row is gone with them."""

    async def test() -> None:
        journal = await opened(tmp_path / "j")
        for _ in range(3):
            await deliver(journal, ["a", "b"])
        await journal.retain(Retention(bytes_max=1))
        for filters in (["a"], ["c"]):
            with pytest.raises(GapError), JournalFile(tmp_path / "j") as file:
                file.sealed(0, 6, filters=filters)
            with pytest.raises(GapError):
                await journal.read(0, filters=filters)
        await journal.close()
        with sqlite3.connect(tmp_path / "j") as connection:
            assert connection.execute("SELECT count(*) FROM topic_spans").fetchall() == [(0,)]

    monkeypatch.setattr(topics, "SPAN", 2)
    play(test)
