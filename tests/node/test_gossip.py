"""`protocol = "gossip"`: the broker the simulator runs, between real nodes."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from antecede.audit import audit
from antecede.core import Message, UsageError
from antecede.journal import export_rows
from antecede.node.config import NodeConfig
from antecede.protocols.gossip import live
from antecede.protocols.gossip.packets import Rumour, Spread
from antecede.protocols.gossip.records import Began, Delivered, Published
from tests.client.running import awaited, take
from tests.node.absence import Way, absence_run
from tests.node.clusters import cluster, restart, until_all_have
from tests.node.kill import KillRun, kill_run

GOSSIP: dict[str, Any] = {"protocol": "gossip", "slots": 4, "gossip_round_s": 0.02}


@awaited
async def test_a_node_is_killed_and_comes_back_and_nobody_misses_anything(tmp_path: Path) -> None:
    async with cluster(4, tmp_path, **GOSSIP) as nodes:
        for number in range(10):
            for node in nodes:
                node.publish_payload(b"before %d" % number, 0)
        await until_all_have(nodes, 40)
        nodes[1].abort()
        others = [nodes[0], nodes[2], nodes[3]]
        for number in range(10):
            for node in others:
                node.publish_payload(b"meanwhile %d" % number, 0)
        await until_all_have(others, 70)
        again = await restart(nodes[1], tmp_path, nodes[0], **GOSSIP)
        try:
            again.publish_payload(b"back", 0)
            await until_all_have([*others, again], 71)
            rows = list(export_rows([tmp_path / f"n{number}" / "journal.db" for number in range(4)]))
        finally:
            await again.stop()
    report = audit(rows)
    assert report.ok, str(report)
    assert report.deliveries == 4 * 71
    assert next(rule for rule in report.rules if rule.name == "complete").checked


def _check(run: KillRun) -> None:
    print(run)
    assert run.killed
    assert len(run.load.acknowledged) > len(set(run.killed))
    assert run.load.acknowledged <= run.everywhere, "acknowledged and lost"
    assert run.report.ok, str(run.report)


def test_processes_are_killed_under_load_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    _check(asyncio.run(kill_run(tmp_path, nodes=3, kills=2, pause_s=1.5, protocol="gossip")))


@pytest.mark.slow
def test_six_processes_a_kill_a_second_on_links_that_lose(tmp_path: Path) -> None:
    faults = ["heavy-tailed:mean=0.01,shape=1.5,t_pc=0,t_t=0", "loss:share=0.05", "duplication:share=0.02,spread=0.05"]
    settings = {"protocol": "gossip", "fault_injection": faults, "fault_injection_from": time.time()}
    running = kill_run(tmp_path, nodes=6, kills=30, pause_s=1.0, **settings)
    _check(asyncio.run(asyncio.wait_for(running, 400)))


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_node_away_for_more_than_others_have_in_memory_gets_everything(tmp_path: Path, way: Way) -> None:
    """Windows of 64: a node has 256 messages in memory. The one that was away gets the others from journals."""
    run = asyncio.run(absence_run(tmp_path, way=way, missed=1500, rate=1000, window=64, protocol="gossip"))
    print(run)
    for node in run.delivered:
        assert not run.lost(node), f"{run.lost(node)} acknowledged messages are not in the journal of node {node}"
        assert run.jumps(node) == []
    assert run.report.ok, str(run.report)


@pytest.mark.slow
def test_processes_are_killed_under_bulk_load(tmp_path: Path) -> None:
    """Nodes miss more than the 16,384 messages that others have in memory, many times over."""
    running = kill_run(
        tmp_path, nodes=4, kills=11, pause_s=2.0, bulk=True, within_s=400, shorten_every=20_000, protocol="gossip"
    )
    _check(asyncio.run(asyncio.wait_for(running, 600)))


@awaited
async def test_clients_read_in_order_and_a_node_that_leaves_has_told_everything(tmp_path: Path) -> None:
    async with cluster(3, **GOSSIP) as nodes:
        async with (
            nodes[0].connect() as asker,
            nodes[1].connect() as answerer,
            nodes[2].connect() as reader,
            reader.subscribe("#") as feed,
            answerer.subscribe("q") as questions,
        ):
            for number in range(5):
                await asker.publish("q", b"%d" % number)
                (question,) = await take(questions, 1)
                await answerer.publish("a", question.payload)
            read = [(message.topic, message.payload) for message in await take(feed, 10)]
        for number in range(5):
            assert read.index(("q", b"%d" % number)) < read.index(("a", b"%d" % number))
        nodes[2].publish_payload(b"last words", 0)
        await nodes[2].leave()
        await until_all_have(nodes[:2], 11)


def test_settings_are_checked() -> None:
    with pytest.raises(UsageError, match="vcube, locamu, gossip, total"):
        NodeConfig(protocol="flood")
    with pytest.raises(UsageError, match="gossip_round_s"):
        NodeConfig(protocol="gossip", gossip_round_s=0)
    with pytest.raises(UsageError, match="fanout"):
        NodeConfig(protocol="gossip", fanout=0)


def test_a_shorter_account_restores_the_same_node() -> None:
    settings = NodeConfig(window=1, **GOSSIP).live_settings()
    records: list[object] = [Began("main", True)]
    for seq in range(1, 11):
        records.append(Published(Rumour(Message("main", 1, seq), 2 * seq)))
        records.append(Delivered(Rumour(Message("main", 0, seq, ((1, seq),)), 2 * seq + 1)))
    short = live.LiveGossip(1, settings).compact(records)
    assert len(short) < len(records) / 2
    whole, again = live.LiveGossip(1, settings), live.LiveGossip(1, settings)
    whole.restore(records)
    again.restore(short)
    assert again.delivered("main") == whole.delivered("main") == {0: 10, 1: 10}
    assert (again.time, again.clock.entries()) == (whole.time, whole.clock.entries())
    assert again.publish("main", b"").seq == 11  # type: ignore[union-attr]


def test_a_node_without_a_journal_tells_what_it_went_on_without() -> None:
    node = live.LiveGossip(0, NodeConfig(**GOSSIP).live_settings())
    node.restore([Began("main", True)])
    node.receive(1, Spread((Rumour(Message("main", 1, 2), 5),)))
    for _ in range(node.config.patience - 1):
        node.wake("round")
        assert not node.out.deliveries
    node.wake("round")
    assert [message.seq for message in node.out.deliveries] == [2]
    assert [(change.after, change.what) for change in node.out.changes] == [(0, "unsubscribe"), (0, "subscribe")]
    node.receive(2, Spread((Rumour(Message("main", 2, 1), 3),)))
    assert len(node.out.deliveries) == 1, "it comes too late"
    assert [change.what for change in node.out.changes[2:]] == ["unsubscribe", "subscribe"]
