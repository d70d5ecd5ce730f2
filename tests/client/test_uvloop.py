"""Clients on uvloop's event loop, as inside a web server; nodes on it as far as they can be, and their processes."""

import asyncio
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

import antecede
from antecede import Node, UsageError
from antecede.node.config import NodeConfig
from antecede.node.event_loop import loop_factory
from antecede.node.local_cluster import LocalCluster
from tests.node.clusters import cluster
from tests.node.test_security import certificates, secure_node

from .running import awaited, take

__all__ = ["certificates"]  # a fixture


def on_uvloop(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
            await test

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


@contextmanager
def elsewhere(certificates: Path, directory: Path) -> Iterator[tuple[Node, str]]:
    """A node with TLS and tokens, on asyncio's event loop in another thread."""
    started: list[tuple[Node, str]] = []
    up, over = threading.Event(), threading.Event()

    async def run() -> None:
        async with secure_node(certificates, directory) as started_node:
            started.append(started_node)
            up.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert up.wait(60)
        yield started[0]
    finally:
        over.set()
        thread.join()


def test_a_client_of_a_node_with_tls(certificates: Path, tmp_path: Path) -> None:
    with elsewhere(certificates, tmp_path) as (node, token):

        async def test() -> None:
            async with (
                antecede.connect(node.url, token=token, tls=certificates) as bus,
                bus.subscribe("answers/#") as feed,
            ):
                for number in range(100):
                    await bus.publish("answers/1", bytes([number]))
                assert [message.payload[0] for message in await take(feed, 100)] == list(range(100))

        on_uvloop(test())


def test_nodes_without_tls(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            cluster(2, tmp_path) as (one, two),
            one.connect() as bus,
            antecede.connect(two.url) as reader,
            reader.subscribe("#") as feed,
        ):
            for number in range(300):
                await bus.publish("a", str(number).encode())
            assert [int(message.payload) for message in await take(feed, 300)] == list(range(300))

    on_uvloop(test())


def test_a_node_in_memory() -> None:
    async def test() -> None:
        async with antecede.connect("memory://") as bus, bus.subscribe("#") as feed:
            await bus.publish("a", b"1")
            assert (await take(feed, 1))[0].payload == b"1"

    on_uvloop(test())


def test_a_node_with_tls_is_refused_by_name(certificates: Path, tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(UsageError, match=r"event loop.*uvloop.*`antecede node`"):
            async with secure_node(certificates, tmp_path):
                pass

    on_uvloop(test())


def test_a_node_process_runs_on_uvloop_unless_it_has_tls_or_is_told_otherwise(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loop_factory(NodeConfig()) is uvloop.new_event_loop
    assert loop_factory(NodeConfig(tls=certificates)) is None
    monkeypatch.setenv("ANTECEDE_UVLOOP", "0")
    assert loop_factory(NodeConfig()) is None
    monkeypatch.delenv("ANTECEDE_UVLOOP")
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory(NodeConfig()) is None


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@awaited
async def test_what_processes_acknowledged_survives_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    if loop == "asyncio":
        monkeypatch.setenv("ANTECEDE_UVLOOP", "0")
    async with LocalCluster(tmp_path, nodes=3) as processes:
        async with antecede.connect(processes.url(0)) as bus:
            for number in range(200):
                bus.publish_nowait("a", b"%d" % number)
            await bus.publish("a", b"200")
        await processes.kill(0)
        await processes.start(0)
        for node in range(3):
            async with antecede.connect(processes.url(node)) as bus, bus.subscribe("#", since="0") as feed:
                assert [int(message.payload) for message in await take(feed, 201)] == list(range(201))
            assert f" on {loop}" in processes.log(node).read_text()
