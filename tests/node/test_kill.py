"""Nodes are killed with SIGKILL under load and started again: nothing acknowledged is lost, nothing comes twice."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.node.kill import KillRun, judge_trace, kill_run


def _check(run: KillRun) -> None:
    print(run)
    assert run.killed
    assert len(run.load.acknowledged) > len(set(run.killed))
    assert run.load.acknowledged <= run.everywhere, "acknowledged and lost"
    assert run.report.ok, str(run.report)


def _check_on_spark(run: KillRun) -> None:
    """The audit on Spark, of the exported journals, agrees in everything with the one in this process."""
    judged = judge_trace(run.trace)
    print(judged)
    assert judged.ok, str(judged)
    assert judged.to_dict() == run.report.to_dict()


def test_three_processes_two_kills(tmp_path: Path) -> None:
    _check(asyncio.run(kill_run(tmp_path, nodes=3, kills=2, pause_s=1.5)))


@pytest.mark.slow
def test_eight_processes_a_kill_a_second_for_a_minute(tmp_path: Path) -> None:
    run = asyncio.run(asyncio.wait_for(kill_run(tmp_path, nodes=8, kills=60, pause_s=1.0), 400))
    _check(run)
    _check_on_spark(run)


@pytest.mark.slow
def test_eight_processes_killed_in_a_storm(tmp_path: Path) -> None:
    """The same on links that lose, repeat and delay, and are cut in two for a while: between kills, and during them."""
    faults = [
        "heavy-tailed:mean=0.01,shape=1.5,t_pc=0,t_t=0",
        "loss:share=0.02",
        "duplication:share=0.02,spread=0.05",
        "partition:nodes=4,begin=20,end=26",
        "partition:nodes=2,begin=40,end=46",
    ]
    settings = {"fault_injection": faults, "fault_injection_from": time.time()}
    running = kill_run(tmp_path, nodes=8, kills=60, pause_s=1.0, seed=2, **settings)
    run = asyncio.run(asyncio.wait_for(running, 400))
    _check(run)
    _check_on_spark(run)
