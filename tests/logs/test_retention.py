"""Records that retention removed, or that were deleted: told and tagged, and they hold up nobody."""

import asyncio
from typing import Any

import pytest

from antecede import GapError
from antecede.logs import Batch, Bounds, LogRecord, connect
from antecede.logs.connect import connect_adapter
from antecede.logs.contract import split_at_gaps
from tests.logs.stories import Logs, play, take
from tests.logs.systems import System


def test_what_retention_removed_is_told(lasting: System, logs: Logs) -> None:
    async def story() -> None:
        await lasting.create(*logs)
        url = lasting.url(*logs)
        async with connect(url) as bus:
            async with bus.subscribe("#", since="0") as feed:
                await bus.publish(f"{logs[0]}/1", b"0")
                cursor = (await anext(feed)).cursor
            ids = [await bus.publish(f"{logs[0]}/1", str(index).encode()) for index in range(1, 10)]
            await bus.publish(f"{logs[1]}/1", b"names removed ones")
            await lasting.remove_until(logs[0], 3)
            async with bus.subscribe("#", since=cursor) as feed:
                with pytest.raises(GapError, match=f"{logs[0]}: retention removed offsets"):
                    await take(feed, 100)
            async with bus.subscribe("#", since=cursor, over_gaps=True) as feed:
                read = await take(feed, 4)
                in_log = [message.payload for message in read if message.topic.startswith(logs[0])]
                assert in_log == [b"7", b"8", b"9"]
                (gap,) = feed.gaps
                assert gap.first <= ids[0].seq
                assert gap.last == ids[6].seq - 1

    play(story)


def test_a_record_that_names_what_retention_removed_is_tagged(lasting: System, logs: Logs) -> None:
    async def story() -> None:
        await lasting.create(*logs)
        async with connect(lasting.url(*logs)) as bus:
            async with bus.subscribe("#", since="0") as feed:
                start = feed.cursor
            await bus.publish(f"{logs[0]}/1", b"question")
            await bus.publish(f"{logs[1]}/1", b"answer")
            await bus.publish(f"{logs[0]}/1", b"kept", after=[])
            await lasting.remove_until(logs[0], 1)
            async with bus.subscribe("#", since=start, over_gaps=True) as feed:
                tagged = {message.payload: message.incomplete for message in await take(feed, 2)}
                assert tagged == {b"answer": True, b"kept": False}

    play(story)


def test_a_record_that_was_deleted_holds_up_nobody(lasting: System, logs: Logs) -> None:
    """The last record of a log, named by another log: reading alone never passes it."""

    async def story() -> None:
        await lasting.create(*logs)
        async with connect(lasting.url(*logs)) as bus, bus.subscribe("#", since="0") as feed:
            await bus.publish(f"{logs[0]}/1", b"kept")
            assert (await anext(feed)).payload == b"kept"
            start = feed.cursor
            named = await bus.publish(f"{logs[0]}/1", b"deleted")
            await bus.publish(f"{logs[1]}/1", b"answer")
            await lasting.remove(logs[0], named.seq)
            async with bus.subscribe("#", since=start, over_gaps=True) as again:
                assert (await anext(again)).payload == b"answer"

    play(story)


def test_what_retention_removes_while_a_reader_reads_is_told(lasting: System, logs: Logs) -> None:
    """The log removes more, also of what is on its way, before the reader asks for its first record."""

    async def story() -> None:
        await lasting.create(*logs)
        async with connect(lasting.url(*logs)) as bus:
            async with bus.subscribe("#", since="0") as feed:
                await bus.publish(f"{logs[0]}/1", b"0")
                cursor = (await anext(feed)).cursor
            ids = [await bus.publish(f"{logs[0]}/1", str(index).encode()) for index in range(1, 10)]
            await lasting.remove_until(logs[0], 5)
            bounds, calls = bus._adapter.bounds, 0

            async def after_more_was_removed(log: int) -> Bounds:
                nonlocal calls
                calls += 1
                if calls == 3:  # two are asked for where the feed begins
                    await lasting.remove_until(logs[0], 2)
                return await bounds(log)

            bus._adapter.bounds = after_more_was_removed  # type: ignore[method-assign]
            async with bus.subscribe("#", since=cursor, over_gaps=True) as feed:
                assert [message.payload for message in await take(feed, 5)] == [b"5", b"6", b"7", b"8", b"9"]
                (gap,) = feed.gaps
                assert (gap.first <= ids[0].seq, gap.last) == (True, ids[4].seq - 1)

    play(story)


def test_a_log_that_lost_everything_is_told(lasting: System, logs: Logs) -> None:
    """Nothing is left to read behind the gap, and another log names what is gone."""

    async def story() -> None:
        await lasting.create(*logs)
        async with connect(lasting.url(*logs)) as bus:
            async with bus.subscribe("#", since="0") as feed:
                await bus.publish(f"{logs[0]}/1", b"0")
                cursor = (await anext(feed)).cursor
            await bus.publish(f"{logs[0]}/1", b"question")
            await bus.publish(f"{logs[1]}/1", b"answer")
            await lasting.remove_until(logs[0], 0)
            async with bus.subscribe("#", since=cursor, over_gaps=True) as feed:
                answer = await anext(feed)
                assert (answer.payload, answer.incomplete) == (b"answer", True)
                assert len(feed.gaps) == 1

    play(story)


@pytest.mark.parametrize(
    ("offsets", "kept", "told"),
    [
        ([4, 5, 6], 1, [([4, 5, 6], 0)]),
        ([4, 5, 9], 1, [([4, 5, 9], 0)]),  # deleted, not removed
        ([7, 8, 9], 7, [([7, 8, 9], 7)]),
        ([8, 9], 6, [([8, 9], 8)]),  # 6 and 7 were deleted, or a replica lags
        ([7, 8, 9], 9, [([7, 8, 9], 7)]),
        ([4, 5, 8, 9], 8, [([4, 5], 0), ([8, 9], 8)]),
        ([6, 7, 9], 20, [([6, 7], 6), ([9], 9)]),
    ],
)
def test_batches_are_split_where_records_were_removed(
    offsets: list[int], kept: int, told: list[tuple[list[int], int]]
) -> None:
    records = [LogRecord(offset, None, "orders", b"", {}, 0) for offset in offsets]
    batches = split_at_gaps(records, 3, 9, kept)
    assert [([record.offset for record in batch.records], batch.first) for batch in batches] == told
    assert [batch.upto for batch in batches] == [*(part[-1] for part, _ in told[:-1]), 9]


def test_an_end_that_was_removed_is_told() -> None:
    record = LogRecord(4, None, "orders", b"", {}, 0)
    assert split_at_gaps([record], 3, 9, 8) == [Batch([record], 4), Batch([], 9, 10)]
    assert split_at_gaps([], 3, 9, 20) == [Batch([], 3), Batch([], 9, 10)]


def test_a_leader_that_was_elected_while_it_was_asked_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """JetStream: it may not have all records yet, and says that it has no message."""
    adapter: Any = connect_adapter("nats://127.0.0.1:1?streams=orders:1")
    adapter._streams = {1: "orders"}
    leaders = iter(["a", "b", "b", "b"])

    async def ask(what: str, request: Any) -> dict[str, Any]:
        if what.startswith("STREAM.INFO"):
            return {"state": {"first_seq": 1, "last_seq": 9, "messages": 9}, "cluster": {"leader": next(leaders)}}
        return {"error": {"err_code": 10037}}

    monkeypatch.setattr(adapter, "_ask", ask)
    assert asyncio.run(adapter.progress(1, 3, 9)) == 3
    assert asyncio.run(adapter.progress(1, 3, 9)) == 9


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        ([(1, [3, 4, 7, 8, 12])], 7),
        ([(1, [3, 7, 8, 9, 12])], 12),
        ([(1, [3, 7, 8, 12])], 1),  # deleted, not removed
        ([(5, [7, 8, 12])], 5),
        ([(1, [3, 7, 8, 9, 12]), (12, [12])], 12),
        ([(1, [3, 7, 8, 12]), (12, [12])], 12),  # removed between two questions
    ],
)
def test_a_leader_that_lags_behind_a_consumer(
    monkeypatch: pytest.MonkeyPatch, states: list[tuple[int, list[int]]], kept: int
) -> None:
    """JetStream: 4 to 6 and 9 to 11 were not delivered. What the leader still has of them was removed elsewhere.

    `states`: the first offset and the records of the leader, at each question; the last holds for those that follow.
    """
    adapter: Any = connect_adapter("nats://127.0.0.1:1?streams=orders:1")
    adapter._streams = {1: "orders"}
    coming = iter(states[:-1])

    async def ask(what: str, request: Any) -> dict[str, Any]:
        first, has = next(coming, states[-1])
        if what.startswith("STREAM.INFO"):
            return {"state": {"first_seq": first, "last_seq": 20, "messages": 9}}
        found = [offset for offset in has if offset >= request["seq"]]
        return {"message": {"seq": found[0]}} if found else {"error": {"err_code": 10037}}

    monkeypatch.setattr(adapter, "_ask", ask)
    records = [LogRecord(offset, None, "orders", b"", {}, 0) for offset in (3, 7, 8, 12)]
    assert asyncio.run(adapter._kept(1, 2, records)) == kept


def test_what_retention_removes_between_two_questions_is_told(lasting: System, logs: Logs) -> None:
    """A record waits for one that is gone. While the feed asks how far the log has nothing, more is removed."""

    async def story() -> None:
        await lasting.create(*logs)
        async with connect(lasting.url(*logs)) as bus:
            async with bus.subscribe("#", since="0") as feed:
                await bus.publish(f"{logs[0]}/1", b"0")
                cursor = (await anext(feed)).cursor
            for index in range(6):
                last = await bus.publish(f"{logs[0]}/1", str(index).encode())
            await bus.publish(f"{logs[1]}/1", b"answer")
            await lasting.remove_until(logs[0], 3)
            read, progress = bus._adapter.read, bus._adapter.progress
            number = bus._adapter.log_of(f"{logs[0]}/1")

            async def nothing(log: int, after: int, most: int) -> Any:
                async for batch in read(log, after, most):
                    if log != number:
                        yield batch

            async def after_more_was_removed(log: int, after: int, upto: int) -> int:
                await lasting.remove_until(logs[0], 0)
                return await progress(log, after, upto)

            bus._adapter.read = nothing  # type: ignore[method-assign]
            bus._adapter.progress = after_more_was_removed  # type: ignore[method-assign]
            async with bus.subscribe("#", since=cursor, over_gaps=True) as feed:
                assert (await anext(feed)).incomplete
                assert feed.gaps[-1].last == last.seq
                assert len(feed.gaps) == 1

    play(story)
