"""Topics over HTTP: publish, read a stream, go on from the last id, ask for the last message."""

import asyncio
import base64
import json
import re
from pathlib import Path

from antecede import Node
from antecede.journal.batch import Batch
from antecede.journal.retention import Retention
from antecede.node.history import Gap
from antecede.wire.security import new_token
from tests.client.running import awaited, take, until
from tests.node.clusters import cluster
from tests.node.http_client import Exchange, ask, connection, port_of, stream


@awaited
async def test_publish_and_read() -> None:
    async with Node(port=0, http_port=0) as node, stream(node, "filter=rooms/%23&filter=doors/+") as events:
        assert (await events.event()).id  # where it begins, before any message
        first = await ask(node, "POST", "/topics/rooms/1", b"hello")
        assert (first.status, first.json["topic"]) == (200, "rooms/1")
        headers = {"Content-Type": "application/json", "Antecede-Header-Lang": "en"}
        await ask(node, "POST", "/topics/doors/2", b'{"open":\r\n true}', headers)
        await ask(node, "POST", "/topics/windows/1", b"not asked for")
        await ask(node, "POST", "/topics/rooms/%C3%BC/a%20b", b"\xff\x00")
        text, value, raw = [event.data for event in await events.messages(3)]
        assert (text["topic"], text["text"], text["id"]) == ("rooms/1", "hello", first.json["id"])
        assert (value["json"], value["headers"]["lang"]) == ({"open": True}, "en")
        assert (raw["topic"], base64.b64decode(raw["base64"])) == ("rooms/ü/a b", b"\xff\x00")


@awaited
async def test_clients_of_all_kinds_share_topics() -> None:
    async with (
        Node(port=0, http_port=0) as node,
        node.connect() as bus,
        bus.subscribe("#") as feed,
        stream(node, "filter=%23") as events,
    ):
        await bus.publish("a", b"by a program", headers={"lang": "en"})
        (event,) = await events.messages(1)
        assert (event.data["text"], event.data["headers"]) == ("by a program", {"lang": "en"})
        await ask(node, "POST", "/topics/a", b"{}", {"Content-Type": "application/json"})
        _, message = await take(feed, 2)
        assert (message.payload, message.headers) == (b"{}", {"content-type": "application/json"})


@awaited
async def test_a_stream_goes_on_behind_the_last_id(tmp_path: Path) -> None:
    async with Node(port=0, http_port=0, directory=tmp_path / "n0") as node:
        async with stream(node, "filter=t&since=0") as events:
            for number in range(20):
                await ask(node, "POST", "/topics/t", b"%d" % number)
            seen = await events.messages(20)
        assert [event.data["text"] for event in seen] == [str(number) for number in range(20)]
        for at in (0, 7, 19):
            await ask(node, "POST", "/topics/t", b"more")
            async with stream(node, "filter=t&since=0", {"Last-Event-ID": seen[at].id}) as events:
                assert (await events.messages(1))[0].data["text"] == ("more" if at == 19 else str(at + 1))
        assert node.http is not None
        await until(lambda: not node.http.clients)  # type: ignore[union-attr]
        assert not node.hub.feeds


@awaited
async def test_a_reader_that_was_given_nothing_goes_on_too() -> None:
    """The first event has an id and no data: what is published until the reader is back is not lost."""
    async with Node(port=0, http_port=0) as node:
        async with stream(node, "filter=t") as events:
            begin = (await events.event()).id
        await ask(node, "POST", "/topics/t", b"meanwhile")
        async with stream(node, "filter=t", {"Last-Event-ID": begin}) as events:
            assert (await events.messages(1))[0].data["text"] == "meanwhile"


@awaited
async def test_the_cursor_of_a_publication_has_its_answers() -> None:
    async with Node(port=0, http_port=0) as node:
        await ask(node, "POST", "/topics/q", b"before")
        question = (await ask(node, "POST", "/topics/q", b"why?")).json
        await ask(node, "POST", "/topics/a", b"because", {"Antecede-After": question["id"]})
        async with stream(node, f"filter=%23&since={question['cursor']}") as events:
            assert [event.data["text"] for event in await events.messages(2)] == ["why?", "because"]


@awaited
async def test_after_holds_a_publication_back_at_another_node() -> None:
    """A reader at one node publishes at the other: what it names comes first, for all readers."""
    async with cluster(2, http_port=0) as nodes:
        first, second = nodes
        async with stream(first, "filter=q") as events:
            await ask(second, "POST", "/topics/q", b"why?")
            (event,) = await events.messages(1)
        for after in (event.id, event.data["id"], f"{event.data['id']} , {event.data['id']}"):
            reply = await ask(first, "POST", "/topics/a", b"because", {"Antecede-After": after})
            assert reply.status == 200, reply
        # A message that there is not yet: the publication waits until its time is over, and is not published.
        late = {"Antecede-After": "1.1000", "Antecede-Timeout": "0.2"}
        reply = await ask(first, "POST", "/topics/a", b"too early", late)
        assert (reply.status, reply.error["field"], reply.json["may_arrive"]) == (504, "Antecede-Timeout", False)
        assert "1.1000" in reply.error["problem"]
        # One that comes while it waits.
        waiting = asyncio.create_task(ask(first, "POST", "/topics/a", b"how it is", {"Antecede-After": "1.2"}))
        await until(lambda: bool(first.http and first.http.clients))
        assert (await ask(second, "POST", "/topics/q", b"how?")).json["id"] == "1.2"
        assert (await waiting).status == 200
        async with stream(second, "filter=%23&since=0") as events:
            told = [one.data["text"] for one in await events.messages(6)]
        assert told == ["why?", *["because"] * 3, "how?", "how it is"]


@awaited
async def test_a_cursor_of_one_node_goes_on_at_another() -> None:
    async with cluster(2, http_port=0) as nodes:
        first, second = nodes
        async with stream(first, "filter=t") as events:
            for number in range(6):
                await ask(nodes[number % 2], "POST", "/topics/t", b"%d" % number)
            seen = await events.messages(6)
        await until(lambda: second.hub.position == 6)
        async with stream(second, "filter=t", {"Last-Event-ID": seen[2].id}) as events:
            rest = {event.data["text"] for event in await events.messages(3)}
        assert rest == {event.data["text"] for event in seen[3:]}


@awaited
async def test_durability(tmp_path: Path) -> None:
    async with Node(port=0, http_port=0) as node:
        assert (await ask(node, "POST", "/topics/t", b"", {"Antecede-Durability": "memory"})).status == 200
        reply = await ask(node, "POST", "/topics/t", b"", {"Antecede-Durability": "disk"})
        assert reply.status == 400
        assert "no journal" in reply.error["problem"]
        reply = await ask(node, "POST", "/topics/t", b"", {"Antecede-Durability": "stone"})
        assert (reply.status, reply.error["field"], reply.error["value"]) == (400, "durability", "stone")
    async with Node(port=0, http_port=0, directory=tmp_path / "n0") as node:
        assert (await ask(node, "POST", "/topics/t", b"", {"Antecede-Durability": "disk"})).status == 200


@awaited
async def test_a_connection_carries_several_publications() -> None:
    async with Node(port=0, http_port=0) as node, connection(port_of(node)) as exchange:
        ids = []
        for _ in range(3):
            await exchange.send("POST", "/topics/t", b"x")
            ids.append((await exchange.reply()).json["id"])
        assert ids == ["0.1", "0.2", "0.3"]
        assert node.http is not None
        assert not node.http.clients
        await exchange.send("GET", "/topics/t/last")
        assert (await exchange.reply()).json["id"] == "0.3"


@awaited
async def test_pipelined_publications_are_in_order() -> None:
    request = b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n%d"
    async with Node(port=0, http_port=0) as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node))
        writer.write(b"".join(request % number for number in range(5)))
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 5:
            piece = await reader.read(65_536)
            assert piece, answers
            answers += piece
        writer.close()
        async with stream(node, "filter=t&since=0") as events:
            assert [event.data["text"] for event in await events.messages(5)] == list("01234")


@awaited
async def test_curl_may_ask_whether_to_continue() -> None:
    async with Node(port=0, http_port=0) as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node))
        head = b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        writer.write(head)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(b"ok")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()


@awaited
async def test_a_client_that_sends_nothing_more_gets_its_answer(tmp_path: Path) -> None:
    """As `printf … | nc -N` does."""
    async with Node(port=0, http_port=0, directory=tmp_path / "n0") as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node))
        writer.write(b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx")
        writer.write_eof()
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


# -- the last message --------------------------------------------------------------------------------------------------


@awaited
async def test_the_last_message(tmp_path: Path) -> None:
    async with Node(port=0, http_port=0, directory=tmp_path / "n0", recent_messages=4) as node:
        reply = await ask(node, "GET", "/topics/rooms/1/last")
        assert (reply.status, reply.error["value"]) == (404, "rooms/1")
        for number in range(3):
            await ask(node, "POST", "/topics/rooms/1", b"%d" % number)
        last = await ask(node, "GET", "/topics/rooms/1/last")
        assert (last.json["text"], last.json["topic"]) == ("2", "rooms/1")
        assert (await ask(node, "HEAD", "/topics/rooms/1/last")).status == 200
        # It is found in the journal once memory has forgotten it.
        for _ in range(12):
            await ask(node, "POST", "/topics/other", b"x")
        assert node.hub.history.first > 3
        again = await ask(node, "GET", "/topics/rooms/1/last")
        assert (again.json["text"], again.json["id"]) == ("2", last.json["id"])
        async with stream(node, f"filter=%23&since={again.json['cursor']}") as events:
            assert (await events.messages(1))[0].data["topic"] == "other"
    # A node that starts again looks at its last deliveries, as many as `recent_messages`.
    async with Node(port=0, http_port=0, directory=tmp_path / "n0", recent_messages=32) as node:
        assert (await ask(node, "GET", "/topics/rooms/1/last")).json["id"] == last.json["id"]
    async with Node(port=0, http_port=0, directory=tmp_path / "n0", recent_messages=4) as node:
        assert (await ask(node, "GET", "/topics/rooms/1/last")).status == 404
        assert (await ask(node, "GET", "/topics/other/last")).status == 200


@awaited
async def test_a_node_without_a_journal_forgets_old_last_messages() -> None:
    async with Node(port=0, http_port=0, recent_messages=4) as node:
        await ask(node, "POST", "/topics/rare", b"x")
        for _ in range(12):
            await ask(node, "POST", "/topics/other", b"x")
        assert (await ask(node, "GET", "/topics/rare/last")).status == 404
        assert (await ask(node, "GET", "/topics/other/last")).status == 200


# -- tokens ------------------------------------------------------------------------------------------------------------


@awaited
async def test_topics_ask_for_a_token_on_loopback_too(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    carol = {"Authorization": f"Bearer {new_token(tokens, 'carol', publish=('a/#',), subscribe=('b/#',))}"}
    async with Node(port=0, http_port=0, tokens=tokens) as node:
        for method, path in (("POST", "/topics/a/1"), ("GET", "/topics?filter=b/1"), ("GET", "/topics/b/1/last")):
            reply = await ask(node, method, path)
            assert (reply.status, reply.error["field"]) == (401, "Authorization")
            assert "www-authenticate" in reply.headers
            assert (await ask(node, method, path, headers={"Authorization": "Bearer guess"})).status == 401
        assert (await ask(node, "POST", "/topics/a/1", b"x", carol)).status == 200
        for method, path in (("POST", "/topics/b/1"), ("GET", "/topics?filter=a/1"), ("GET", "/topics/a/1/last")):
            reply = await ask(node, method, path, headers=carol)
            assert (reply.status, reply.error["field"]) == (403, "filter" if "filter" in path else "topic")
        assert node.status()["refused"]["request: publish"] == 1
        assert node.status()["refused"]["request: subscribe"] == 2
        # The page stays open on loopback.
        assert (await ask(node, "GET", "/status")).status == 200


@awaited
async def test_a_stream_ends_with_its_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    headers = {"Authorization": f"Bearer {new_token(tokens, 'carol', subscribe=('#',))}"}
    async with Node(port=0, http_port=0, tokens=tokens) as node, stream(node, "filter=%23", headers) as events:
        await events.event()
        tokens.write_text('{"clients": []}')
        node.credentials.reload()
        end = await events.event()
        assert (end.name, "token" in end.data["problem"]) == ("ended", True)
        await _over(events)


@awaited
async def test_streams_are_told_that_the_node_stops() -> None:
    node = Node(port=0, http_port=0)
    await node.start()
    async with stream(node, "filter=t") as events:
        await events.event()
        await node.stop()
        assert (await events.event()).name == "ended"
        await _over(events)


async def _over(events: Exchange) -> None:
    try:
        while True:
            await events.event()
    except EOFError:
        pass


# -- gaps --------------------------------------------------------------------------------------------------------------


@awaited
async def test_a_gap_of_retention_is_an_event_and_the_stream_goes_on(tmp_path: Path) -> None:
    async with Node(port=0, http_port=0, directory=tmp_path / "n0", recent_messages=4) as node:
        async with stream(node, "filter=t&since=0") as events:
            for number in range(40):
                await ask(node, "POST", "/topics/t", b"%d" % number)
            seen = await events.messages(40)
        assert node.journal is not None
        await node.journal.retain(Retention(bytes_max=1))
        oldest = node.hub.history.oldest
        assert 3 < oldest < 40
        async with stream(node, "filter=t", {"Last-Event-ID": seen[2].id}) as events:
            gap, *rest = await events.messages(1 + 40 - oldest)
            assert gap.name == "gap"
            assert "removed" in gap.data["problem"]
            assert [event.data["text"] for event in rest] == [str(number) for number in range(oldest, 40)]
        # The id of the gap lies behind it: a reader that comes back with it is not told again.
        async with stream(node, "filter=t", {"Last-Event-ID": gap.id}) as events:
            assert (await events.messages(1))[0].data["text"] == str(oldest)


@awaited
async def test_messages_that_this_node_lacks_are_named(tmp_path: Path) -> None:
    """A reader comes from another node, and this one no longer has what it lacks."""
    async with Node(port=0, http_port=0, directory=tmp_path / "n0", recent_messages=4) as node:
        for number in range(1, 41):
            await ask(node, "POST", "/topics/t", b"%d" % number)
        assert node.journal is not None
        await node.journal.retain(Retention(bytes_max=1))
        oldest = node.hub.history.oldest
        async with stream(node, "filter=t", {"Last-Event-ID": "3:10@0.2"}) as events:
            gap, first = await events.messages(2)
        assert (gap.name, gap.data["missing"]) == ("gap", [{"first": "0.3", "last": f"0.{oldest}"}])
        assert first.data["id"] == f"0.{oldest + 1}"


@awaited
async def test_a_gap_of_the_node_is_told_in_its_place() -> None:
    """Messages that the node went on without: told where they are missing, to readers of the past and live ones."""
    async with Node(port=0, http_port=0) as node, stream(node, "filter=t") as live:
        for number in range(4):
            await ask(node, "POST", "/topics/t", b"%d" % number)
        node.hub.history.add_gap(Gap(2, ((1, 5, 7),)))
        async with stream(node, "filter=t&since=0") as events:
            told = await events.messages(5)
        assert [event.name or event.data["text"] for event in told] == ["0", "1", "gap", "2", "3"]
        assert told[2].data["missing"] == [{"first": "1.5", "last": "1.7"}]
        assert len(await live.messages(4)) == 4
        node.hub.gap(Batch(first=5, time_us=0, deliveries=[], changes=[], held_us={}), 0, {2: 9})
        await ask(node, "POST", "/topics/t", b"4")
        gap, after = await live.messages(2)
        assert (gap.name, gap.data["missing"], after.data["text"]) == ("gap", [{"first": "2.1", "last": "2.9"}], "4")
        # A second reader comes back behind the gap and goes on.
        async with stream(node, "filter=t", {"Last-Event-ID": after.id}) as events:
            await ask(node, "POST", "/topics/t", b"5")
            assert (await events.messages(1))[0].data["text"] == "5"


@awaited
async def test_streams_in_a_cluster_with_several_partitions(tmp_path: Path) -> None:
    """The past comes from the homes of the partitions; its events have ids, too."""
    async with cluster(2, tmp_path, http_port=0, partitions=8, replicas=1) as nodes:
        first, second = nodes
        for number in range(12):
            assert (await ask(first, "POST", f"/topics/rooms/{number}", b"%d" % number)).status == 200
        async with stream(second, "filter=rooms/%23&since=0") as events:
            seen = await events.messages(12)
        assert sorted(int(event.data["text"]) for event in seen) == list(range(12))
        for node in nodes:
            async with stream(node, "filter=rooms/%23", {"Last-Event-ID": seen[7].id}) as events:
                rest = [event.data["id"] for event in await events.messages(4)]
            assert sorted(rest) == sorted(event.data["id"] for event in seen[8:])


@awaited
async def test_a_gap_in_a_past_that_is_at_other_nodes_is_told_once(tmp_path: Path) -> None:
    """The stream goes on behind it."""
    async with cluster(2, tmp_path, http_port=0, partitions=8, replicas=1, linger_s=0.5) as (first, second):
        await until(lambda: len(first.taking.homes) + len(second.taking.homes) == 8)
        topic = next(f"t/{number}" for number in range(99) if first.partitions.of(f"t/{number}") in first.taking.homes)
        async with stream(first, f"filter={topic}") as events:
            for number in range(4):
                await ask(first, "POST", f"/topics/{topic}", b"%d" % number)
            seen = await events.messages(4)
        assert first.journal is not None
        await first.journal.retain(Retention(bytes_max=1))
        await ask(first, "POST", f"/topics/{topic}", b"4")
        async with stream(second, f"filter={topic}", {"Last-Event-ID": seen[0].id}) as events:
            gap, after = await events.messages(2)
        ids = [event.data["id"] for event in seen]
        assert (gap.name, gap.data["missing"]) == ("gap", [{"first": ids[1], "last": ids[3]}])
        assert after.data["text"] == "4"


@awaited
async def test_the_cursor_of_the_last_message_covers_nothing_that_the_node_lacks_behind_it(tmp_path: Path) -> None:
    """The node left the partition, and took it again."""
    async with cluster(2, tmp_path, http_port=0, partitions=8, replicas=1, linger_s=0.5) as (home, node):
        await until(lambda: len(home.taking.homes) + len(node.taking.homes) == 8)
        of = home.partitions.of
        topic = next(f"t/{number}" for number in range(99) if of(f"t/{number}") in home.taking.homes)
        async with stream(node, f"filter={topic}") as events:
            await events.event()
            await ask(home, "POST", f"/topics/{topic}", b"0")
            await events.messages(1)
        await until(lambda: not node.process.wants(node.partitions.names[of(topic)]))
        await ask(home, "POST", f"/topics/{topic}", b"1")
        async with stream(node, f"filter={topic}") as events:
            await events.event()
        last = (await ask(node, "GET", f"/topics/{topic}/last")).json
        assert last["text"] == "0"
        async with stream(home, f"filter={topic}", {"Last-Event-ID": last["cursor"]}) as events:
            (event,) = await events.messages(1)
        assert event.data["text"] == "1"


@awaited
async def test_a_node_that_was_started_anew_without_a_journal_says_so() -> None:
    async with Node(port=0, http_port=0) as node:
        await ask(node, "POST", "/topics/t", b"x")
        async with stream(node, "filter=t&since=0") as events:
            (event,) = await events.messages(1)
    async with Node(port=0, http_port=0) as node:
        reply = await ask(node, "GET", "/topics?filter=t", headers={"Last-Event-ID": event.id})
        assert (reply.status, reply.error["field"]) == (410, "Last-Event-ID")
        assert "started anew" in reply.error["problem"]


# -- the description ---------------------------------------------------------------------------------------------------


@awaited
async def test_the_description_has_all_routes_and_no_others() -> None:
    from antecede.node.http.routes import ROUTES  # noqa: PLC0415

    async with Node(port=0, http_port=0) as node:
        told = (await ask(node, "GET", "/openapi.json")).json
    described = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    assert told["openapi"] == "3.1.0"
    schemas = told["components"]["schemas"]
    text = json.dumps(told["paths"])
    assert {name for name in schemas if f"#/components/schemas/{name}" in text} == set(schemas)
    for path, methods in told["paths"].items():
        for operation in methods.values():
            names = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
            assert names == set(re.findall(r"{(\w+)}", path))
