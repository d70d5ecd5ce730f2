"""The live half of `antecede demo`: runs a cluster, kills and restarts a node, audits the journals and draws them."""

import asyncio
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from antecede.audit import Question
from antecede.cli.progress import start_spark
from antecede.client.connect import connect
from antecede.core import AntecedeError, UsageError
from antecede.journal import export_rows, export_trace
from antecede.node.local_cluster import LocalCluster
from antecede.report import Contents, page, space_time
from antecede.report.contents import AuditRow, Picture
from antecede.report.files import PAGE_MARK, write_own
from antecede.spark.audit_targets import find_targets
from antecede.spark.verdicts import RunVerdict, judge
from antecede.trace import Row

NODES: Final = 8
#: The nodes that the three clients use, the node that is killed, and the topics.
SPEAKERS: Final = (0, 3, 5)
KILLED: Final = 2
ROOMS: Final = ("rooms/kitchen", "rooms/garden", "rooms/attic")
_WORDS: Final = 6
_AGREE_S: Final = 60.0


def live_story(console: Console, out: Path) -> bool:
    """Run the cluster with all its files in `out`. Return whether the audit found every delivery in order."""
    cluster, trace, target = out / "cluster", out / "live.parquet", out / "live.html"
    shutil.rmtree(cluster, ignore_errors=True)
    trace.unlink(missing_ok=True)
    console.print(
        f"{NODES} nodes, a process each; three clients publish in {len(ROOMS)} topics; node {KILLED} is killed (-9)."
    )
    acknowledged, rows = asyncio.run(_play(console, cluster, trace))
    console.print(
        f"{acknowledged} messages acknowledged; {len(rows)} rows in {NODES} journals. Auditing them on Spark …"
    )
    (verdict,) = judge(start_spark(None, short=True), find_targets([trace]), Question())
    _write_page(target, rows, verdict, acknowledged)
    report = verdict.outcome.report
    delivered = 0 if report is None else report.deliveries
    complete = delivered == acknowledged * NODES
    clean = verdict.ok and complete
    said = "all in causal order, none lost, none twice" if clean else f"VIOLATED: see {target}"
    console.print(f"{delivered} deliveries: {said}", style="bold green" if clean else "bold red")
    console.print(f"report: {target}", highlight=False)
    return clean


async def _play(console: Console, directory: Path, trace: Path) -> tuple[int, list[Row]]:
    """Publish while a node is killed and restarted. Return how many messages were acknowledged, and all rows."""
    rng = random.Random(1)
    async with LocalCluster(directory, nodes=NODES, round_s=1.0, timeout_s=0.8) as cluster:
        talking = [asyncio.create_task(_talk(cluster.url(node), random.Random(node))) for node in SPEAKERS]
        await asyncio.sleep(rng.uniform(0.3, 0.6))
        await cluster.kill(KILLED)
        console.print(f"  node {KILLED} is down; the others continue")
        await asyncio.sleep(1.0)
        await cluster.start(KILLED)
        console.print(f"  node {KILLED} is back and fetches the messages it missed")
        acknowledged = sum(await asyncio.gather(*talking))
        await _until_all_have(cluster, acknowledged)
        # Read the journals while all nodes are up: the audit expects every message at every node that is up.
        journals = [cluster.journal(node) for node in range(NODES)]
        export_trace(journals, trace, run="live")
        return acknowledged, list(export_rows(journals))


async def _talk(url: str, rng: random.Random) -> int:
    """Publish, read, publish again: each message then depends on the ones read before it. Return how many."""
    said = 0
    async with connect(url) as bus, bus.subscribe("rooms/#") as feed:
        for _ in range(_WORDS):
            await asyncio.sleep(rng.uniform(0.1, 0.4))
            await bus.publish(rng.choice(ROOMS), b"well, ...", durability="disk")
            said += 1
            try:
                async with asyncio.timeout(0.5):
                    await anext(feed)
            except TimeoutError:
                continue  # no message came: publish the next one
    return said


async def _until_all_have(cluster: LocalCluster, messages: int) -> None:
    deadline = asyncio.get_running_loop().time() + _AGREE_S
    for node in range(NODES):
        while asyncio.get_running_loop().time() < deadline:
            try:
                async with connect(cluster.url(node)) as bus:
                    if sum((await bus.status())["delivered"].values()) >= messages:
                        break
            except AntecedeError:
                pass  # the node is still starting
            await asyncio.sleep(0.2)
        else:
            raise UsageError("node", node, f"did not deliver everything within {_AGREE_S:.0f} s", "see its log")


def _write_page(target: Path, rows: Sequence[Row], verdict: RunVerdict, acknowledged: int) -> None:
    svg = space_time(rows, title="Eight live nodes, one killed and restarted", standalone=False)
    report = verdict.outcome.report
    audit = [
        AuditRow(
            experiment="live cluster",
            run="live",
            rule=rule.name,
            verdict=rule.verdict.value,
            checked=rule.checked,
            violations=rule.violations,
            words=rule.example.words if rule.example else rule.reason,
        )
        for rule in (report.rules if report else ())
    ]
    caption = (
        f"{acknowledged} messages of three clients, from publication to delivery. Shaded: a message that was received "
        f"before one it depends on, and held. Node {KILLED} was killed and fetched the messages it missed afterwards."
    )
    contents = Contents(
        title="A live cluster, audited",
        lines=[],
        runs_finished=1,
        audit=audit,
        pictures=[Picture(title="What happened", caption=caption, svg=svg)],
        environment={"Python": sys.version.split()[0]},
        commands=["antecede demo"],
    )
    write_own(target, page(contents), PAGE_MARK)
