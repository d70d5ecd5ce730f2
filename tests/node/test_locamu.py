"""`protocol = "locamu"`: the class the simulator runs, on real links, along a base graph from the configuration."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede.audit import audit
from antecede.core import UsageError
from antecede.journal import export_trace
from antecede.node.config import NodeConfig, load_config
from antecede.node.local_cluster import LocalCluster
from antecede.protocols.locamu.live import LOCAMU as LOCAMU_LIVE
from antecede.trace.files import read_trace, table_rows
from tests.client.running import awaited
from tests.node.clusters import cluster, restart, until_all_have
from tests.node.kill import KillRun, Load, at_rest, judge

LOCAMU: dict[str, Any] = {"protocol": "locamu", "slots": 7, "shorten_every": 50}


@awaited
async def test_an_inner_node_dies_and_comes_back(tmp_path: Path) -> None:
    """Of a binary tree of 7, node 1 dies: messages pass it by, between its children too; it comes back and has all."""
    async with cluster(7, tmp_path, **LOCAMU) as nodes:
        for number in range(20):
            for node in nodes:
                node.publish_payload(b"before %d" % number, 0)
        await until_all_have(nodes, 140)
        nodes[1].abort()
        for number in range(20):
            for node in (nodes[3], nodes[4], nodes[6]):
                node.publish_payload(b"meanwhile %d" % number, 0)
        others = [node for node in nodes if node is not nodes[1]]
        await until_all_have(others, 200)
        again = await restart(nodes[1], tmp_path, nodes[0], **LOCAMU)
        try:
            again.publish_payload(b"back", 0)
            await until_all_have([*others, again], 201)
            trace = tmp_path / "run.parquet"
            export_trace([tmp_path / f"n{number}" / "journal.db" for number in range(7)], trace, run="locamu")
        finally:
            await again.stop()
    report = audit(list(table_rows(read_trace(trace))))
    assert report.ok, str(report)
    assert report.deliveries == 7 * 201
    assert next(rule for rule in report.rules if rule.name == "complete").checked


@awaited
async def test_what_it_does_not_offer_is_refused(tmp_path: Path) -> None:
    async with cluster(3, tmp_path, protocol="locamu", slots=3) as nodes:
        with pytest.raises(UsageError, match="know only their neighbours' copies"):
            nodes[0].publish_payload(b"", 3)
        with pytest.raises(UsageError, match="does not leave its graph"):
            nodes[0].driver.unsubscribe("main")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"protocol": "locamu", "slots": 3, "graph": "0-1,1-2,2-0"}, "closes the cycle"),
        ({"protocol": "locamu", "slots": 4, "graph": "0-1,2-3"}, "is not connected"),
        ({"protocol": "locamu", "slots": 3, "f": 2}, "would leave fewer than two"),
        ({"protocol": "bus"}, "is not known"),
    ],
)
def test_graphs_that_cannot_be_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        NodeConfig(**settings)


def test_a_graph_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('protocol = "locamu"\nslots = 4\ngraph = "0-1, 1-2, 1-3"\nf = 1\n')
    assert LOCAMU_LIVE.agreed(load_config(path).live_settings()) == {"graph": "0-1,1-2,1-3", "f": 1}


@pytest.mark.slow
def test_fifteen_processes_an_inner_node_killed_under_load(tmp_path: Path) -> None:
    """A live binary tree of 15 on loopback: nodes between the root and six others killed and started again."""
    run = asyncio.run(asyncio.wait_for(tree_run(tmp_path, nodes=15, victims=[1, 2, 1]), 900))
    print(run)
    assert run.load.acknowledged
    assert run.load.acknowledged <= run.everywhere, "acknowledged and lost"
    assert run.report.ok, str(run.report)


class Talk(Load):
    """The same, at a pace fifteen processes on two cores can keep."""

    async def _talk(self, bus: antecede.Bus, node: int) -> None:
        async with bus.subscribe("questions/#") as feed:
            number = 0
            while not self._stopping:
                number += 1
                try:
                    identity = await bus.publish(f"questions/{node}", b"%d" % number, durability="disk")
                    self.acknowledged.add((identity.source, identity.seq))
                    async with asyncio.timeout(0.5):
                        question = await anext(feed)
                        if self._rng.random() < 0.3:
                            answer = await bus.publish("answers", question.payload, durability="disk")
                            self.acknowledged.add((answer.source, answer.seq))
                except TimeoutError:
                    pass
                except antecede.PublishError as error:
                    self.uncertain += error.may_arrive
                await asyncio.sleep(self._rng.uniform(0.1, 0.5))


async def tree_run(directory: Path, *, nodes: int, victims: list[int], seed: int = 1) -> KillRun:
    trace = directory / "tree.parquet"
    settings = {"protocol": "locamu", "slots": nodes, "round_s": 2.0, "timeout_s": 1.5, "shorten_every": 500}
    rng = random.Random(seed)
    async with LocalCluster(directory / "cluster", nodes=nodes, **settings) as running:
        load = Talk(running, seed)
        clients = [asyncio.create_task(load.run(node)) for node in range(nodes)]
        for victim in victims:
            await asyncio.sleep(rng.uniform(1.0, 3.0))
            await running.kill(victim)
            await asyncio.sleep(rng.uniform(3.0, 6.0))
            await running.start(victim)
        await asyncio.sleep(1.0)
        await at_rest(running, load, clients, 400)
        export_trace([running.journal(node) for node in range(nodes)], trace, run="tree")
    report, everywhere = judge(trace)
    return KillRun(report=report, load=load, everywhere=everywhere, killed=victims, trace=trace)
