"""A cluster of processes under load while its nodes are killed: what was acknowledged, and what the journals say."""

import asyncio
import random
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

import antecede
from antecede.audit import Question, audit
from antecede.audit.report import Report
from antecede.audit.vectorised.source import TableSource
from antecede.audit.vectorised.verdict import judge_run
from antecede.journal import export_trace
from antecede.node.local_cluster import LocalCluster
from antecede.spark.audit_targets import find_targets
from antecede.spark.session import spark_session
from antecede.spark.verdicts import judge as judge_on_spark
from antecede.trace import Event
from antecede.trace.files import read_trace, table_rows

#: Between two things a client says: a minute of eight clients must stay within what the judge in this process takes.
PAUSE_S = 0.025


class Load:
    """A client of each node that answers what it reads, and remembers what was acknowledged."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        self.cluster = cluster
        self.acknowledged: set[tuple[int, int]] = set()
        self.uncertain = 0
        self._rng = random.Random(seed)
        self._stopping = False

    async def run(self, node: int) -> None:
        """A discussion: ask now and then, answer what comes."""
        while not self._stopping:
            try:
                async with antecede.connect(self.cluster.url(node), patience_s=30, timeout_s=10) as bus:
                    await self._talk(bus, node)
            except antecede.AntecedeError:
                await asyncio.sleep(0.2)

    async def _talk(self, bus: antecede.Bus, node: int) -> None:
        async with bus.subscribe("questions/#") as feed:
            number = 0
            while not self._stopping:
                number += 1
                await asyncio.sleep(PAUSE_S)
                try:
                    identity = await bus.publish(f"questions/{node}", b"%d" % number, durability="disk")
                    self.acknowledged.add((identity.source, identity.seq))
                    async with asyncio.timeout(0.05):
                        question = await anext(feed)
                        answer = await bus.publish("answers", question.payload, durability="disk")
                        self.acknowledged.add((answer.source, answer.seq))
                except TimeoutError:
                    pass
                except antecede.PublishError as error:
                    self.uncertain += error.may_arrive

    def stop(self) -> None:
        self._stopping = True


class BulkLoad(Load):
    """A client of each node that publishes as fast as its node acknowledges, up to a bound."""

    #: Publications of one client that may wait for their acknowledgement, and that it makes in a second.
    unacknowledged_max = 2000
    rate = 2000

    async def _talk(self, bus: antecede.Bus, node: int) -> None:
        pending: deque[asyncio.Future[antecede.MessageId]] = deque()
        loop = asyncio.get_running_loop()
        began, made = loop.time(), 0
        try:
            while not self._stopping:
                await asyncio.sleep(0.005)
                due = int((loop.time() - began) * self.rate) - made
                for _ in range(min(due, self.unacknowledged_max - len(pending))):
                    pending.append(bus.publish_nowait(f"load/{node}", b"x" * 100))
                    made += 1
                self._collect(pending)
        finally:
            if pending:
                await asyncio.wait(pending, timeout=30)
            self._collect(pending)

    def _collect(self, pending: "deque[asyncio.Future[antecede.MessageId]]") -> None:
        while pending and pending[0].done():
            done = pending.popleft()
            if done.exception() is None:
                self.acknowledged.add((done.result().source, done.result().seq))
            else:
                self.uncertain += 1


async def kill_and_restart(cluster: LocalCluster, rng: random.Random, times: int, pause_s: float) -> list[int]:
    """Kill nodes one after the other, each started again while the next may already be dying."""
    killed = []
    async with asyncio.TaskGroup() as restarts:
        for _ in range(times):
            await asyncio.sleep(pause_s)
            up = [node for node in range(cluster.count) if cluster.running(node)]
            if len(up) <= cluster.count // 2:
                continue
            node = rng.choice(up)  # perhaps one that has just begun to start
            await cluster.kill(node)
            killed.append(node)
            restarts.create_task(_again(cluster, node, rng.uniform(0.2, 2.0)))
    return killed


async def _again(cluster: LocalCluster, node: int, pause_s: float) -> None:
    await asyncio.sleep(pause_s)
    await cluster.start(node, wait=False)
    process = cluster.processes[node]
    try:
        await cluster.ready(node)
    except antecede.AntecedeError:
        if process.returncode != -9:  # killed while it started: whoever did that starts it again
            raise


async def at_rest(cluster: LocalCluster, load: Load, clients: "list[asyncio.Task[None]]", within_s: float) -> None:
    """End the clients, and wait until every node has delivered everything that was published.

    A node may have acknowledged messages that it has not told the others yet: that all have delivered the same says
    nothing about these. So each node publishes a last message, behind all it has.
    """
    load.stop()
    await asyncio.wait(clients, timeout=60)
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    async with asyncio.timeout(within_s):
        last: dict[str, int] = {}
        for node in range(cluster.count):
            async with antecede.connect(cluster.url(node), timeout_s=within_s) as bus:
                identity = await bus.publish("last", b"", durability="disk")
                load.acknowledged.add((identity.source, identity.seq))
                last[str(identity.source)] = identity.seq
    found: list[tuple[dict[str, int], int]] = []
    deadline = asyncio.get_running_loop().time() + within_s
    while asyncio.get_running_loop().time() < deadline:
        found = []
        for node in range(cluster.count):
            async with antecede.connect(cluster.url(node), timeout_s=20) as bus:
                status = await bus.status()
                found.append((status["delivered"], status["position"]))
        if all(one == (last, found[0][1]) for one in found):
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"nodes have published up to {last} and delivered, with their positions: {found}")


def judge(trace: Path) -> tuple[Report, set[tuple[int, int]]]:
    """The audit of a trace, and the messages every node of it has delivered."""
    rows = list(table_rows(read_trace(trace)))
    delivered: dict[int, set[tuple[int, int]]] = {}
    for row in rows:
        if row.event.name == "DELIVER":
            delivered.setdefault(row.node, set()).add((row.source, row.seq))
    return audit(rows), set.intersection(*delivered.values())


def judge_bulk(trace: Path) -> tuple[Report, set[tuple[int, int]]]:
    """`judge` for hundreds of thousands of deliveries."""
    table = read_trace(trace)
    delivered: dict[int, set[tuple[int, int]]] = {}
    taken = table.filter(pc.equal(table["event"], Event.DELIVER.name.lower())).select(["node", "source", "seq"])
    for node, source, seq in zip(*[column.to_pylist() for column in taken.columns], strict=True):
        delivered.setdefault(node, set()).add((source, seq))
    report = judge_run(TableSource(table), Question()).report
    assert report is not None
    return report, set.intersection(*delivered.values())


def judge_trace(trace: Path) -> Report:
    """The same of an exported trace, by the audit on Spark."""
    (verdict,) = judge_on_spark(spark_session(None, short=True), find_targets([trace]), Question())
    assert verdict.outcome.report is not None, verdict.outcome.refused
    return verdict.outcome.report


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRun:
    """What a run came to."""

    report: Report
    load: Load
    #: Messages every journal has.
    everywhere: set[tuple[int, int]]
    killed: list[int]
    #: The journals, exported.
    trace: Path

    def __str__(self) -> str:
        return (
            f"{len(self.killed)} kills; {len(self.load.acknowledged)} messages acknowledged, "
            f"{self.load.uncertain} uncertain, {len(self.everywhere)} in every journal; {self.report}"
        )


async def kill_run(
    directory: Path,
    *,
    nodes: int,
    kills: int,
    pause_s: float,
    seed: int = 1,
    bulk: bool = False,
    within_s: float = 90,
    **settings: Any,
) -> KillRun:
    """`bulk`: publish as fast as nodes acknowledge. `settings` as in `NodeConfig`."""
    trace = directory / "kill.parquet"
    settings = {"round_s": 1.0, "timeout_s": 0.8, "shorten_every": 500} | settings
    async with LocalCluster(directory / "cluster", nodes=nodes, **settings) as cluster:
        load = (BulkLoad if bulk else Load)(cluster, seed)
        clients = [asyncio.create_task(load.run(node)) for node in range(nodes)]
        killed = await kill_and_restart(cluster, random.Random(seed), kills, pause_s)
        await at_rest(cluster, load, clients, within_s)
        # While all are up: what is owed is owed to the living.
        export_trace([cluster.journal(node) for node in range(nodes)], trace, run="kill")
    report, everywhere = (judge_bulk if bulk else judge)(trace)
    return KillRun(report=report, load=load, everywhere=everywhere, killed=killed, trace=trace)
