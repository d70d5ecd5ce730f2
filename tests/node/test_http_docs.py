"""The examples of docs/http.md: each command gives what the page shows."""

import asyncio
import contextlib
import re
import shlex
import shutil
from pathlib import Path

import pytest

from antecede import Node
from tests.client.running import awaited
from tests.node.http_client import port_of

PAGE = Path(__file__).parents[2] / "docs" / "http.md"
TIME = re.compile(r'"time_us":\d+')


def examples() -> list[tuple[str, str]]:
    """Commands and what they print."""
    found = []
    for block in re.findall(r"```\n(\$ .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for part in block.split("$ ")[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@awaited
async def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("LEFT OUT: no curl here; to run the examples of docs/http.md too: install curl")
    assert len(examples()) == 6
    async with Node(port=0, http_port=0, directory=tmp_path / "n0") as node:
        for command, output in examples():
            there = command.replace("127.0.0.1:9400", f"127.0.0.1:{port_of(node)}")
            assert there != command
            process = await asyncio.create_subprocess_exec(*shlex.split(there), stdout=asyncio.subprocess.PIPE)
            assert process.stdout is not None
            wanted, printed = TIME.sub("", output), ""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(60):
                    while TIME.sub("", printed) != wanted and (more := await process.stdout.read(65536)):
                        printed += more.decode()
            assert TIME.sub("", printed) == wanted, command
            if "-sN" in command:  # a stream does not end by itself
                process.kill()
            await process.wait()
