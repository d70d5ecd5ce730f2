"""Addresses: IPv6 the whole way; and plain words when two ends do not fit."""

import asyncio
import io
import urllib.request
from pathlib import Path

import pytest

import antecede
from antecede import Node
from antecede.cli.node import _print_address
from antecede.client.bulk import Caller
from antecede.core.errors import RefusedError, UnreachableError
from antecede.node.joining import RosterClient
from antecede.node.roster import Roster
from antecede.wire.security import client_tls, init_certificates, new_token
from tests.client.running import awaited, take
from tests.node.clusters import QUICK


@awaited
async def test_a_cluster_on_ipv6(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with Node(host="::1", port=0, slots=4, http_port=0, directory=tmp_path / "n0", **QUICK) as first:
        _print_address(first)
        page = capsys.readouterr().out.split("http://")[1].split("/")[0]
        assert first.url == f"antecede://[::1]:{first.listener.address[1]}"
        assert page == f"[::1]:{first.http.port}"  # type: ignore[union-attr]
        seeds = (first.address,)
        async with Node(host="::1", port=0, slots=4, seeds=seeds, directory=tmp_path / "n1", **QUICK) as second:
            async with antecede.connect(second.url) as bus, bus.subscribe("t") as feed:
                async with antecede.connect(f"antecede://127.0.0.1:1,{first.address}") as other:
                    await other.publish("t", b"x", durability="replicated(1)")
                assert (await take(feed, 1))[0].payload == b"x"
            members = first.status()["members"]
            assert {member["address"] for member in members} == {first.address, second.address}

        def over_http() -> io.BufferedIOBase:
            with Caller(first.url):
                return urllib.request.urlopen(f"http://{page}/health", timeout=10)  # type: ignore[no-any-return]

        assert (await asyncio.to_thread(over_http)).read() == b"ok\n"


@awaited
async def test_tls_to_a_node_without_tls_says_so(tmp_path: Path) -> None:
    init_certificates(tmp_path / "certs", cluster="test")
    async with Node(port=0) as node:
        with pytest.raises(UnreachableError, match="as a node without TLS does"):
            async with antecede.connect(node.url, tls=client_tls(tmp_path / "certs" / "authority.pem")):
                pass


@awaited
async def test_tls_on_ipv6(tmp_path: Path) -> None:
    init_certificates(tmp_path / "certs", cluster="test")
    token = new_token(tmp_path / "tokens.json", "carol", publish=("#",))
    async with (
        Node(host="::1", port=0, tls=tmp_path / "certs", tokens=tmp_path / "tokens.json") as node,
        antecede.connect(node.url, token=token, tls=tmp_path / "certs") as bus,
    ):
        await bus.publish("t", b"x")


@awaited
async def test_nodes_that_differ_in_slots_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Node(port=0, slots=4) as node:
        for _ in range(3):
            with pytest.raises(RefusedError, match="slots is '4' at the one that answered"):
                await Node(port=0, slots=8, seeds=(node.address,)).start()
        for _ in range(10):  # a node of an earlier version does not name its slots in its hello
            former = RosterClient(Roster(1, 8), cluster="antecede", name="former", key=node.credentials.key)
            with pytest.raises(UnreachableError, match="slots"):
                await former.exchange(node.address)
        assert node.status()["refused"] == {"settings": 3, "malformed": 10}
    told = [message for message in caplog.messages if "slots" in message]
    assert len(told) == 2, told
