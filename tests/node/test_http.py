"""Health and metrics over HTTP: what a monitor asks, and what others try."""

import asyncio
import re

from antecede import Node
from tests.client.running import awaited, until


async def get(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


@awaited
async def test_health_and_metrics() -> None:
    async with Node(port=0, http_port=0) as node, node.connect() as bus:
        assert node.http is not None
        await bus.publish("t", b"x")
        await until(lambda: node.hub.position == 1)
        assert (await get(node.http.port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 200")
        answer = (await get(node.http.port, b"GET /metrics HTTP/1.1\r\n\r\n")).decode()
        head, body = answer.split("\r\n\r\n")
        assert f"Content-Length: {len(body.encode())}" in head
        assert 'antecede_delivered_total{node="0"} 1\n' in body
        assert 'antecede_clients{node="0"} 1\n' in body
        for line in body.splitlines():
            assert re.fullmatch(r"# (HELP|TYPE) .+|antecede_[a-z_]+\{[^}]*\} [0-9.e+-]+", line), line


@awaited
async def test_other_requests_get_a_short_answer_or_none() -> None:
    async with Node(port=0, http_port=0) as node:
        assert node.http is not None
        port = node.http.port
        assert (await get(port, b"GET /etc/passwd HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert (await get(port, b"POST /health HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
        assert (await get(port, b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 405")
        assert await get(port, b"x" * 20_000) == b""
        assert (await get(port, b"GET /health HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")


@awaited
async def test_a_node_that_has_stopped_is_not_well() -> None:
    async with Node(port=0, http_port=0) as node:
        assert node.http is not None
        node.driver._fail(RuntimeError("for the test"))
        assert (await get(node.http.port, b"GET /health HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503")
