"""The live half of `antecede demo`: a cluster of processes, a discussion, a node killed and restarted, the verdict."""

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
from antecede.spark.audit import RunVerdict, judge
from antecede.spark.audit_targets import find_subjects
from antecede.trace import Row

NODES: Final = 8
#: Where the speakers sit, who is killed, and what is talked about.
SPEAKERS: Final = (0, 3, 5)
KILLED: Final = 2
ROOMS: Final = ("rooms/kitchen", "rooms/garden", "rooms/attic")
_WORDS: Final = 6
_AGREE_S: Final = 60.0


def live_story(console: Console, out: Path) -> bool:
    """Play the story with everything it leaves in `out`. Whether order held."""
    cluster, trace, target = out / "cluster", out / "live.parquet", out / "live.html"
    shutil.rmtree(cluster, ignore_errors=True)
    trace.unlink(missing_ok=True)
    console.print(
        f"{NODES} nodes, a process each; three people talk in {len(ROOMS)} rooms; node {KILLED} is killed (-9)."
    )
    acknowledged, rows = asyncio.run(_play(console, cluster, trace))
    console.print(
        f"{acknowledged} messages acknowledged; {len(rows)} rows in {NODES} journals. Judging them on Spark …"
    )
    (verdict,) = judge(start_spark(None, short=True), find_subjects([trace]), Question())
    _write_page(target, rows, verdict, acknowledged)
    report = verdict.outcome.report
    delivered = 0 if report is None else report.deliveries
    complete = delivered == acknowledged * NODES
    clean = verdict.ok and complete
    said = "order held, nothing lost, nothing twice" if clean else f"VIOLATED: see {target}"
    console.print(f"{delivered} deliveries: {said}", style="bold green" if clean else "bold red")
    console.print(f"report: {target}", highlight=False)
    return clean


async def _play(console: Console, directory: Path, trace: Path) -> tuple[int, list[Row]]:
    """The discussion and the accident. How many messages were acknowledged, and what the journals say."""
    rng = random.Random(1)
    async with LocalCluster(directory, nodes=NODES, round_s=1.0, timeout_s=0.8) as cluster:
        talking = [asyncio.create_task(_talk(cluster.url(node), random.Random(node))) for node in SPEAKERS]
        await asyncio.sleep(rng.uniform(0.3, 0.6))
        await cluster.kill(KILLED)
        console.print(f"  node {KILLED} is down, the others go on")
        await asyncio.sleep(1.0)
        await cluster.start(KILLED)
        console.print(f"  node {KILLED} is back and fetches what it missed")
        acknowledged = sum(await asyncio.gather(*talking))
        await _until_all_have(cluster, acknowledged)
        # Read while all are up: what is owed is owed to the living.
        journals = [cluster.journal(node) for node in range(NODES)]
        export_trace(journals, trace, run="live")
        return acknowledged, list(export_rows(journals))


async def _talk(url: str, rng: random.Random) -> int:
    """Say something, listen, answer: reading before writing is what makes the next message depend on the last."""
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
                continue  # nobody spoke: speak again
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
                pass  # it is just coming up
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
        f"{acknowledged} messages of three speakers, from publication to arrival. Shaded: received before something it "
        f"depends on, and held. Node {KILLED} was killed, missed what was said, and fetched it when it came back."
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
