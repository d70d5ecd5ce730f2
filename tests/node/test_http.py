"""Health, metrics and the page over HTTP: what a monitor asks, and what strangers try."""

import asyncio
import re

import pytest

from antecede import Node
from antecede.node import status
from antecede.node.http import connection
from tests.client.running import awaited, until


def port_of(node: Node) -> int:
    assert node.http is not None
    return node.http.port


async def send(port: int, request: bytes) -> bytes:
    """Write, and read until the server closes; what it said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def get(node: Node, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Status, headers and body."""
    answer = await send(port_of(node), f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(first.split()[1]), headers, body


@awaited
async def test_health_and_metrics() -> None:
    async with Node(port=0, http_port=0) as node, node.connect() as bus:
        await bus.publish("t", b"x")
        await until(lambda: node.hub.position == 1)
        assert (await get(node, "/health"))[::2] == (200, "ok\n")
        _, headers, body = await get(node, "/metrics")
        assert headers["content-type"].startswith("text/plain; version=0.0.4")
        assert headers["content-length"] == str(len(body.encode()))
        assert 'antecede_delivered_total{node="0"} 1.0\n' in body
        assert 'antecede_clients{node="0"} 1.0\n' in body
        assert 'antecede_healthy{node="0"} 1.0\n' in body
        for line in body.splitlines():
            assert re.fullmatch(r"# (HELP|TYPE) .+|antecede_[a-z_]+\{[^}]*\} [0-9.e+-]+", line), line


@awaited
async def test_the_page_loads_nothing_from_elsewhere() -> None:
    async with Node(port=0, http_port=0) as node:
        for path, kind in [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")]:
            code, headers, body = await get(node, path)
            assert (code, headers["content-type"].partition(";")[0]) == (200, kind)
            assert "'unsafe-inline'" not in headers["content-security-policy"]
            assert "<style" not in body
            assert "innerHTML" not in body
        # Asked with HEAD: the same headers, no body.
        whole, bodiless = await get(node, "/"), await get(node, "/", "HEAD")
        assert bodiless == (200, whole[1], "")


@awaited
async def test_other_requests_get_a_short_answer_or_none() -> None:
    async with Node(port=0, http_port=0) as node:
        port = port_of(node)
        assert (await get(node, "/etc/passwd"))[0] == 404
        assert (await get(node, "/health?x=1"))[0] == 200
        assert (await get(node, "/health", "POST"))[0] == 405
        for nonsense in (
            b"nonsense\r\n\r\n",
            b"GET /health HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n",
        ):
            assert (await send(port, nonsense)).startswith(b"HTTP/1.1 400")
        long = b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 40_000
        assert (await send(port, long))[:12] == b"HTTP/1.1 431"
        assert (await get(node, "/health"))[0] == 200


@awaited
async def test_a_pipelined_request_is_not_answered() -> None:
    async with Node(port=0, http_port=0) as node:
        request = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        assert (await send(port_of(node), request * 3)).count(b"HTTP/1.1 ") == 1


@awaited
async def test_idle_sockets_do_not_keep_a_monitor_out() -> None:
    async with Node(port=0, http_port=0) as node:
        idle = [await asyncio.open_connection("127.0.0.1", port_of(node)) for _ in range(400)]
        try:
            for _ in range(5):
                assert (await get(node, "/health"))[::2] == (200, "ok\n")
        finally:
            for _, writer in idle:
                writer.close()


@awaited
async def test_a_socket_that_stays_idle_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECTION_S", 0.05)
    async with Node(port=0, http_port=0) as node:
        assert await send(port_of(node), b"GET /health HTTP/1.1\r\nHo") == b""


# -- health ------------------------------------------------------------------------------------------------------------


@awaited
async def test_a_node_that_has_stopped_is_not_well() -> None:
    async with Node(port=0, http_port=0) as node:
        node.driver._fail(RuntimeError("for the test"))
        assert (await get(node, "/health"))[::2] == (503, "stopped: for the test\n")


@awaited
async def test_a_node_whose_own_task_died_is_not_well(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise OSError("No space left on device")

    async with Node(port=0, http_port=0) as node:
        node.tasks.start("compares rosters", fail())
        await until(lambda: bool(node.tasks.failures))
        code, _, body = await get(node, "/health")
        assert (code, body) == (503, "the task that compares rosters has failed: OSError: No space left on device\n")
        assert node.status()["problems"] == [body.rstrip()]
        assert 'antecede_healthy{node="0"} 0.0\n' in (await get(node, "/metrics"))[2]
    assert [record for record in caplog.records if record.levelname == "ERROR" and "No space left" in record.message]


@awaited
async def test_a_node_that_is_not_ready_is_not_well() -> None:
    async with Node(port=0, http_port=0) as node:
        node.ready = False
        assert (await get(node, "/health"))[::2] == (503, "is starting or stopping, and takes no clients\n")


@awaited
async def test_a_node_whose_publishers_wait_for_long_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "BUSY_S", 0.02)
    async with Node(port=0, http_port=0) as node:
        node.driver.peer_up(1)  # nobody waits for a node that is down
        node.transport.relief.set(node.slot, True)  # any that is not down
        freed = asyncio.Event()
        node.pressure.when_free(freed.set)
        await asyncio.sleep(0.1)
        code, _, body = await get(node, "/health")
        assert code == 503
        assert "publishers have been waiting" in body
        assert "takes packets too slowly" in body
        node.transport.relief.set(node.slot, False)
        await freed.wait()
        assert (await get(node, "/health"))[0] == 200
