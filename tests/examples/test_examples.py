"""Every example runs as a person would run it: embedded, and against a node."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from antecede import Node

#: Those that stand on another system are run in tests/gateway and tests/logs.
EXAMPLES = sorted(path for path in (Path(__file__).parents[2] / "examples").glob("*.py") if "_over_" not in path.stem)


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"chat", "questions", "shared_text", "sensors"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_by_itself(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_against_a_node(path: Path, tmp_path: Path) -> None:
    async def run() -> tuple[int | None, bytes]:
        async with asyncio.timeout(60), Node(port=0, directory=tmp_path) as node:
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(path), node.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            output, _ = await process.communicate()
            return process.returncode, output

    code, output = asyncio.run(run())
    assert code == 0, output.decode()


def test_everybody_reads_the_chat_in_an_order_that_makes_sense() -> None:
    path = next(path for path in EXAMPLES if path.stem == "chat")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=True)
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines.count("alice: has anybody watered the tomatoes?") == 3
    for start in [index for index, line in enumerate(lines) if line.startswith("what ")]:
        heard = lines[start + 1 : start + 5]
        assert heard == [
            "alice: has anybody watered the tomatoes?",
            "bob: not me",
            "carol: then I will",
            "carol: done",
        ]
