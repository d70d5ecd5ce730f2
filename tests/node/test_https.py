"""HTTP off loopback: TLS, and a token for everything but /health."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import antecede
from antecede import Node
from antecede.wire.security import client_tls, init_certificates, new_token
from tests.client.running import awaited, until
from tests.node.http_client import Exchange

GUARDED = ("/", "/page.css", "/page.js", "/status", "/metrics", "/nothing")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    init_certificates(directory, cluster="antecede")
    return directory


@asynccontextmanager
async def open_to_others(certificates: Path, tmp_path: Path) -> AsyncIterator[tuple[Node, str, str]]:
    """A node whose HTTP listens on all addresses; a token that may ask for the status, and one that may not."""
    tokens = tmp_path / "tokens.json"
    may, may_not = new_token(tokens, "monitor", status=True), new_token(tokens, "carol", publish=("#",))
    async with Node(port=0, tls=certificates, tokens=tokens, http_port=0, http_host="0.0.0.0") as node:
        assert node.http is not None
        assert node.http.url.startswith("https://0.0.0.0:")
        yield node, may, may_not


async def ask(node: Node, certificates: Path, path: str, authorization: str = "") -> tuple[int, bytes]:
    assert node.http is not None
    context = client_tls(certificates / "authority.pem")
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", node.http.port, ssl=context, server_hostname="localhost"
    )
    header = f"Authorization: {authorization}\r\n" if authorization else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1]), answer


@awaited
async def test_only_health_is_open(certificates: Path, tmp_path: Path) -> None:
    async with open_to_others(certificates, tmp_path) as (node, may, may_not):
        assert (await ask(node, certificates, "/health"))[0] == 200
        for path in GUARDED:
            code, answer = await ask(node, certificates, path)
            assert code == 401
            assert b"WWW-Authenticate: Basic" in answer  # so that a browser asks
            assert node.name.encode() not in answer
            for wrong in ("Bearer guess", "Basic !", "Basic " + base64.b64encode(b"x:guess").decode(), f"Digest {may}"):
                assert (await ask(node, certificates, path, wrong))[0] == 401
            assert (await ask(node, certificates, path, f"Bearer {may_not}"))[0] == 403
        basic = "Basic " + base64.b64encode(f"anybody:{may}".encode()).decode()
        for authorization in (f"Bearer {may}", basic):
            code, answer = await ask(node, certificates, "/status", authorization)
            assert (code, json.loads(answer.partition(b"\r\n\r\n")[2])["name"]) == (200, node.name)
            assert b"antecede_healthy" in (await ask(node, certificates, "/metrics", authorization))[1]
            assert b"page.js" in (await ask(node, certificates, "/", authorization))[1]
        assert node.transport.counts.refused["untrusted"] > 0


@awaited
async def test_topics_over_tls(certificates: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    bearer = {"Authorization": f"Bearer {new_token(tokens, 'carol', publish=('#',), subscribe=('#',))}"}
    async with Node(port=0, tls=certificates, tokens=tokens, http_port=0, http_host="0.0.0.0") as node:
        assert node.http is not None
        context = client_tls(certificates / "authority.pem")
        options = {"ssl": context, "server_hostname": "localhost"}
        reading = Exchange(*await asyncio.open_connection("127.0.0.1", node.http.port, **options))
        await reading.send("GET", "/topics?filter=t", headers=bearer)
        assert (await reading.begin()).status == 200
        writing = Exchange(*await asyncio.open_connection("127.0.0.1", node.http.port, **options))
        body = bytes(range(256)) * 1024
        for _ in range(3):
            await writing.send("POST", "/topics/t", body, bearer)
            assert (await writing.reply()).status == 200
        assert [base64.b64decode(event.data["base64"]) for event in await reading.messages(3)] == [body] * 3
        await writing.send("POST", "/topics/t", bytes(600_000), bearer)
        assert (await writing.reply()).status == 413
        reading.writer.close()
        writing.writer.close()
        await until(lambda: not (node.http and node.http.clients))


@awaited
async def test_a_plain_request_is_not_answered(certificates: Path, tmp_path: Path) -> None:
    async with open_to_others(certificates, tmp_path) as (node, may, _):
        assert node.http is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", node.http.port)
        writer.write(f"GET /status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {may}\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            assert not await reader.read()
        writer.close()
        await until(lambda: node.transport.counts.refused["tls"] == 1)


@awaited
async def test_sockets_that_begin_no_tls_keep_no_monitor_out(certificates: Path, tmp_path: Path) -> None:
    async with open_to_others(certificates, tmp_path) as (node, _, _):
        assert node.http is not None
        idle = [await asyncio.open_connection("127.0.0.1", node.http.port) for _ in range(300)]
        assert (await ask(node, certificates, "/health"))[0] == 200
        for _, writer in idle:
            writer.close()


@awaited
async def test_a_removed_token_is_not_taken(certificates: Path, tmp_path: Path) -> None:
    async with open_to_others(certificates, tmp_path) as (node, may, _):
        assert (await ask(node, certificates, "/metrics", f"Bearer {may}"))[0] == 200
        (tmp_path / "tokens.json").write_text('{"clients": []}')
        node.credentials.reload()
        assert (await ask(node, certificates, "/metrics", f"Bearer {may}"))[0] == 401


def test_it_does_not_start_unprotected(certificates: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    new_token(tokens, "x")
    for settings in ({}, {"tls": certificates}, {"tokens": tokens}):
        with pytest.raises(antecede.UsageError, match="http_host"):
            Node(http_port=0, http_host="0.0.0.0", **settings)
    with pytest.raises(antecede.UsageError, match="http_host"):
        Node(host="10.0.0.1", http_port=0, tokens=tokens)
    assert Node(host="10.0.0.1", http_port=0, http_host="127.0.0.1", tokens=tokens).config.http_at == "127.0.0.1"
