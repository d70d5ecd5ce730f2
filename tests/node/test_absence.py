"""A node is away under full load for longer than every window, and comes back: it gets all that was acknowledged."""

import asyncio
from pathlib import Path

import pytest

from tests.node.absence import AbsenceRun, DeadRun, Way, absence_run, dead_run


def _check(run: AbsenceRun) -> None:
    print(run)
    assert run.caught_up > run.missed // 2
    for node in run.delivered:
        assert not run.lost(node), f"{run.lost(node)} acknowledged messages are not in the journal of node {node}"
        assert not run.doubled(node)
        assert run.jumps(node) == []
    assert run.report.ok, str(run.report)


@pytest.mark.parametrize("way", [pytest.param("stop", marks=pytest.mark.slow), "kill"])
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


def _check_dead(run: DeadRun, missed: int) -> None:
    print(run)
    assert run.newcomer == (3, 1)
    assert run.lagging[0][2] >= missed - 300, "a member that is dead is shown"
    assert run.acknowledged == set(run.returned)
    assert len(run.returned) == len(set(run.returned))


def test_a_dead_member_is_shown_and_holds_up_no_join(tmp_path: Path) -> None:
    run = asyncio.run(dead_run(tmp_path, missed=3000, rate=4000, window=64, shorten_every=500))
    _check_dead(run, 3000)
    assert max(run.kept_bytes.values()) < 600_000, "what is kept does not grow with what a dead member lacks"


@pytest.mark.slow
def test_a_member_is_dead_for_300_000_messages(tmp_path: Path) -> None:
    run = asyncio.run(dead_run(tmp_path, missed=300_000, rate=20_000))
    _check_dead(run, 300_000)
    assert max(run.kept_bytes.values()) < 10_000_000
