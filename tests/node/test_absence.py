"""A node is away under full load for longer than every window, and comes back: it gets all that was acknowledged."""

import asyncio
from pathlib import Path

import pytest

from tests.node.absence import AbsenceRun, Way, absence_run


def _check(run: AbsenceRun) -> None:
    print(run)
    assert run.caught_up > 0
    for node in run.delivered:
        assert not run.lost(node), f"{run.lost(node)} acknowledged messages are not in the journal of node {node}"
        assert not run.doubled(node)
        assert run.jumps(node) == []


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_away_for_many_small_windows(tmp_path: Path, way: Way) -> None:
    """Windows of 64: memory holds 256 messages of a source, and the node misses twelve times as many."""
    run = asyncio.run(absence_run(tmp_path, way=way, missed=3000, publishers=2, rate=4000, window=64))
    _check(run)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stop", "kill"])
@pytest.mark.parametrize("publishers", [1, 2])
def test_away_for_150_000_messages(tmp_path: Path, way: Way, publishers: int) -> None:
    run = asyncio.run(absence_run(tmp_path, way=way, missed=150_000, publishers=publishers, rate=20_000, within_s=240))
    _check(run)


@pytest.mark.slow
def test_nobody_publishes_when_it_comes_back(tmp_path: Path) -> None:
    _check(asyncio.run(absence_run(tmp_path, way="kill", missed=50_000, rate=20_000, quiet=True, within_s=240)))
