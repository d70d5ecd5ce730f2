"""Restored, cut and cloned directories: real processes refuse or stop, and no number ever has two contents.

The verdict is by acknowledged ids: each id was acknowledged for one body, and every node has that body under it.
"""

import asyncio
import contextlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede.audit import audit
from antecede.journal import JournalFile, export_rows
from antecede.node.local_cluster import LocalCluster
from antecede.wire.envelope import unseal
from tests.client.running import awaited

SETTINGS: dict[str, Any] = {"round_s": 1.0, "timeout_s": 0.8, "slots": 4}
#: The rules are the same for all; two stand for them in the default suite.
PROTOCOLS = ["vcube", "total", *(pytest.param(protocol, marks=pytest.mark.slow) for protocol in ("locamu", "gossip"))]

Id = tuple[int, int]


class Acknowledged:
    """What publishers were told, by id."""

    def __init__(self) -> None:
        self.bodies: dict[Id, list[str]] = {}

    async def publish(self, url: str, text: str, count: int, **how: Any) -> None:
        async with antecede.connect(url, timeout_s=20) as bus:
            for number in range(count):
                body = f"{text} {number}"
                name = await bus.publish("t", body.encode(), **({"durability": "disk"} | how))
                self.bodies.setdefault((name.source, name.seq), []).append(body)

    def twice(self) -> list[Id]:
        """Ids acknowledged for more than one message."""
        return [name for name, bodies in self.bodies.items() if len(bodies) > 1]


def journal(directory: Path) -> dict[Id, str]:
    """What a node delivered, by id."""
    with JournalFile(directory) as file:
        messages = [
            message
            for chunk in file.blocks(file.extent().removed, file.extent().position)
            for stored in chunk
            for message in stored.block.messages
        ]
    return {(one.source, one.seq): unseal(one.payload).body.decode() for one in messages}


async def until_delivered(directory: Path, wanted: set[Id]) -> None:
    async with asyncio.timeout(30):
        while not wanted <= journal(directory).keys():
            await asyncio.sleep(0.1)


async def refused(cluster: LocalCluster, node: int, problem: str) -> None:
    for attempt in (problem, f"was given up: .*{problem}"):  # trying again does not help
        with pytest.raises(antecede.UnreachableError, match=attempt) as error:
            await cluster.start(node)
        assert "an older copy is no help" in str(error.value)  # it does not advise to restore one
        await cluster.processes[node].wait()


def judged(*directories: Path) -> tuple[str, ...]:
    """What the audit finds wrong with the contents of messages in these nodes' journals."""
    return audit(list(export_rows([one / "journal.db" for one in directories])), rules=("same-content",)).violated


async def agree(cluster: LocalCluster, nodes: list[int], acknowledged: Acknowledged) -> None:
    """Every one of `nodes` has what was acknowledged, under its id; no id was acknowledged twice."""
    assert acknowledged.twice() == []
    for node in nodes:
        await until_delivered(cluster.directory / f"n{node}", set(acknowledged.bodies))
        found = journal(cluster.directory / f"n{node}")
        assert {name: found[name] for name in acknowledged.bodies} == {
            name: bodies[0] for name, bodies in acknowledged.bodies.items()
        }
    assert judged(*[cluster.directory / f"n{node}" for node in nodes]) == ()


async def start_empty(cluster: LocalCluster, node: int) -> None:
    """Do what the error says: keep the directory, start with an empty one."""
    home = cluster.directory / f"n{node}"
    home.rename(cluster.directory / f"kept-{node}")
    await cluster.start(node)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@awaited
async def test_a_restored_directory_is_refused(protocol: str, tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    async with LocalCluster(tmp_path, nodes=3, protocol=protocol, **SETTINGS) as cluster:
        await acknowledged.publish(cluster.url(1), "before the backup", 20)
        await cluster.kill(1)
        shutil.copytree(tmp_path / "n1", tmp_path / "backup")
        await cluster.start(1)
        await acknowledged.publish(cluster.url(1), "after the backup", 50)
        await until_delivered(tmp_path / "n0", set(acknowledged.bodies))
        await cluster.kill(1)
        shutil.rmtree(tmp_path / "n1")
        shutil.copytree(tmp_path / "backup", tmp_path / "n1")
        await refused(cluster, 1, "the cluster knows start 2")
        await agree(cluster, [0, 2], acknowledged)
        if protocol != "locamu":  # whose slots are the nodes of a graph: it has one for each
            await start_empty(cluster, 1)
            await acknowledged.publish(cluster.url(1), "as another node", 5)
            assert {source for source, _ in acknowledged.bodies} == {1, 3}
            await agree(cluster, [0, 2], acknowledged)


async def cut_tail(cluster: LocalCluster, node: int, lose: Any) -> None:
    """Stop the node's machine as a power failure would: its journal ends where it was before `lose` ran."""
    home = cluster.directory / f"n{node}"
    cluster.processes[node].send_signal(19)  # SIGSTOP: nothing is being written
    await asyncio.sleep(0.1)
    shutil.copytree(home, cluster.directory / "cut")
    cluster.processes[node].send_signal(18)
    await lose
    await cluster.kill(node)
    for one in home.glob("journal.db*"):
        one.unlink()
    for one in (cluster.directory / "cut").glob("journal.db*"):
        shutil.copy(one, home / one.name)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@awaited
async def test_a_journal_that_lost_its_end_is_refused(protocol: str, tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    async with LocalCluster(tmp_path, nodes=3, protocol=protocol, **SETTINGS) as cluster:
        await acknowledged.publish(cluster.url(1), "kept", 20)

        async def lose() -> None:
            await acknowledged.publish(cluster.url(1), "lost", 50)
            await until_delivered(tmp_path / "n2", set(acknowledged.bodies))

        await cut_tail(cluster, 1, lose())
        await refused(cluster, 1, "ends at message 20 of this node, and node [02] has message 70")
        await agree(cluster, [0, 2], acknowledged)


@awaited
async def test_a_journal_that_lost_what_it_had_acknowledged_is_refused(tmp_path: Path) -> None:
    """It lost nothing of its own. But others count on it: their publishers were told that it keeps their messages."""
    acknowledged = Acknowledged()
    async with LocalCluster(tmp_path, nodes=3, **SETTINGS) as cluster:
        await acknowledged.publish(cluster.url(1), "kept", 20)
        await cut_tail(
            cluster, 1, acknowledged.publish(cluster.url(0), "of another node", 50, durability="replicated(2)")
        )
        await refused(cluster, 1, "ends at message 0 of node 0, and this node has acknowledged 50")
        await agree(cluster, [0, 2], acknowledged)


@awaited
async def test_a_journal_that_only_missed_messages_goes_on(tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    async with LocalCluster(tmp_path, nodes=3, **SETTINGS) as cluster:
        await acknowledged.publish(cluster.url(1), "kept", 20)
        await cluster.kill(1)
        await acknowledged.publish(cluster.url(0), "meanwhile", 50)
        await cluster.start(1)
        await acknowledged.publish(cluster.url(1), "after", 20)
        await agree(cluster, [0, 1, 2], acknowledged)


# -- two processes from one directory ----------------------------------------------------------------------------------


class Copy:
    """A process that runs from a copy of a node's directory, at another port."""

    def __init__(self, cluster: LocalCluster, node: int) -> None:
        self.home = cluster.directory / "copy"
        source = cluster.directory / f"n{node}"
        shutil.copytree(source, self.home)
        (self.home / "journal.db.lock").unlink(missing_ok=True)
        self.port = cluster.ports[-1]  # of a node that was never started
        text = (source / "node.toml").read_text()
        (self.home / "node.toml").write_text(text.replace(f"port = {cluster.ports[node]}", f"port = {self.port}"))
        self.process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"antecede://127.0.0.1:{self.port}"

    async def start(self) -> str:
        """Start it; "ready", or what it said last."""
        with (self.home / "log").open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "antecede.node", str(self.home / "node.toml"),
                stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 60)
        return "ready" if line.startswith(b"ready") else await self.last_words()

    async def last_words(self) -> str:
        assert self.process is not None
        await asyncio.wait_for(self.process.wait(), 30)
        return (self.home / "log").read_text().strip().splitlines()[-1]

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
            await self.process.wait()


@contextlib.asynccontextmanager
async def cluster_of_three(directory: Path) -> Any:
    """Three nodes of four: the last port is for a copy."""
    cluster = LocalCluster(directory, nodes=4, **SETTINGS)
    try:
        await cluster.start(0)
        await asyncio.gather(cluster.start(1), cluster.start(2))
        yield cluster
    finally:
        await cluster.stop()


@awaited
async def test_a_copy_is_refused_when_the_original_has_started_again(tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    async with cluster_of_three(tmp_path) as cluster:
        await acknowledged.publish(cluster.url(1), "before", 10)
        await cluster.kill(1)
        copy = Copy(cluster, 1)
        await cluster.start(1)  # the same start as the copy's would be
        assert "the cluster knows start 2" in await copy.start()
        await acknowledged.publish(cluster.url(1), "the original goes on", 10)
        await agree(cluster, [0, 1, 2], acknowledged)


@awaited
async def test_a_copy_of_a_running_node_is_refused_when_the_original_went_on(tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    async with cluster_of_three(tmp_path) as cluster:
        await acknowledged.publish(cluster.url(1), "before", 10)
        copy = Copy(cluster, 1)
        await acknowledged.publish(cluster.url(1), "the original goes on", 10, durability="replicated(1)")
        assert "has message 20: the journal has lost its end" in await copy.start()
        await acknowledged.publish(cluster.url(1), "and on", 10)
        await agree(cluster, [0, 1, 2], acknowledged)


@awaited
async def test_of_two_that_run_the_earlier_start_stops(tmp_path: Path) -> None:
    """The copy has everything the original has published, and starts later: it takes over, and the original stops."""
    acknowledged = Acknowledged()
    async with cluster_of_three(tmp_path) as cluster:
        await acknowledged.publish(cluster.url(1), "before", 10)
        copy = Copy(cluster, 1)
        try:
            assert await copy.start() == "ready"
            assert await asyncio.wait_for(cluster.processes[1].wait(), 30) != 0
            assert "is not in use by this process alone" in cluster.log(1).read_text()
            await acknowledged.publish(copy.url, "the copy goes on", 10)
            await agree(cluster, [0, 2], acknowledged)
        finally:
            await copy.stop()


# -- alone -------------------------------------------------------------------------------------------------------------


@awaited
async def test_a_restored_node_starts_alone_and_stops_when_it_meets_one_that_knows(tmp_path: Path) -> None:
    before, alone = Acknowledged(), Acknowledged()
    async with LocalCluster(tmp_path, nodes=2, **SETTINGS) as cluster:
        await before.publish(cluster.url(1), "kept", 20)

        async def lose() -> None:
            await before.publish(cluster.url(1), "lost", 10)
            await until_delivered(tmp_path / "n0", set(before.bodies))

        await cut_tail(cluster, 1, lose())
        await cluster.kill(0)
        await cluster.start(1)  # no peer is there: it promises what its disk can
        await alone.publish(cluster.url(1), "alone", 30)
        assert max(alone.bodies) == (1, 50)  # more than the other has seen: only the contents tell
        await cluster.start(0)
        assert await asyncio.wait_for(cluster.processes[1].wait(), 40) != 0
        said = cluster.log(1).read_text()
        assert "has message 30 of this node" in said
        assert "another one under that number: numbers were given twice" in said
        assert "messages 21 to 50 of this node, published since its start: they are in this directory" in said
        # What was acknowledged first is what the others have; the rest is not lost silently: it is where it says.
        theirs, own = journal(tmp_path / "n0"), journal(tmp_path / "n1")
        assert {name: theirs[name] for name in before.bodies} == {name: one[0] for name, one in before.bodies.items()}
        assert {name: own[name] for name in alone.bodies} == {name: one[0] for name, one in alone.bodies.items()}
        assert judged(tmp_path / "n0", tmp_path / "n1") == ("same-content",)  # and the audit sees it


@awaited
async def test_a_restored_node_without_anyone_to_ask_goes_on(tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    async with LocalCluster(tmp_path, nodes=1, **SETTINGS) as cluster:
        await acknowledged.publish(cluster.url(0), "kept", 20)
        await cut_tail(cluster, 0, Acknowledged().publish(cluster.url(0), "lost", 20))
        await cluster.start(0)
        await acknowledged.publish(cluster.url(0), "again", 20)
        await agree(cluster, [0], acknowledged)
