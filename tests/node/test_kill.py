"""Nodes are killed with SIGKILL under load and started again: nothing acknowledged is lost, nothing comes twice."""

import asyncio
from pathlib import Path

import pytest

from tests.node.kill import kill_run


def _check(directory: Path, nodes: int, kills: int, pause_s: float) -> None:
    report, load, everywhere, killed = asyncio.run(kill_run(directory, nodes=nodes, kills=kills, pause_s=pause_s))
    assert killed
    assert len(load.acknowledged) > nodes
    assert load.acknowledged <= everywhere, "acknowledged and lost"
    assert report.ok, str(report)


def test_three_processes_two_kills(tmp_path: Path) -> None:
    _check(tmp_path, nodes=3, kills=2, pause_s=1.5)


@pytest.mark.slow
def test_eight_processes_a_kill_a_second_for_a_minute(tmp_path: Path) -> None:
    _check(tmp_path, nodes=8, kills=60, pause_s=1.0)
