"""A node killed at any instant loses nothing it had acknowledged, repeats no number, and starts again by itself."""

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from antecede.audit import audit
from antecede.journal import Journal, export_rows
from tests.wire.helpers import Keeper, Sent

ROOT = Path(__file__).parents[2]


def live_and_die(path: Path, rng: random.Random, *more: str) -> list[int]:
    """One life: killed after a random number of acknowledgements, wherever it is by then. What it had acknowledged."""
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.journal.crash_victim", str(path), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert victim.stdout is not None
    assert victim.stderr is not None
    said = [victim.stdout.readline() for _ in range(1 + rng.randrange(60))]
    assert said[0] == "up\n", victim.stderr.read()
    victim.send_signal(signal.SIGKILL)
    rest, _ = victim.communicate()
    words = "".join(said[1:]) + rest
    return [int(word) for word in words[: words.rfind("\n") + 1].split()]  # a number cut short was not read


async def read_all(path: Path) -> tuple[list[int], list[int]]:
    journal = await Journal.open(path, cluster="test", kept=Keeper.records)
    delivered, position = [], 0
    while position < journal.position:
        page = await journal.read(position)
        delivered += [item.message.seq for item in page.items]
        position = page.position
    kept = [record.message.seq for record in await journal.kept() if isinstance(record, Sent)]
    journal.abort()
    return delivered, kept


def lives(path: Path, count: int, *more: str) -> None:
    rng = random.Random(f"{path.name}/{count}")
    acknowledged = 0
    for _ in range(count):
        safe = live_and_die(path, rng, *more)
        if safe:
            assert safe[0] > acknowledged
            acknowledged = safe[-1]
        delivered, kept = asyncio.run(read_all(path))
        assert delivered == kept == list(range(1, len(delivered) + 1))
        assert len(delivered) >= acknowledged
    assert acknowledged > 0
    report = audit(export_rows([path]), broadcast_to=[3])
    assert report.ok, report
    assert report.messages == len(delivered)


def test_killed_again_and_again(tmp_path: Path) -> None:
    lives(tmp_path / "journal", 6)


def test_killed_while_every_commit_reaches_the_disk(tmp_path: Path) -> None:
    lives(tmp_path / "journal", 2, "sync")


@pytest.mark.slow
def test_killed_a_hundred_times(tmp_path: Path) -> None:
    lives(tmp_path / "journal", 100)


def test_a_life_is_told_from_the_next_in_the_trace(tmp_path: Path) -> None:
    live_and_die(tmp_path / "journal", random.Random(1))
    asyncio.run(read_all(tmp_path / "journal"))
    events = [row.event.name for row in export_rows([tmp_path / "journal"]) if row.source < 0]
    assert events == ["CRASH", "RECOVER"]


async def stop_twice(path: Path) -> None:
    for _ in range(2):
        journal = await Journal.open(path, cluster="test", kept=Keeper.records)
        await journal.set_node(3)
        await journal.close()


def test_a_clean_stop_is_no_crash_in_the_trace(tmp_path: Path) -> None:
    asyncio.run(stop_twice(tmp_path / "journal"))
    assert [row.event.name for row in export_rows([tmp_path / "journal"])] == ["STOP", "RECOVER", "STOP"]
