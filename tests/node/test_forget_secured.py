"""`antecede cluster forget` in a cluster with certificates, tokens and signed messages."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import Node
from antecede.core.errors import JournalError
from antecede.wire.security import init_certificates, new_token
from tests.client.running import awaited
from tests.node.clusters import cluster, make, restart, until_all_have
from tests.node.test_forget import until_closed, until_suspected


def forget(url: str, name: str, *, token: str, tls: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command as an operator does."""
    command = [sys.executable, "-m", "antecede", "cluster", "forget", name, "--url", url, "--token", token]
    return subprocess.run([*command, "--tls", str(tls)], capture_output=True, text=True, timeout=120, check=False)


@awaited
async def test_a_node_is_forgotten_under_tls_and_refused_with_its_old_directory(tmp_path: Path) -> None:
    certificates, tokens = tmp_path / "certificates", tmp_path / "tokens.json"
    init_certificates(certificates, cluster="antecede", nodes=("n0", "n1", "n2"), clients=("carol",))
    operator = new_token(tokens, "operator", publish=("t",), subscribe=("t",), operate=True)
    reader = new_token(tokens, "reader", publish=("t",), subscribe=("t",))
    secured: dict[str, Any] = {"tls": certificates, "tokens": tokens, "signed": True}

    def of(number: int) -> dict[str, Any]:
        return secured | {"certificate": f"n{number}"}

    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for number in range(3):
            seeds = (nodes[0].address,) if nodes else ()
            nodes.append(await stack.enter_async_context(make(number, seeds, tmp_path, **of(number))))
        first, second, gone = nodes
        async with antecede.connect(gone.url, token=reader, tls=certificates) as bus:
            await bus.publish("t", b"old", durability="replicated(2)")
        await until_all_have(nodes, 1)
        gone.abort()
        await until_suspected([first, second], 2)
        async with antecede.connect(first.url, token=reader, tls=certificates) as bus:
            with pytest.raises(antecede.DeniedError, match="forget n2"):
                await bus.forget("n2")
        done = await asyncio.to_thread(forget, first.url, "n2", token=operator, tls=certificates)
        assert done.returncode == 0, done.stderr
        assert "n2 (slot 2) is forgotten; told 1 of the other nodes" in done.stdout
        await until_closed([first, second], 2, 1)
        for node in (first, second):
            assert node.roster.members[2].forgotten
            assert node.process.members("main") == {0, 1}
        # Its certificate is good, and its directory is not.
        with pytest.raises(JournalError, match=r"operator has said that it is gone for good.*an empty one"):
            await restart(gone, tmp_path, first, **of(2))
        # A node that knew it still knows it after a restart, and the forgotten one is refused there, too.
        await second.stop()
        again = await stack.enter_async_context(
            make(1, (first.address,), tmp_path, port=second.listener.address[1], **of(1))
        )
        assert again.roster.members[2].forgotten
        with pytest.raises(JournalError, match="gone for good"):
            await restart(gone, tmp_path, again, **of(2))
        # With an empty directory it joins anew, by the same certificate. Secured slots are not reused.
        fresh = await stack.enter_async_context(make(3, (again.address,), tmp_path, **of(2)))
        assert fresh.slot == 3
        async with (
            antecede.connect(fresh.url, token=reader, tls=certificates) as bus,
            antecede.connect(first.url, token=reader, tls=certificates) as other,
            other.subscribe("t", since="0") as feed,
        ):
            await bus.publish("t", b"new", durability="replicated(2)")
            assert [(await anext(feed)).payload for _ in range(2)] == [b"old", b"new"]


@awaited
async def test_a_token_without_the_right_to_operate_cannot_forget(tmp_path: Path) -> None:
    """The same without TLS: on this machine tokens alone protect a cluster."""
    tokens = tmp_path / "tokens.json"
    reader = new_token(tokens, "reader", publish=("t",), subscribe=("t",))
    operator = new_token(tokens, "operator", operate=True)
    async with cluster(2, tmp_path, tokens=tokens) as nodes:
        nodes[1].abort()
        await until_suspected(nodes[:1], 1)
        async with antecede.connect(nodes[0].url, token=reader) as bus:
            with pytest.raises(antecede.DeniedError, match="forget n1"):
                await bus.forget("n1")
        async with antecede.connect(nodes[0].url, token=operator) as bus:
            assert await bus.forget("n1") == "n1 (slot 1) is forgotten; told 0 of the other nodes"
