"""Tokens and certificates of a running node: read again, revoked, expired; and a token is not sent in clear."""

import asyncio
import datetime
import json
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import Node
from antecede.client.bus import Bus
from antecede.core.errors import PublishError, RefusedError
from antecede.node.metrics import metrics
from antecede.wire.security import client_tls, init_certificates, issue, new_token
from tests.client.running import awaited, take, until


def edit_tokens(path: Path, change: Any) -> None:
    """Let `change` edit the clients of a token file, and replace the file."""
    found = json.loads(path.read_text())
    found["clients"] = change(found["clients"])
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(found))
    beside.replace(path)


def without(name: str) -> Any:
    return lambda clients: [client for client in clients if client["name"] != name]


async def publish_until_refused(bus: Bus) -> str:
    """Publish again and again, over a connection that broke too, until the node refuses the client; its words."""
    while True:
        try:
            await bus.publish("t", b"again")
        except PublishError:  # under way when the connection ended
            pass
        except antecede.AntecedeError as error:
            return str(error)
        await asyncio.sleep(0.01)


@awaited
async def test_a_revoked_token_ends_its_connections_and_no_others(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    carol, dave = (new_token(tokens, name, publish=("#",), subscribe=("#",)) for name in ("carol", "dave"))
    async with (
        Node(port=0, tokens=tokens) as node,
        antecede.connect(node.url, token=carol) as bad,
        antecede.connect(node.url, token=dave) as good,
        good.subscribe("#") as feed,
    ):
        await bad.publish("t", b"1")
        edit_tokens(tokens, without("carol"))
        assert "not known here" in await publish_until_refused(bad)
        before = node.hub.position
        await good.publish("t", b"3")
        assert (await take(feed, before + 1))[-1].payload == b"3"
        assert node.status()["clients"] == 1


@awaited
async def test_a_token_made_later_is_taken_and_a_broken_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = tmp_path / "tokens.json"
    carol = new_token(tokens, "carol", publish=("#",))
    async with Node(port=0, tokens=tokens) as node, antecede.connect(node.url, token=carol) as bus:
        tokens.write_text("{")
        await until(lambda: "stays in use" in caplog.text)
        await bus.publish("t", b"1")
        tokens.unlink()
        new_token(tokens, "dave")
        dave = new_token(tokens, "erin", publish=("#",))

        async def comes_in() -> bool:
            try:
                async with antecede.connect(node.url, token=dave) as other:
                    await other.publish("t", b"2")
            except RefusedError:
                return False
            return True

        while not await comes_in():
            await asyncio.sleep(0.05)


@awaited
async def test_an_expired_token_is_refused_and_ends_its_connections(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    carol = new_token(tokens, "carol", publish=("#",), days=1)
    async with Node(port=0, tokens=tokens) as node, antecede.connect(node.url, token=carol) as bus:
        await bus.publish("t", b"1")
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=0.2)
        edit_tokens(tokens, lambda clients: [client | {"expires": ends.isoformat()} for client in clients])
        assert "has expired" in await publish_until_refused(bus)


@awaited
async def test_a_certificate_that_was_replaced_is_shown(tmp_path: Path) -> None:
    certificates, tokens = tmp_path / "certs", tmp_path / "tokens.json"
    init_certificates(certificates, cluster="test", nodes=("node",))
    carol = new_token(tokens, "carol", publish=("#",))
    async with Node(port=0, tls=certificates, tokens=tokens) as node:
        context = client_tls(certificates / "authority.pem")
        async with antecede.connect(node.url, token=carol, tls=context) as bus:
            await bus.publish("t", b"1")
            before = node.credentials.expires_s
            for name in ("node.pem", "node.key"):
                (certificates / name).unlink()
            issue(certificates, "node", role="node", hosts=("localhost", "127.0.0.1"), days=20)
            await until(lambda: node.credentials.expires_s != before)
            await bus.publish("t", b"2")  # the connection stays
        _, writer = await asyncio.open_connection(*node.listener.address, ssl=context, server_hostname="localhost")
        shown = ssl.cert_time_to_seconds(writer.get_extra_info("peercert")["notAfter"])
        assert shown == node.credentials.expires_s
        writer.close()


@awaited
async def test_a_certificate_that_ends_soon_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificates = tmp_path / "certs"
    init_certificates(certificates, cluster="test", nodes=("node",), days=20)
    async with Node(port=0, tls=certificates) as node:
        assert "ends on" in caplog.text
        expires_s = node.status()["certificate_expires_s"]
        assert 18 * 86_400 < expires_s - time.time() < 20 * 86_400
        assert "antecede_certificate_expires_seconds" in metrics(node)
        assert node.status()["problems"] == []


@awaited
async def test_a_certificate_that_has_ended_is_a_problem(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificates = tmp_path / "certs"
    init_certificates(certificates, cluster="test", nodes=("other",))
    issue(certificates, "node", role="node", days=1, starts_in_days=-2)
    async with Node(port=0, tls=certificates) as node:
        assert "its certificate ended on" in caplog.text
        assert "its certificate ended on" in node.status()["problems"][0]


def test_certificates_and_tokens_for_no_days_are_refused(tmp_path: Path) -> None:
    with pytest.raises(antecede.UsageError, match="days"):
        init_certificates(tmp_path / "a", cluster="test", days=0)
    assert not (tmp_path / "a").exists()
    init_certificates(tmp_path / "certs", cluster="test")
    for days in (0, -1, 100_000):
        with pytest.raises(antecede.UsageError, match="days"):
            issue(tmp_path / "certs", "n1", role="node", days=days)
        with pytest.raises(antecede.UsageError, match="days"):
            new_token(tmp_path / "tokens.json", "carol", days=days)


def test_sighup_reads_again_and_does_not_stop_the_node(tmp_path: Path) -> None:
    config, tokens, log = tmp_path / "node.toml", tmp_path / "tokens.json", tmp_path / "log"
    config.write_text('port = 0\ntokens = "tokens.json"\n')
    carol = new_token(tokens, "carol", publish=("#",))
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "antecede.node", str(config)], stdout=subprocess.PIPE, stderr=errors
        )

    async def use() -> None:
        assert process.stdout is not None
        url = (await asyncio.to_thread(process.stdout.readline)).split()[-1].decode()
        tokens.write_text("{")
        process.send_signal(signal.SIGHUP)
        await until(lambda: "stays in use" in log.read_text())
        async with antecede.connect(url, token=carol) as bus:
            await bus.publish("t", b"x")

    try:
        asyncio.run(asyncio.wait_for(use(), 60))
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


@awaited
async def test_a_token_does_not_leave_the_machine_in_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(antecede.UsageError, match="in clear"):
        async with antecede.connect("antecede://192.0.2.1:7400", token="secret", patience_s=0.1):
            pass
    tokens = tmp_path / "tokens.json"
    carol = new_token(tokens, "carol", publish=("#",))
    async with Node(port=0, tokens=tokens) as node:
        monkeypatch.setattr("antecede.wire.handshake.is_loopback", lambda host: False)
        with pytest.raises(antecede.UsageError, match="in clear"):
            async with antecede.connect(node.url, token=carol):
                pass
        assert node.status()["refused"] == {}
        async with antecede.connect(node.url, token=carol, clear_token=True) as bus:
            await bus.publish("t", b"x")
