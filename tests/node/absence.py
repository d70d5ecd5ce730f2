"""A node that is away for long while others publish at full load: what was acknowledged, what each journal has, and how
long publishers had to wait."""

import asyncio
import contextlib
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import antecede
from antecede.audit import Question, Report
from antecede.audit.vectorised.source import TableSource
from antecede.audit.vectorised.verdict import judge_run
from antecede.core.errors import LimitError
from antecede.journal import export_trace
from antecede.journal.reading import JournalFile
from antecede.node.local_cluster import LocalCluster
from antecede.trace.files import read_trace

Way = Literal["stop", "kill"]


@dataclass
class Flood:
    """A client that publishes as fast as its node acknowledges, and remembers what was acknowledged."""

    url: str
    payload: bytes
    acknowledged: set[tuple[int, int]] = field(default_factory=set)
    #: The longest wait for an acknowledgement since it was last set to 0.
    wait_s: float = 0.0
    rate: float = 20_000.0
    _stopping: bool = False

    async def run(self) -> None:
        async with antecede.connect(self.url, patience_s=60, timeout_s=60) as bus:
            pending: deque[tuple[float, asyncio.Future[Any]]] = deque()
            began, sent = time.monotonic(), 0
            while not self._stopping:
                allowed = int((time.monotonic() - began) * self.rate) - sent
                for _ in range(min(allowed, 256)):
                    try:
                        pending.append((time.monotonic(), bus.publish_nowait("load", self.payload)))
                        sent += 1
                    except LimitError:
                        break
                await asyncio.sleep(0.001)
                self._collect(pending)
            while pending:
                await asyncio.wait([pending[0][1]])
                self._collect(pending)

    def _collect(self, pending: "deque[tuple[float, asyncio.Future[Any]]]") -> None:
        now = time.monotonic()
        while pending and pending[0][1].done():
            asked, future = pending.popleft()
            identity = future.result()
            self.acknowledged.add((identity.source, identity.seq))
            self.wait_s = max(self.wait_s, now - asked)
        if pending:
            self.wait_s = max(self.wait_s, now - pending[0][0])

    def stop(self) -> None:
        self._stopping = True


@dataclass(frozen=True, kw_only=True)
class AbsenceRun:
    """What a run came to."""

    #: The verdict of the audit on the journals.
    report: Report
    acknowledged: set[tuple[int, int]]
    #: By node: what its journal has, in order.
    delivered: dict[int, list[tuple[int, int]]]
    missed: int
    #: Until the node was up to date while the others went on publishing, and how many messages it took in.
    caught_up_s: float
    caught_up: int
    wait_s: float
    rss_mb: dict[int, float]
    logs: dict[int, str]

    def lost(self, node: int) -> int:
        return len(self.acknowledged.difference(self.delivered[node]))

    def doubled(self, node: int) -> int:
        return len(self.delivered[node]) - len(set(self.delivered[node]))

    def jumps(self, node: int) -> list[tuple[int, int, int]]:
        """Where the numbers of a source do not follow each other: source, last number, next number."""
        last: dict[int, int] = {}
        found = []
        for source, seq in self.delivered[node]:
            if seq != last.get(source, 0) + 1:
                found.append((source, last.get(source, 0), seq))
            last[source] = seq
        return found

    def __str__(self) -> str:
        return (
            f"{len(self.acknowledged)} acknowledged, {self.missed} missed; {self.caught_up} taken in "
            f"{self.caught_up_s:.1f} s ({self.caught_up / max(self.caught_up_s, 0.001):.0f}/s); longest wait of a "
            f"publisher {self.wait_s:.2f} s; memory {self.rss_mb}"
        )


async def absence_run(
    directory: Path,
    *,
    way: Way,
    missed: int,
    nodes: int = 3,
    publishers: int = 1,
    rate: float = 20_000.0,
    payload: bytes = b"x" * 100,
    within_s: float = 120.0,
    quiet: bool = False,
    **settings: Any,
) -> AbsenceRun:
    """The last node is stopped or killed until the others have published `missed` messages, and comes back.

    `quiet`: they publish no more when it does. `settings` as in `NodeConfig`.
    """
    async with LocalCluster(directory, nodes=nodes, **({"round_s": 1.0, "timeout_s": 0.8} | settings)) as cluster:
        floods = [Flood(cluster.url(node), payload, rate=rate / publishers) for node in range(publishers)]
        running = [asyncio.create_task(flood.run()) for flood in floods]
        away = nodes - 1
        await _until(lambda: sum(len(flood.acknowledged) for flood in floods) > 200, within_s)
        if way == "stop":
            cluster.processes[away].send_signal(signal.SIGSTOP)
        else:
            await cluster.kill(away)
        before = sum(len(flood.acknowledged) for flood in floods)
        await _until(lambda: sum(len(flood.acknowledged) for flood in floods) >= before + missed, within_s)
        if quiet:
            await _finish(floods, running)
        for flood in floods:
            flood.wait_s = 0.0
        had = len(read_journal(cluster.journal(away)))
        began = time.monotonic()
        if way == "stop":
            cluster.processes[away].send_signal(signal.SIGCONT)
        else:
            await cluster.start(away)
        reached = await _caught_up(cluster, away, within_s)
        caught_up_s = time.monotonic() - began
        await _finish(floods, running)
        wait_s = max(flood.wait_s for flood in floods)
        acknowledged = set[tuple[int, int]]().union(*[flood.acknowledged for flood in floods])
        await _all_have(cluster, acknowledged, within_s)
        # While all are up: what is owed is owed to the living.
        export_trace([cluster.journal(node) for node in range(nodes)], directory / "trace.parquet", run="absence")
        return AbsenceRun(
            report=_judge(directory / "trace.parquet"),
            acknowledged=acknowledged,
            delivered={node: read_journal(cluster.journal(node)) for node in range(nodes)},
            missed=missed,
            caught_up_s=caught_up_s,
            caught_up=reached - had,
            wait_s=wait_s,
            rss_mb={node: rss_mb(cluster.processes[node].pid) for node in range(nodes)},
            logs={node: cluster.log(node).read_text(errors="replace") for node in range(nodes)},
        )


async def _finish(floods: list[Flood], running: "list[asyncio.Task[None]]") -> None:
    for flood in floods:
        flood.stop()
    await asyncio.gather(*running)


async def _until(done: Any, within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while not done():
            await asyncio.sleep(0.01)


async def _status(cluster: LocalCluster, node: int) -> dict[str, Any]:
    async with antecede.connect(cluster.url(node), timeout_s=30) as bus:
        return await bus.status()


async def _caught_up(cluster: LocalCluster, node: int, within_s: float) -> int:
    """Wait until `node` has what node 0 had a moment ago; how many messages that are.

    Node 0 is asked first: it goes on while `node` is asked, on a busy machine by thousands of messages.
    """
    async with asyncio.timeout(within_s):
        while True:
            with contextlib.suppress(antecede.AntecedeError):
                theirs = sum((await _status(cluster, 0))["reached"].values())
                mine = sum((await _status(cluster, node))["reached"].values())
                if mine >= theirs:
                    return int(mine)
            await asyncio.sleep(0.1)


async def _all_have(cluster: LocalCluster, wanted: set[tuple[int, int]], within_s: float) -> None:
    last: dict[str, int] = {}
    for source, seq in wanted:
        last[str(source)] = max(seq, last.get(str(source), 0))
    async with asyncio.timeout(within_s):
        for node in range(cluster.count):
            while True:
                found = (await _status(cluster, node))["reached"]
                if all(found.get(source, 0) >= seq for source, seq in last.items()):
                    break
                await asyncio.sleep(0.1)


def _judge(trace: Path) -> Report:
    report = judge_run(TableSource(read_trace(trace)), Question()).report
    assert report is not None
    return report


def read_journal(path: Path) -> list[tuple[int, int]]:
    """The messages a journal has, in the order of their delivery."""
    with JournalFile(path) as journal:
        removed, last = journal.extent()
        blocks = [stored for chunk in journal.blocks(removed, last) for stored in chunk]
        return [(message.source, message.seq) for stored in blocks for message in stored.block.messages]


def rss_mb(pid: int) -> float:
    """Memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


@dataclass(frozen=True, kw_only=True)
class DeadRun:
    """What came of a member that is dead while others publish."""

    #: By node, of those that were up: bytes of kept records, and what it says of members that lag.
    kept_bytes: dict[int, int]
    lagging: dict[int, dict[int, int]]
    rss_mb: dict[int, float]
    restart_s: float
    join_s: float
    #: What the newcomer published at once.
    newcomer: tuple[int, int]
    #: What the journal of the dead one has after it came back, in order.
    returned: list[tuple[int, int]]
    acknowledged: set[tuple[int, int]]

    def __str__(self) -> str:
        return (
            f"{len(self.acknowledged)} acknowledged; kept {self.kept_bytes} bytes; restart {self.restart_s:.1f} s; "
            f"join of a newcomer {self.join_s:.1f} s; memory {self.rss_mb}"
        )


async def dead_run(directory: Path, *, missed: int, rate: float, within_s: float = 240.0, **settings: Any) -> DeadRun:
    """Node 2 is killed, node 0 publishes, node 1 restarts, node 3 joins, and only then node 2 comes back."""
    cluster = LocalCluster(directory, nodes=4, **({"round_s": 1.0, "timeout_s": 0.8} | settings))
    try:
        await cluster.start(0)
        await asyncio.gather(cluster.start(1), cluster.start(2))
        flood = Flood(cluster.url(0), b"x" * 100, rate=rate)
        running = asyncio.create_task(flood.run())
        await _until(lambda: len(flood.acknowledged) > 200, within_s)
        await cluster.kill(2)
        await _until(lambda: len(flood.acknowledged) > missed, within_s)
        await _finish([flood], [running])
        found = {node: await _status(cluster, node) for node in (0, 1)}
        rss = {node: rss_mb(cluster.processes[node].pid) for node in (0, 1)}
        await cluster.kill(1)
        began = time.monotonic()
        await cluster.start(1)
        restarted = time.monotonic()
        await cluster.start(3)
        joined = time.monotonic()
        async with antecede.connect(cluster.url(3)) as bus:
            identity = await bus.publish("load", b"new")
        await cluster.start(2)
        acknowledged = flood.acknowledged | {(identity.source, identity.seq)}
        await _all_have(cluster, acknowledged, within_s)
        return DeadRun(
            kept_bytes={node: status["kept_bytes"] for node, status in found.items()},
            lagging={
                node: {int(slot): lag for slot, lag in status["lagging"].items()} for node, status in found.items()
            },
            rss_mb=rss,
            restart_s=restarted - began,
            join_s=joined - restarted,
            newcomer=(identity.source, identity.seq),
            returned=read_journal(cluster.journal(2)),
            acknowledged=acknowledged,
        )
    finally:
        await cluster.stop()
