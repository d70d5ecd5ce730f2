"""Rare moments of HTTP topics: requests that come ahead, readers that pause, nodes that stop or fail meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import Node
from antecede.journal.retention import Retention
from antecede.node.http import last, topics
from antecede.node.http import stream as streams
from antecede.node.http.messages import described
from antecede.node.http.publish import Publication
from antecede.wire.cursors import MessageId
from antecede.wire.mqtt.envelopes import ApplicationMessage, seal_message
from antecede.wire.mqtt.properties import Properties
from antecede.wire.requests import Failed
from antecede.wire.security import new_token
from tests.client.running import awaited, until
from tests.node.http_client import ask, connection, port_of, stream
from tests.node.test_http import send


@awaited
async def test_many_requests_that_come_ahead() -> None:
    """More of them than a connection reads ahead: each gets its answer, in order."""
    request = b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400\r\n\r\n"
    async with Node(port=0, http_port=0) as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node))
        writer.write(b"".join(request + b"%03d" % number + b"x" * 397 for number in range(300)))
        got = b""
        while got.count(b"HTTP/1.1 200") < 300 or not got.endswith(b"}\n"):
            got += await reader.read(65536)
        writer.close()
        async with stream(node, "filter=t&since=0") as events:
            read = [int(event.data["text"][:3]) for event in await events.messages(300)]
        assert read == list(range(300))


@awaited
async def test_a_reader_that_pauses_gets_everything(tmp_path: Path) -> None:
    async with (
        Node(port=0, http_port=0, directory=tmp_path / "n0", recent_messages=8) as node,
        node.connect() as bus,
        stream(node, "filter=t") as events,
    ):
        await events.event()
        for number in range(60):
            await bus.publish("t", b"%02d" % number + bytes(100_000))
        (feed,) = node.hub.feeds
        assert not feed.live  # the socket is full, and memory has forgotten the first ones
        read = [event.data["text"][:2] for event in await events.messages(60)]
        assert read == [f"{number:02d}" for number in range(60)]
        await until(lambda: feed.live)


@awaited
async def test_an_idle_stream_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_ALIVE_S", 0.02)
    async with Node(port=0, http_port=0) as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node))
        writer.write(b"GET /topics?filter=t HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"\n:\n\n" in await reader.readuntil(b"\n:\n\n")
        writer.close()


@awaited
async def test_what_says_that_it_is_json_and_is_not() -> None:
    async with Node(port=0, http_port=0) as node, node.connect() as bus:
        for body in (b"{", b"[" * 100_000, b'"\xff"'):
            await bus.publish("t", body, headers={"content-type": "application/json; charset=utf-8"})
        async with stream(node, "filter=t&since=0") as events:
            read = [event.data for event in await events.messages(3)]
        assert [("json" in data, "text" in data, "base64" in data) for data in read] == [
            (False, True, False),
            (False, True, False),
            (False, False, True),
        ]


def test_mqtt_says_that_it_is_json_by_a_property() -> None:
    for kind, member in (("application/json", "json"), ("text/plain", "text"), (None, "text")):
        message = ApplicationMessage("t", b"[1]", 7, properties=Properties(content_type=kind))
        told = described(MessageId(0, 1), seal_message(message))
        assert (told["id"], told["topic"], told["time_us"], member in told) == ("0.1", "t", 7, True)


@awaited
async def test_a_node_that_is_not_ready_takes_no_clients() -> None:
    async with Node(port=0, http_port=0) as node:
        node.ready = False
        for method, path in (("POST", "/topics/a"), ("GET", "/topics?filter=a"), ("GET", "/topics/a/last")):
            reply = await ask(node, method, path)
            assert (reply.status, reply.error["field"], reply.headers["retry-after"]) == (503, "node", "1")


@awaited
async def test_a_token_that_ends_while_a_publication_waits(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    headers = {"Authorization": f"Bearer {new_token(tokens, 'carol', publish=('#',))}", "Antecede-After": "0.999"}
    async with Node(port=0, http_port=0, tokens=tokens) as node, connection(port_of(node)) as exchange:
        await exchange.send("POST", "/topics/a", b"x", headers)
        await until(lambda: bool(node.http and node.http.clients))
        tokens.write_text('{"clients": []}')
        node.credentials.reload()
        await until(lambda: not (node.http and node.http.clients))
        assert (node.pool.used, node.hub.position) == (0, 0)


@awaited
async def test_a_failure_is_answered_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("for the test")

    async with Node(port=0, http_port=0) as node:
        with monkeypatch.context() as patch:
            patch.setattr(Publication, "publish", fail)
            reply = await ask(node, "POST", "/topics/a", b"x")
        assert (reply.status, "RuntimeError" in reply.error["problem"]) == (500, True)
        assert "for the test" in caplog.text
        assert (await ask(node, "POST", "/topics/a", b"x")).status == 200


@pytest.mark.parametrize(("kind", "status"), [("denied", 403), ("stopped", 503), ("late", 504), ("usage", 400)])
@awaited
async def test_every_kind_of_failure_has_a_status(kind: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> Failed:
        return Failed(0, kind, "for the test", uncertain=True)

    monkeypatch.setattr(Publication, "publish", fail)
    async with Node(port=0, http_port=0) as node:
        reply = await ask(node, "POST", "/topics/a", b"x")
        assert (reply.status, reply.json["may_arrive"], reply.error["problem"]) == (status, True, "for the test")


@awaited
async def test_a_stream_whose_partitions_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node stops while a feed waits to be opened; or it takes too long."""
    async with Node(port=0, http_port=0) as node:
        assert node.http is not None
        monkeypatch.setattr(node.taking, "need", lambda partitions, then: None)
        monkeypatch.setattr(node.taking, "release", lambda partitions: None)
        asking = asyncio.create_task(ask(node, "GET", "/topics?filter=a"))
        await until(lambda: bool(node.http and node.http.clients))
        for one in list(node.http.clients):
            one.say_goodbye()
        assert (await asking).status == 503
        monkeypatch.setattr(topics, "OPENING_S", 0.05)
        assert await send(port_of(node), b"GET /topics?filter=a HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        await until(lambda: not (node.http and node.http.clients))
        assert node.pool.used == 0


@awaited
async def test_streams_cost_memory_that_is_bounded() -> None:
    async with Node(port=0, http_port=0) as node:
        node.pool.bytes_max = 0
        long = "&".join(f"filter={number}/{'x' * 400}" for number in range(60))
        reply = await ask(node, "GET", f"/topics?{long}")
        assert (reply.status, reply.error["field"]) == (503, "stream")
        assert node.pool.used == 0
        async with stream(node, "filter=a"):  # a small one is served still
            assert node.pool.used > 0
        await until(lambda: node.pool.used == 0)


@awaited
async def test_a_server_without_room_closes_newcomers() -> None:
    async with Node(port=0, http_port=0) as node:
        assert node.http is not None
        node.http._connections_max = 0
        assert await send(port_of(node), b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") == b""


@awaited
async def test_a_port_in_use_is_named() -> None:
    async with Node(port=0, http_port=0) as node:
        with pytest.raises(antecede.UsageError, match="http_port"):
            await Node(port=0, http_port=port_of(node)).start()


@awaited
async def test_a_malformed_body_behind_a_refusal() -> None:
    async with Node(port=0, http_port=0) as node:
        request = b"POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
        answer = await send(port_of(node), request)
        assert (answer[:12], answer.count(b"HTTP/1.1")) == (b"HTTP/1.1 404", 1)


@awaited
async def test_the_table_of_last_messages_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(last, "TOPICS_MAX", 4)
    async with Node(port=0, http_port=0, directory=tmp_path / "n0", recent_messages=2) as node:
        for number in range(9):
            await ask(node, "POST", f"/topics/{number}", b"x")
        found = [(await ask(node, "GET", f"/topics/{number}/last")).status for number in range(9)]
        assert found == [404] * 5 + [200] * 4
        # Retention removes a message; the table still has its topic.
        assert node.journal is not None
        await ask(node, "POST", "/topics/last", b"x")
        await ask(node, "POST", "/topics/last", b"x")
        await node.journal.retain(Retention(bytes_max=1))
        assert (await ask(node, "GET", "/topics/6/last")).status == 404
        assert (await ask(node, "GET", "/topics/last/last")).status == 200
