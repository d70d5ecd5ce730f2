"""The bus over real log systems: order across logs, cursors, gaps, foreign producers, options that are refused."""

import asyncio
import contextlib
from typing import Any

import pytest

import antecede
from antecede import PublishError, StoppedError, UsageError
from antecede.logs import AppendError, LogBus, LogMessage, connect
from tests.logs.stories import Logs, delay, play, publish_last, take
from tests.logs.systems import System


def test_an_answer_waits_for_its_question_on_a_slower_log(system: System, logs: Logs) -> None:
    questions, answers = logs

    async def story() -> None:
        await system.create(*logs)
        url = system.url(*logs)
        async with connect(url) as alice, connect(url) as bob, connect(url) as carol:
            slow = asyncio.Event()
            delay(carol, questions, slow)
            async with bob.subscribe(f"{questions}/#", since="0") as bobs, carol.subscribe("#", since="0") as carols:
                asked = await alice.publish(f"{questions}/1", b"why?")
                question = await anext(bobs)
                assert (question.id, question.topic, question.payload) == (asked, f"{questions}/1", b"why?")
                answered = await bob.publish(f"{answers}/1", b"because", headers={"lang": "en"})
                while not carols.held:
                    await asyncio.sleep(0.01)
                assert not carols.waiting
                slow.set()
                first, second = await take(carols, 2)
                assert (first.id, second.id) == (asked, answered)
                assert second.headers == {"lang": "en"}
                assert asked in second.after
                assert not first.out_of_order
                assert not second.out_of_order

    play(story)


def test_a_publisher_that_changes_logs_is_read_in_its_order(system: System, logs: Logs) -> None:
    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus, bus.subscribe("#", since="0") as feed:
            topics = [f"{logs[index % 3 % 2]}/{index % 5}" for index in range(200)]
            futures = [bus.publish_nowait(topic, str(index).encode()) for index, topic in enumerate(topics)]
            read = await take(feed, 200)
            assert [message.topic for message in read] == topics
            assert [int(message.payload) for message in read] == list(range(200))
            assert [message.id for message in read] == await asyncio.gather(*futures)

    play(story)


def test_each_message_once_from_any_cursor(system: System, logs: Logs) -> None:
    """A cursor taken while reading, one of a message read long ago, and one in the middle of a trail."""

    async def story() -> None:
        await system.create(*logs)
        url = system.url(*logs)
        async with connect(url) as bus:
            for index in range(600):
                bus.publish_nowait(f"{logs[index // 7 % 2]}/x", str(index).encode())
            async with bus.subscribe("#", since="0") as feed:
                read, cursors = [], []
                for _ in range(600):
                    message = await anext(feed)
                    read.append(message)
                    cursors.append(message.cursor)
        assert [int(message.payload) for message in read] == list(range(600))
        async with connect(url) as again:
            for index in (0, 77, 255, 256, 400, 599):
                for cursor in {cursors[index], read[index].cursor}:
                    last = await publish_last(again, f"{logs[1]}/x")
                    async with again.subscribe("#", since=cursor) as feed:
                        rest = []
                        while not rest or rest[-1].id != last:
                            rest.append(await anext(feed))
                        payloads = [message.payload for message in rest if message.payload != b"last"]
                        assert payloads == [str(number).encode() for number in range(index + 1, 600)]

    play(story)


def test_what_is_published_after_a_restart_depends_on_what_was_read_before(system: System, logs: Logs) -> None:
    async def story() -> None:
        await system.create(*logs)
        url = system.url(*logs)
        async with connect(url) as alice:
            asked = await alice.publish(f"{logs[0]}/1", b"q")
            async with alice.subscribe("#", since="0") as feed:
                cursor = (await anext(feed)).cursor
        async with connect(url) as alice, alice.subscribe("#", since=cursor) as feed:
            await alice.publish(f"{logs[1]}/1", b"a")
            assert asked in (await anext(feed)).after

    play(story)


def test_producers_that_know_nothing_of_us(system: System, logs: Logs) -> None:
    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus, bus.subscribe("#", since="0") as feed:
            await system.append_plain(f"{logs[0]}/1", b"plain")
            plain = await anext(feed)
            assert (plain.topic, plain.payload, plain.past) == (f"{logs[0]}/1", b"plain", ())
            await bus.publish(f"{logs[1]}/1", b"ours")
            assert plain.id in (await anext(feed)).after

    play(story)


def test_after_narrows_the_past(system: System, logs: Logs) -> None:
    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus, bus.subscribe("#", since="0") as feed:
            first = await bus.publish(f"{logs[0]}/1", b"1")
            await bus.publish(f"{logs[0]}/1", b"2")
            read = await take(feed, 2)
            await bus.publish(f"{logs[1]}/1", b"by id", after=[first])
            await bus.publish(f"{logs[1]}/1", b"by message", after=[read[0]])
            await bus.publish(f"{logs[1]}/1", b"on nothing", after=[])
            by_id, by_message, on_nothing = await take(feed, 3)
            assert by_id.after == by_message.after == (first,)
            assert on_nothing.after == ()
            with pytest.raises(UsageError, match="was not read or published here lately"):
                await bus.publish(f"{logs[1]}/1", b"", after=[antecede.MessageId(1, 1)])

    play(story)


def test_a_feed_from_now_on_and_filters(system: System, logs: Logs) -> None:
    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus:
            await bus.publish(f"{logs[0]}/1", b"before")
            async with bus.subscribe(f"{logs[0]}/+", f"{logs[1]}/a/#") as feed:
                for topic in (f"{logs[0]}/1/deep", f"{logs[1]}/b", f"{logs[0]}/2", f"{logs[1]}/a/b/c"):
                    await bus.publish(topic, b"")
                assert [one.topic for one in await take(feed, 2)] == [f"{logs[0]}/2", f"{logs[1]}/a/b/c"]

    play(story)


def test_a_cut_is_consistent_and_a_place_to_start(system: System, logs: Logs) -> None:
    """While two clients answer each other across logs, each cut has the past of all that it has."""

    async def chatter(bus: LogBus, mine: str) -> None:
        async with bus.subscribe("#") as feed:
            await bus.publish(f"{mine}/1", b"hello")
            async for _ in feed:
                await bus.publish(f"{mine}/1", b"re")
                if feed.waiting > 50:
                    return

    async def story() -> None:
        await system.create(*logs)
        url = system.url(*logs)
        async with connect(url) as carol:
            async with connect(url) as alice, connect(url) as bob:
                talks = zip((alice, bob), logs, strict=True)
                talking = [asyncio.create_task(chatter(bus, mine)) for bus, mine in talks]
                await asyncio.sleep(0.3)
                cuts = [await carol.cut() for _ in range(4)]
                for task in talking:
                    task.cancel()
                await asyncio.gather(*talking, return_exceptions=True)
            # Both are closed: a record in flight would be stored beside the last one, and come before it or after it.
            last = await publish_last(carol, f"{logs[0]}/1")
            everything: list[LogMessage] = []
            async with carol.subscribe("#", since="0") as feed:
                while not everything or everything[-1].id != last:
                    everything.append(await anext(feed))
            assert len(cuts[0]) < 400
            for cut in cuts:
                async with carol.subscribe("#", since=cut) as feed:
                    rest = []
                    while not rest or rest[-1].id != last:
                        rest.append(await anext(feed))
                after = {message.id for message in rest}
                inside = [message for message in everything if message.id not in after]
                assert len(inside) + len(rest) == len(everything)
                assert not [message for message in inside if after.intersection(message.after)]

    play(story)


def test_options_that_logs_cannot_give_are_refused_with_a_remedy(system: System, logs: Logs) -> None:
    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus:
            await bus.publish(f"{logs[0]}/1", b"", durability=system.safe)
            with pytest.raises(UsageError, match="durability"):
                await bus.publish(f"{logs[0]}/1", b"", durability=system.unsafe)
            for options, problem in (
                ({"order": "total"}, "is not made over logs"),
                ({"policy": "drop_oldest"}, "the logs keep what waits"),
                ({"max_age_s": 1.0}, "is not made over logs"),
                ({"since": "2:17"}, "is not a cursor of logs"),
            ):
                with pytest.raises(UsageError, match=problem):
                    bus.subscribe("#", **options)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="nowhere"):
                await bus.publish("nowhere/1", b"")
            with pytest.raises(UsageError, match="match no log"):
                async with bus.subscribe("nowhere/1"):
                    pass
        with pytest.raises(StoppedError):
            await bus.publish(f"{logs[0]}/1", b"")

    play(story)


def test_a_log_that_is_not_there_is_named(system: System, logs: Logs) -> None:
    """Redis makes streams by itself."""

    async def story() -> None:
        await system.create(logs[0])
        with pytest.raises(UsageError, match=logs[1]) if system.name != "redis" else contextlib.nullcontext():
            async with connect(system.url(*logs)):
                pass

    play(story)


def test_the_blocking_bus(system: System, logs: Logs) -> None:
    asyncio.run(system.create(*logs))
    with antecede.connect_sync(system.url(*logs)) as bus:
        sent = bus.publish(f"{logs[0]}/1", b"hello")
        cut = bus.cut()
        bus.publish(f"{logs[1]}/1", b"behind the cut")
        with bus.subscribe("#", since="0") as feed:
            message = feed.next(10)
            assert message is not None
            assert message.id == sent
        with bus.subscribe("#", since=cut) as feed:
            message = feed.next(10)
            assert message is not None
            assert message.payload == b"behind the cut"


def test_a_publication_without_an_acknowledgement_fails_in_its_time(system: System, logs: Logs) -> None:
    """Its number is filled by a tombstone, so those behind it are read."""

    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus, bus.subscribe("#", since="0") as feed:
            append = bus._adapter.append
            lost = asyncio.Event()

            async def lose_some(log: int, record: Any) -> Any:
                if record.payload == b"lost" and not lost.is_set():
                    return asyncio.get_running_loop().create_future()
                return await append(log, record)

            bus._adapter.append = lose_some  # type: ignore[method-assign]
            failing = bus.publish_nowait(f"{logs[0]}/1", b"lost", timeout_s=0.4)
            await bus.publish(f"{logs[0]}/1", b"next")
            with pytest.raises(PublishError, match="it may still be delivered"):
                await failing
            await bus.publish(f"{logs[1]}/1", b"other log")
            assert [message.payload for message in await take(feed, 2)] == [b"next", b"other log"]

    play(story)


def test_a_refused_retry_does_not_free_the_number_of_a_record_that_is_stored(system: System, logs: Logs) -> None:
    """The acknowledgement was lost, and the log refuses the retry: the next record must not look like a copy."""

    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus, bus.subscribe("#", since="0") as feed:
            append, tries = bus._adapter.append, iter(("lose the acknowledgement", "refuse"))

            async def spoiled(log: int, record: Any) -> Any:
                stored = await append(log, record) if (fault := next(tries, "")) != "refuse" else None
                if fault == "lose the acknowledgement":
                    return asyncio.get_running_loop().create_future()
                if stored is None:
                    raise AppendError("no", may_arrive=False, final=True)
                return stored

            bus._adapter.append = spoiled  # type: ignore[method-assign]
            with pytest.raises(PublishError, match="it may still be delivered"):
                await bus.publish(f"{logs[0]}/1", b"first")
            await bus.publish(f"{logs[0]}/1", b"second")
            assert [message.payload for message in await take(feed, 2)] == [b"first", b"second"]

    play(story)


def test_a_refusal_that_comes_after_the_retry_does_not_free_the_number(system: System, logs: Logs) -> None:
    """The first copy is refused late, when the second is stored: the next record must not look like a copy."""

    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus, bus.subscribe("#", since="0") as feed:
            append, copies = bus._adapter.append, list[asyncio.Future[int]]()

            async def refused_late(log: int, record: Any) -> Any:
                if len(copies) == 2:
                    return await append(log, record)
                copies.append(asyncio.get_running_loop().create_future())
                if len(copies) == 2:
                    await (await append(log, record))
                    copies[0].set_exception(AppendError("no", may_arrive=False, final=True))
                return copies[-1]

            bus._adapter.append = refused_late  # type: ignore[method-assign]
            with pytest.raises(PublishError, match="it may still be delivered"):
                await bus.publish(f"{logs[0]}/1", b"first")
            await bus.publish(f"{logs[0]}/1", b"second")
            assert [message.payload for message in await take(feed, 2)] == [b"first", b"second"]

    play(story)


def test_acknowledgements_that_come_while_others_are_sent_again(system: System, logs: Logs) -> None:
    """All acknowledgements are late, and come while the first of the records is being sent again."""

    async def story() -> None:
        await system.create(*logs)
        async with connect(system.url(*logs)) as bus, bus.subscribe("#", since="0") as feed:
            append, withheld = bus._adapter.append, list[tuple[asyncio.Future[int], asyncio.Future[int]]]()

            async def late(log: int, record: Any) -> Any:
                stored = await append(log, record)
                if len(withheld) < 3:
                    withheld.append((asyncio.get_running_loop().create_future(), stored))
                    return withheld[-1][0]
                for future, offset in withheld:
                    if not future.done():
                        future.set_result(await offset)
                await asyncio.sleep(0.01)
                return stored

            bus._adapter.append = late  # type: ignore[method-assign]
            first = [bus.publish_nowait(f"{logs[0]}/1", str(index).encode()) for index in range(3)]
            await asyncio.gather(*first)
            await bus.publish(f"{logs[1]}/1", b"3")
            assert [message.payload for message in await take(feed, 4)] == [b"0", b"1", b"2", b"3"]
            failing = bus._publisher._tasks
            assert not [task for task in failing if task.done()]

    play(story)
