"""What a node's HTTP server does with wrong requests, strangers that cost time, and pages of other sites."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import Node
from antecede.node.config import NodeConfig
from antecede.node.http import connection as http_connection
from antecede.node.http import files, server
from antecede.node.local_cluster import LocalCluster
from antecede.wire.envelope import BODY_BYTES_MAX
from tests.client.running import awaited, until
from tests.node.http_client import ask, connection, port_of, stream
from tests.node.test_http import send

JSON = {"Content-Type": "application/json"}


@awaited
async def test_errors_name_the_field_the_value_and_the_remedy() -> None:
    wrong: list[tuple[str, str, bytes, dict[str, str], int, str, Any]] = [
        ("GET", "/topics?filter=a&max_age=0", b"", {}, 400, "max_age", "0"),
        ("GET", "/topics?filter=a&max_age=nan", b"", {}, 400, "max_age", "nan"),
        ("POST", "/topics/a/+/b", b"", {}, 400, "topic", "a/+/b"),
        ("POST", "/topics/%FF", b"", {}, 400, "path", "%FF"),
        ("POST", "/topics/a%00", b"", {}, 400, "topic", "a\0"),
        ("POST", "/topics/" + "a/" * 64, b"", {}, 400, "topic", None),
        ("POST", "/topics/a", b"{", JSON, 400, "body", "{"),
        ("POST", "/topics/a", b"[" * 100_000, JSON, 400, "body", "[" * 100),
        ("POST", "/topics/a", b"", {"Antecede-After": "x"}, 400, "Antecede-After", "x"),
        ("POST", "/topics/a", b"", {"Antecede-After": "0:7"}, 400, "Antecede-After", "0:7"),
        ("POST", "/topics/a", b"", {"Antecede-After": "70000.1"}, 400, "Antecede-After", "70000.1"),
        ("POST", "/topics/a", b"", {"Antecede-Durability": "replicated(0)"}, 400, "durability", "replicated(0)"),
        ("POST", "/topics/a", b"", {"Antecede-Durability": "replicated(3)"}, 400, "publication", "a"),
        ("POST", "/topics/a", b"", {"Antecede-Timeout": "nan"}, 400, "Antecede-Timeout", "nan"),
        ("POST", "/topics/a", b"", {"Antecede-Timeout": "301"}, 400, "Antecede-Timeout", "301"),
        ("POST", "/topics/a", b"", {"Antecede-Header-X": "y" * 1025}, 413, "a header in bytes", 1025),
        ("POST", "/topics/", b"", {}, 404, "path", "/topics/"),
        ("PUT", "/topics/a", b"", {}, 405, "method", "PUT"),
        ("GET", "/topics", b"", {}, 400, "filter", ""),
        ("GET", "/topics?filter=", b"", {}, 400, "topic filter", ""),
        ("GET", "/topics?filter=a/%23/b", b"", {}, 400, "topic filter", "a/#/b"),
        ("GET", "/topics?" + "&".join(f"filter={at}" for at in range(65)), b"", {}, 413, "filters of one stream", 65),
        ("GET", "/topics?" + "&".join(f"filter={at}" for at in range(200)), b"", {}, 400, "query", None),
        ("GET", "/topics?filter=a&token=x", b"", {}, 400, "query", "token"),
        ("GET", "/topics?filter=a&since=x", b"", {}, 400, "since", "x"),
        ("GET", "/topics?filter=a", b"", {"Last-Event-ID": "x"}, 400, "Last-Event-ID", "x"),
        ("GET", "/topics?filter=a", b"", {"Last-Event-ID": "0:999@0.999"}, 400, "Last-Event-ID", ""),
        ("GET", "/topics?filter=a", b"", {"Last-Event-ID": "3:999"}, 400, "Last-Event-ID", "3:999"),
        ("GET", "/topics?filter=a", b"", {"Last-Event-ID": "0:1@70000.1"}, 400, "Last-Event-ID", ""),
        ("GET", "/topics?filter=a", b"", {"Last-Event-ID": "\xff"}, 400, "Last-Event-ID", None),
        ("HEAD", "/topics?filter=a", b"", {}, 405, "", None),
        ("GET", "/topics/a/+/last", b"", {}, 400, "topic", "a/+"),
        ("GET", "/topics/last", b"", {}, 405, "method", "GET"),
        ("OPTIONS", "/nothing", b"", {}, 404, "path", "/nothing"),
    ]
    async with Node(port=0, http_port=0) as node:
        for method, path, body, headers, status, field, value in wrong:
            raw = {name: text.encode("latin-1") for name, text in headers.items()}
            reply = await ask(node, method, path, body, raw)  # type: ignore[arg-type]
            assert reply.status == status, (method, path, headers, reply)
            if method != "HEAD":
                assert reply.error["field"] == field, reply
                assert value is None or reply.error["value"] == value, reply
        assert node.hub.position == 0
        assert not node.hub.feeds
        assert node.http is not None
        await until(lambda: not node.http.clients)  # type: ignore[union-attr]
        # A cursor that is ahead of a node without a journal is of an earlier life.
        assert (await ask(node, "GET", "/topics?filter=a", headers={"Last-Event-ID": "0.77:999"})).status == 410


@awaited
async def test_a_body_may_be_as_long_as_a_message() -> None:
    async with Node(port=0, http_port=0) as node:
        assert (await ask(node, "POST", "/topics/t", bytes(BODY_BYTES_MAX))).status == 200
        too_long = await ask(node, "POST", "/topics/t", bytes(BODY_BYTES_MAX + 1))
        assert (too_long.status, too_long.error["value"]) == (413, BODY_BYTES_MAX + 1)
        chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        request = b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (await send(port_of(node), request + chunk * 9)).startswith(b"HTTP/1.1 413")
        assert node.hub.position == 1
        async with stream(node, "filter=t&since=0") as events:
            (event,) = await events.messages(1)
        assert event.data["text"] == "\0" * BODY_BYTES_MAX


@awaited
async def test_a_refusal_comes_before_the_body() -> None:
    """The body of a request that is refused is not waited for."""
    async with Node(port=0, http_port=0) as node:
        head = b"POST /topics/a/%23 HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n"
        assert (await send(port_of(node), head)).startswith(b"HTTP/1.1 403")
        head = b"POST /topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
        assert (await send(port_of(node), head)).startswith(b"HTTP/1.1 413")


@awaited
async def test_slow_requests_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "CONNECTION_S", 0.1)
    monkeypatch.setattr(http_connection, "BODY_S", 0.1)
    async with Node(port=0, http_port=0) as node:
        refused = node.transport.counts.refused
        assert await send(port_of(node), b"POST /topics/a HTTP/1.1\r\nHo") == b""
        assert refused["silent"] == 1
        assert (
            await send(port_of(node), b"POST /topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
            == b""
        )
        assert refused["silent"] == 2
        # A connection between two requests ends without a complaint.
        whole = b"POST /topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
        assert (await send(port_of(node), whole)).startswith(b"HTTP/1.1 200")
        assert refused["silent"] == 2
        assert node.hub.position == 1


@awaited
async def test_slow_bodies_keep_no_monitor_out() -> None:
    async with Node(port=0, http_port=0) as node:
        slow = []
        for _ in range(300):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node))
            writer.write(b"POST /topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
            slow.append((reader, writer))
        assert (await ask(node, "GET", "/health")).status == 200
        assert (await ask(node, "POST", "/topics/a", b"x")).status == 200
        for _, writer in slow:
            writer.close()


@awaited
async def test_unfinished_bodies_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODIES_BYTES_MAX", 150_000)
    async with Node(port=0, http_port=0) as node:
        head = b"POST /topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(node))
        writer.write(head + bytes(100_000))
        await until(lambda: bool(node.http and node.http._body_bytes == 100_000))
        assert (await send(port_of(node), head + bytes(100_000))).startswith(b"HTTP/1.1 503")
        assert (await ask(node, "POST", "/topics/a", bytes(20_000))).status == 200
        writer.close()
        await until(lambda: bool(node.http and node.http._body_bytes == 0))
        assert (await ask(node, "POST", "/topics/a", bytes(100_000))).status == 200


@awaited
async def test_publications_that_wait_keep_no_monitor_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "LEFT_S", 0.05)
    async with Node(port=0, http_port=0) as node:
        assert node.http is not None
        http = node.http
        http._clients_max = 80
        never = {"Antecede-After": "0.999"}
        waiting = [asyncio.create_task(ask(node, "POST", "/topics/a", b"x", never)) for _ in range(80)]
        await until(lambda: len(http.clients) == 80)
        assert (await ask(node, "GET", "/health")).status == 200
        assert node.status()["clients"] == 80
        refused = await ask(node, "POST", "/topics/a", b"x")
        assert (refused.status, refused.error["field"], refused.headers["retry-after"]) == (503, "connection", "1")
        assert (await ask(node, "GET", "/topics?filter=a")).status == 503
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await until(lambda: not http.clients)
        assert (await ask(node, "POST", "/topics/a", b"x")).status == 200
        assert node.hub.position == 1  # those whose client left were not published


@awaited
async def test_a_client_that_leaves_while_its_publication_waits_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connection, "LEFT_S", 0.05)
    async with Node(port=0, http_port=0) as node:
        async with connection(port_of(node)) as exchange:
            await exchange.send("POST", "/topics/a", b"x", {"Antecede-After": "0.999"})
            await until(lambda: bool(node.http and node.http.clients))
            assert node.pool.used > 0
        await until(lambda: not (node.http and node.http.clients), 60)
        await until(lambda: not node.pool.used)  # in the turns that follow


async def _stuck_reader(port: int) -> socket.socket:
    """A stream whose reader never reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, ("127.0.0.1", port))
    await loop.sock_sendall(sock, b"GET /topics?filter=t HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return sock


@awaited
async def test_a_reader_that_never_reads_is_closed_and_can_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "STALL_S", 0.3)
    async with (
        Node(port=0, http_port=0, directory=tmp_path / "n0", recent_messages=8) as node,
        node.connect() as bus,
        stream(node, "filter=t") as good,
    ):
        sock = await _stuck_reader(port_of(node))
        await until(lambda: len(node.hub.feeds) == 2)
        cursor = (await good.event()).id
        body = bytes(100_000)
        reading = asyncio.create_task(good.messages(80))
        for _ in range(80):
            await bus.publish("t", body)
        assert len(await reading) == 80  # others do not wait for it
        await until(lambda: len(node.hub.feeds) == 1)
        assert node.transport.counts.refused["silent"] == 1
        sock.close()
        async with stream(node, "filter=t", {"Last-Event-ID": cursor}) as again:
            assert [event.data["id"] for event in await again.messages(80)] == [f"0.{at}" for at in range(1, 81)]
        await until(lambda: len(node.hub.feeds) == 1)


@awaited
async def test_what_gathers_for_a_stream_is_bounded(tmp_path: Path) -> None:
    """Eight megabytes for a reader that reads nothing: its socket's buffer and a few events are all that is held."""
    async with Node(port=0, http_port=0, directory=tmp_path / "n0") as node, node.connect() as bus:
        sock = await _stuck_reader(port_of(node))
        await until(lambda: len(node.hub.feeds) == 1)
        for _ in range(80):
            await bus.publish("t", bytes(100_000))
        (feed,) = node.hub.feeds
        assert not feed.live
        assert node.http is not None
        (held,) = node.http.clients
        assert held._transport is not None
        assert held._transport.get_write_buffer_size() < 1_500_000
        sock.close()
        await until(lambda: not node.hub.feeds)


@awaited
async def test_kill_9_of_the_node_and_on_from_the_last_id(tmp_path: Path) -> None:
    async with LocalCluster(tmp_path, nodes=1, http=True) as nodes:
        assert nodes.page is not None
        port = int(nodes.page.rstrip("/").rpartition(":")[2])
        async with stream(port, "filter=t&since=0") as events:
            for number in range(30):
                assert (await ask(port, "POST", "/topics/t", b"%d" % number)).status == 200
            seen = [(event.id, event.data["text"]) for event in await events.messages(10)]
            await nodes.kill(0)
        await nodes.start(0)
        assert (await ask(port, "POST", "/topics/t", b"30")).status == 200
        async with stream(port, "filter=t&since=0", {"Last-Event-ID": seen[-1][0]}) as events:
            rest = await events.messages(21)
        assert [text for _, text in seen] + [event.data["text"] for event in rest] == list(map(str, range(31)))
        assert (await ask(port, "GET", "/topics/t/last")).json["text"] == "30"


# -- files -------------------------------------------------------------------------------------------------------------


@awaited
async def test_files_of_a_directory_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tmp_path / "app"
    (app / "sub").mkdir(parents=True)
    (app / "index.html").write_text("<h1>index</h1>")
    (app / "sub" / "a b.js").write_text("script")
    (app / ".hidden").write_text("hidden")
    (app / "long.png").write_bytes(bytes(1001))
    (app / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "secret.txt").write_text("secret")
    monkeypatch.setattr(files, "FILE_BYTES_MAX", 1000)
    async with Node(port=0, http_port=0, http_files=app, ws_port=0) as node:
        index = await ask(node, "GET", "/app/")
        assert (index.body, index.headers["content-type"]) == (b"<h1>index</h1>", "text/html; charset=utf-8")
        assert "default-src 'self'" in index.headers["content-security-policy"]
        script = await ask(node, "GET", "/app/sub/a%20b.js")
        assert (script.body, script.headers["content-type"]) == (b"script", "text/javascript; charset=utf-8")
        for path in (
            *("../secret.txt", "%2e%2e/secret.txt", "sub/../../secret.txt", "..%2Fsecret.txt", "..%5Csecret.txt"),
            *("link.txt", ".hidden", "sub", "sub/", "/etc/passwd", "%00", "nothing", "a" * 5000),
        ):
            reply = await ask(node, "GET", f"/app/{path}")
            assert (reply.status, b"secret\n" in reply.body) == (404, False), path
        assert (await ask(node, "GET", "/app/long.png")).status == 413
        assert (await ask(node, "GET", "/app/%FF")).status == 400
        assert node.mqtt is not None
        assert (await ask(node, "GET", "/ports")).json == {"ws_port": node.mqtt.ports["ws_port"]}
    async with Node(port=0, http_port=0) as node:
        assert (await ask(node, "GET", "/app/")).error["remedy"] == "set http_files to a directory"
        assert (await ask(node, "GET", "/ports")).json == {}


# -- pages of other sites ----------------------------------------------------------------------------------------------


@awaited
async def test_pages_of_other_sites_may_not_use_a_node() -> None:
    """A browser would let any page send these with the access of the person who opened it."""
    async with Node(port=0, http_port=0) as node:
        port = port_of(node)
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://localhost:{port + 1}", "Host": f"localhost:{port}"},
            {"Host": f"evil.example:{port}"},  # its name leads here
            {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"},
            {"Host": "[::1"},
        ):
            for method, path in (("POST", "/topics/a"), ("GET", "/topics?filter=a"), ("GET", "/topics/a/last")):
                reply = await ask(node, method, path, headers=headers)
                assert (reply.status, reply.error["field"] in ("Origin", "Host")) == (403, True), headers
                assert "access-control-allow-origin" not in reply.headers
            assert (await ask(node, "OPTIONS", "/topics/a", headers=headers)).status == 403
        for name in ("localhost", "127.0.0.1", "[::1]", "node.localhost"):
            own = {"Host": f"{name}:{port}", "Origin": f"http://{name}:{port}"}
            assert (await ask(node, "POST", "/topics/a", headers=own)).status == 200
        assert node.transport.counts.refused["untrusted"] > 0


@awaited
async def test_sites_that_the_settings_name_may() -> None:
    site = {"Origin": "https://app.example"}
    async with Node(port=0, http_port=0, http_origins=("https://app.example",)) as node:
        asked = await ask(node, "OPTIONS", "/topics/a", headers={**site, "Access-Control-Request-Method": "POST"})
        assert (asked.status, asked.headers["access-control-allow-origin"]) == (204, "https://app.example")
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert "Antecede-After" in asked.headers["access-control-allow-headers"]
        for method, path in (("POST", "/topics/a"), ("GET", "/topics/a/last"), ("GET", "/topics?filter=+")):
            reply = await _head(node, method, path, site)
            assert (reply[0], reply[1]["access-control-allow-origin"]) == (200, "https://app.example")
            assert reply[1]["vary"] == "Origin"
        # An error must be readable, too.
        wrong = await ask(node, "POST", "/topics/+", headers=site)
        assert (wrong.status, wrong.headers["access-control-allow-origin"]) == (400, "https://app.example")
        assert (await ask(node, "POST", "/topics/a", headers={"Origin": "https://other.example"})).status == 403
    async with Node(port=0, http_port=0, http_origins=("*",)) as node:
        assert (await ask(node, "POST", "/topics/a", headers={"Origin": "https://any.example"})).status == 200


@awaited
async def test_websockets_ask_for_the_site_too() -> None:
    """A browser opens a WebSocket for any page, and names the page's site."""
    async with Node(port=0, http_port=0, ws_port=0, http_origins=("https://app.example",)) as node:
        assert node.mqtt is not None
        port = node.mqtt.ports["ws_port"]
        for site, host, status in (
            ("https://evil.example", f"127.0.0.1:{port}", 403),
            ("null", f"127.0.0.1:{port}", 403),
            (f"http://evil.example:{port}", f"evil.example:{port}", 403),
            ("http://127.0.0.1:1", f"127.0.0.1:{port}", 403),
            ("http://127.0.0.1:x", f"127.0.0.1:{port}", 403),
            (None, f"evil.example:{port}", 403),
            (None, f"127.0.0.1:{port}", 101),
            ("https://app.example", f"127.0.0.1:{port}", 101),
            (f"http://127.0.0.1:{port_of(node)}", f"127.0.0.1:{port}", 101),  # a page that the node serves
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            origin = "" if site is None else f"Origin: {site}\r\n"
            writer.write(
                f"GET / HTTP/1.1\r\nHost: {host}\r\n{origin}Upgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                "Sec-WebSocket-Protocol: mqtt\r\n\r\n".encode()
            )
            assert (await reader.readline()).split()[1] == str(status).encode(), (site, host)
            writer.close()


async def _head(node: Node, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
    async with connection(port_of(node)) as exchange:
        await exchange.send(method, path, headers=headers)
        head = await exchange.begin()
        return head.status, head.headers


@pytest.mark.parametrize("origin", ["app.example", "https://app.example/", "ftp://app.example", "https://", ""])
def test_an_origin_is_a_scheme_and_a_host(origin: str) -> None:
    with pytest.raises(antecede.UsageError, match="http_origins"):
        NodeConfig(http_origins=(origin,))
