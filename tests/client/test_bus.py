"""One node and its thin clients, over tcp and within the process: what STYLE promises of the API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import antecede
from antecede import Bus, MessageId, Node
from tests.client.running import awaited, bodies, take, until


@asynccontextmanager
async def node_url(kind: str) -> AsyncIterator[str]:
    if kind == "memory":
        async with antecede.connect("memory://shared"):  # keeps it alive between the test's own connections
            yield "memory://shared"
    else:
        async with Node(port=0) as node:
            yield node.url


over_both = pytest.mark.parametrize("kind", ["memory", "tcp"])


@over_both
@awaited
async def test_what_is_published_is_read(kind: str) -> None:
    async with (
        node_url(kind) as url,
        antecede.connect(url, name="alice") as alice,
        antecede.connect(url, name="bob") as bob,
        bob.subscribe("rooms/+/chat", "news/#") as feed,
    ):
        first = await alice.publish("rooms/42/chat", b"hello", headers={"lang": "en"})
        await alice.publish("rooms/42/private", b"not for bob")
        await alice.publish("news", b"spring")
        one, two = await take(feed, 2)
        assert (one.topic, one.payload, one.headers, one.id) == ("rooms/42/chat", b"hello", {"lang": "en"}, first)
        assert (two.topic, two.payload, two.source) == ("news", b"spring", first.source)
        assert one.held_ms == 0.0
        assert one.cursor != two.cursor
        assert one.time_us > 0


@over_both
@awaited
async def test_several_filters_that_match_give_a_message_once(kind: str) -> None:
    async with node_url(kind) as url, antecede.connect(url) as bus, bus.subscribe("a/#", "a/+", "a/b") as feed:
        await bus.publish("a/b", b"1")
        await bus.publish("a/b", b"2")
        assert bodies(await take(feed, 2)) == [b"1", b"2"]


@over_both
@awaited
async def test_a_cursor_goes_on_right_behind_a_message_and_becomes_live_without_a_seam(kind: str) -> None:
    async with node_url(kind) as url, antecede.connect(url) as bus:
        async with bus.subscribe("t/#") as feed:
            for number in range(10):
                await bus.publish(f"t/{number % 2}", b"%d" % number)
            third = (await take(feed, 3))[-1]

        async def publish_on() -> None:
            for number in range(10, 300):
                await bus.publish(f"t/{number % 2}", b"%d" % number)

        publishing = asyncio.create_task(publish_on())
        async with bus.subscribe("t/#", since=third.cursor) as feed:
            assert bodies(await take(feed, 297)) == [b"%d" % number for number in range(3, 300)]
        await publishing
        async with bus.subscribe("t/1", since="0") as feed:
            assert bodies(await take(feed, 150)) == [b"%d" % number for number in range(1, 300, 2)]


@over_both
@awaited
async def test_an_answer_never_precedes_its_question(kind: str) -> None:
    async with (
        node_url(kind) as url,
        antecede.connect(url) as asks,
        antecede.connect(url) as answers,
        asks.subscribe("#") as watched,
        answers.subscribe("questions/#") as questions,
    ):

        async def answer() -> None:
            async for question in questions:
                await answers.publish("answers/x", b"re: " + question.payload)

        answering = asyncio.create_task(answer())
        for number in range(50):
            asks.publish_nowait("questions/x", b"%d" % number)
        seen: set[bytes] = set()
        for message in await take(watched, 100):
            if message.topic.startswith("answers"):
                assert message.payload.removeprefix(b"re: ") in seen
            seen.add(message.payload)
        answering.cancel()


@awaited
async def test_reading_is_the_dependency_and_publishing_covers_it() -> None:
    async with antecede.connect("memory://") as bus, bus.subscribe("#") as feed:
        await bus.publish("t", b"1")
        assert bus._frontier.entries() == ((0, 1),)
        (message,) = await take(feed, 1)
        assert bus._frontier.entries() == ((0, 1),)
        identity = await bus.publish("t", b"2", after=[message])
        assert identity == MessageId(0, 2)


@over_both
@awaited
async def test_many_publications_in_flight_keep_their_order(kind: str) -> None:
    async with node_url(kind) as url, antecede.connect(url) as bus, bus.subscribe("t") as feed:
        futures = [bus.publish_nowait("t", b"%d" % number) for number in range(3000)]
        got = bodies(await take(feed, 3000))
        assert got == [b"%d" % number for number in range(3000)]
        ids = await asyncio.gather(*futures)
        assert [one.seq for one in ids] == list(range(1, 3001))


@awaited
async def test_what_a_caller_changes_behind_the_call_is_not_published() -> None:
    async with antecede.connect("memory://") as bus, bus.subscribe("#") as feed:
        body, headers = bytearray(b"as it was"), {"lang": "en"}
        bus.publish_nowait("a", body, headers=headers)
        bus.publish_nowait("a", memoryview(body), headers=headers)
        body[:2] = b"is"
        headers["lang"] = "de"
        for message in await take(feed, 2):
            assert message.payload == b"as it was"
            assert message.headers == {"lang": "en"}


@awaited
async def test_too_many_unacknowledged_publications_are_refused_and_publish_waits() -> None:
    async with antecede.connect("memory://") as bus:
        futures = [bus.publish_nowait("t", b"x") for _ in range(8192)]
        with pytest.raises(antecede.LimitError, match="unacknowledged"):
            bus.publish_nowait("t", b"x")
        assert (await bus.publish("t", b"last")).seq == 8193
        await asyncio.gather(*futures)


@awaited
async def test_mistakes_are_said_before_anything_is_sent() -> None:
    async with antecede.connect("memory://") as bus:
        with pytest.raises(antecede.UsageError, match="wildcard"):
            await bus.publish("a/#", b"")
        with pytest.raises(antecede.UsageError, match="not bytes"):
            await bus.publish("a", "text")  # type: ignore[arg-type]
        with pytest.raises(antecede.UsageError, match="durability"):
            await bus.publish("a", b"", durability="replicated(0)")
        with pytest.raises(antecede.UsageError, match="there are none"):
            bus.subscribe()
        with pytest.raises(antecede.UsageError, match="order"):
            bus.subscribe("a", order="sorted")  # type: ignore[arg-type]
        with pytest.raises(antecede.UsageError, match="cursor"):
            bus.subscribe("a", since="yesterday")
        with pytest.raises(antecede.LimitError, match="body"):
            await bus.publish("a", bytes(600_000))
        for topic in (5, b"a"):
            with pytest.raises(antecede.UsageError, match="is not text"):
                await bus.publish(topic, b"")  # type: ignore[arg-type]
        with pytest.raises(antecede.UsageError, match="is not a dict"):
            await bus.publish("a", b"", headers=[("lang", "en")])  # type: ignore[arg-type]
        for after in (["0.1"], "0.1", [1]):
            with pytest.raises(antecede.UsageError, match="is not a message"):
                await bus.publish("a", b"", after=after)  # type: ignore[arg-type]
        with pytest.raises(antecede.UsageError, match="cursor 5"):
            bus.subscribe("a", since=5)  # type: ignore[arg-type]
        assert (await bus.publish("a", b"")).seq == 1  # and the connection is none the worse


@awaited
async def test_a_feed_is_read_when_it_is_open_and_by_one_reader() -> None:
    async with antecede.connect("memory://") as bus:
        feed = bus.subscribe("t")
        with pytest.raises(antecede.UsageError, match="is not open"):
            await anext(feed)
        async with feed:
            first = asyncio.create_task(anext(feed))
            await asyncio.sleep(0)
            with pytest.raises(antecede.UsageError, match="has a reader that waits"):
                await anext(feed)
            await bus.publish("t", b"1")
            assert (await first).payload == b"1"


@awaited
async def test_errors_of_a_node_reach_the_caller() -> None:
    async with Node(port=0) as node, antecede.connect(node.url) as bus:
        with pytest.raises(antecede.PublishError, match="no journal") as told:
            await bus.publish("t", b"", durability="disk")
        assert not told.value.may_arrive
        with pytest.raises(antecede.UsageError, match="belongs to node 7"):
            async with bus.subscribe("t", since="7:1"):
                pass
        with pytest.raises(antecede.UsageError, match="ahead"):
            async with bus.subscribe("t", since="0:99"):
                pass
        assert (await bus.publish("t", b"fine")).seq == 1


@awaited
async def test_nobody_there_and_bad_urls() -> None:
    with pytest.raises(antecede.UnreachableError):
        async with antecede.connect("antecede://127.0.0.1:1", timeout_s=2):
            pass
    for url in ("nats://x", "antecede://", "antecede://h:port", None):
        with pytest.raises(antecede.UsageError):
            antecede.connect(url)  # type: ignore[arg-type]
    async with Node(port=0) as node:
        with pytest.raises(antecede.RefusedError, match="another cluster"):
            async with antecede.connect(node.url, cluster="other"):
                pass


@awaited
async def test_a_node_without_journal_that_restarts_has_lost_the_feed_and_says_so() -> None:
    async with Node(port=0) as node:
        port = node.listener.address[1]
        bus = antecede.connect(node.url)
        await bus.__aenter__()
        feed = await bus.subscribe("t").__aenter__()
        await bus.publish("t", b"1")
        await take(feed, 1)
    async with Node(port=port):
        with pytest.raises(antecede.LostHistoryError):
            await take(feed, 1)
        assert (await bus.publish("t", b"on")).seq == 1
        await bus.close()


@awaited
async def test_a_feed_goes_on_where_it_was_when_its_node_comes_back(tmp_path: Path) -> None:
    node = Node(port=0, directory=tmp_path)
    await node.start()
    port = node.listener.address[1]
    async with antecede.connect(node.url) as bus, bus.subscribe("t", queue=8) as feed:
        for number in range(20):
            await bus.publish("t", b"%d" % number)
        got = bodies(await take(feed, 3))
        await node.stop()
        async with Node(port=port, directory=tmp_path) as again:
            async with antecede.connect(again.url) as other:
                for number in range(20, 40):
                    await other.publish("t", b"%d" % number)
            got += bodies(await take(feed, 37))
            assert got == [b"%d" % number for number in range(40)]
            assert (await bus.publish("t", b"more")).seq == 41


@awaited
async def test_a_publication_under_way_when_the_node_dies_says_that_it_may_arrive() -> None:
    node = Node(port=0)
    await node.start()
    async with antecede.connect(node.url, patience_s=0.1) as bus, bus.subscribe("t") as feed:
        await bus.publish("t", b"1")
        future = bus.publish_nowait("t", b"2")
        node.abort()
        with pytest.raises(antecede.PublishError) as told:
            await future
        assert told.value.may_arrive
        await take(feed, 1)
        with pytest.raises((antecede.ConnectionLostError, antecede.StoppedError)):
            await take(feed, 2)
        with pytest.raises(antecede.AntecedeError):
            await bus.publish("t", b"3")


def test_scripts_without_asyncio() -> None:
    with antecede.connect_sync("memory://", name="script") as bus, bus.subscribe("t", since="0") as feed:
        first = bus.publish("t", b"1")
        assert feed.next(timeout_s=20).id == first  # type: ignore[union-attr]
        assert feed.next(timeout_s=0.01) is None
        bus.publish("t", b"2")
        assert next(iter(feed)).payload == b"2"
        assert bus.status()["position"] == 2
    for work in (lambda: bus.publish("t", b"3"), bus.status, feed.__enter__):
        with pytest.raises(antecede.StoppedError, match="memory:// is closed"):
            work()
    with pytest.raises(antecede.UsageError, match="inside `with`"):
        antecede.connect_sync("memory://").publish("t", b"")


async def _fill(bus: Bus, count: int) -> None:
    for number in range(count):
        await bus.publish("t", b"%d" % number)


@over_both
@awaited
async def test_block_loses_nothing_however_slow_the_reader(kind: str) -> None:
    async with (
        node_url(kind) as url,
        antecede.connect(url) as bus,
        antecede.connect(url) as reader,
        reader.subscribe("t", queue=4) as feed,
    ):
        await _fill(bus, 200)
        assert feed.waiting <= 4
        assert bodies(await take(feed, 200)) == [b"%d" % number for number in range(200)]


@over_both
@awaited
async def test_drop_oldest_keeps_the_newest_and_counts(kind: str) -> None:
    async with (
        node_url(kind) as url,
        antecede.connect(url) as bus,
        antecede.connect(url) as reader,
        reader.subscribe("t", queue=4, policy="drop_oldest") as feed,
    ):
        await _fill(bus, 100)
        got = bodies(await take(feed, 8))
        assert got == [b"%d" % number for number in (0, 1, 2, 3, 96, 97, 98, 99)]
        assert feed.dropped == 92


@over_both
@awaited
async def test_disconnect_ends_the_feed_with_what_was_queued(kind: str) -> None:
    async with (
        node_url(kind) as url,
        antecede.connect(url) as bus,
        antecede.connect(url) as reader,
        reader.subscribe("t", queue=4, policy="disconnect") as feed,
    ):
        await _fill(bus, 100)
        assert bodies(await take(feed, 4)) == [b"0", b"1", b"2", b"3"]
        with pytest.raises(antecede.SlowReaderError):
            await take(feed, 1)


@awaited
async def test_without_a_journal_publishers_wait_for_a_reader_that_blocks() -> None:
    async with (
        Node(port=0, recent_messages=50) as node,
        antecede.connect(node.url) as bus,
        antecede.connect(node.url) as reader,
        reader.subscribe("t", queue=4) as feed,
    ):
        publishing = asyncio.create_task(_fill(bus, 1000))
        await until(lambda: node.hub.jammed)
        assert node.hub.position < 200
        assert bodies(await take(feed, 1000)) == [b"%d" % number for number in range(1000)]
        await publishing
        assert not node.hub.jammed


@awaited
async def test_what_was_forgotten_is_a_gap_that_is_told() -> None:
    async with Node(port=0, recent_messages=50) as node, antecede.connect(node.url) as bus:
        await _fill(bus, 500)
        with pytest.raises(antecede.GapError) as told:
            async with bus.subscribe("t", since="0:3") as feed:
                await take(feed, 1)
        assert told.value.after == 3
        assert told.value.first > 4


@awaited
async def test_a_slow_reader_is_served_from_the_journal(tmp_path: Path) -> None:
    async with (
        Node(port=0, directory=tmp_path, recent_messages=50) as node,
        antecede.connect(node.url) as bus,
        antecede.connect(node.url) as reader,
        reader.subscribe("t", queue=16) as feed,
    ):
        futures = [bus.publish_nowait("t", b"%d" % number) for number in range(2000)]
        await asyncio.gather(*futures)
        assert node.hub.history.position - node.hub.history.first < 100
        assert bodies(await take(feed, 2000)) == [b"%d" % number for number in range(2000)]
        await bus.publish("t", b"live")
        assert bodies(await take(feed, 1)) == [b"live"]
