"""Journals of versions 3, from before the log, 4 and 5: brought up with everything they hold, or left as they are."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antecede.core import Message
from antecede.core.errors import JournalError
from antecede.journal import Journal, JournalFile, export_rows
from antecede.journal.migration import VERSION
from antecede.journal.segments import segment_bases
from tests.wire.helpers import Got, Sent, message

from .test_golden import GOLDEN
from .test_journal import append


def unpack(into: Path, version: int = 3) -> tuple[Path, dict[str, Any]]:
    """The journal, killed in its second life, and what it should give back."""
    with tarfile.open(GOLDEN / f"version_{version}.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into / "journal.db", json.loads((into / "contents.json").read_bytes())


def as_json(value: object) -> Any:
    return json.loads(msgspec.json.encode(value))


async def compare(path: Path, contents: dict[str, Any]) -> None:
    """In the life after the one that wrote `contents`."""
    journal = await Journal.open(path, cluster="golden", kept=(Sent, Got), check="full")
    try:
        cluster, node, key, incarnation = contents["identity"]
        assert journal.identity == (cluster, node, key, incarnation)
        assert journal.settings == contents["settings"]
        assert (journal.removed, journal.position) == (contents["removed"], contents["position"])
        page = await journal.read(journal.removed, limit=10_000)
        assert as_json(page.items) == contents["deliveries"]
        assert as_json(await journal.kept()) == contents["kept"]
        assert await journal.cursors() == contents["cursors"]
        assert as_json(await journal.joins()) == contents["joins"]
        assert as_json(await journal.messages("p1", 3, 1, 10_000)) == contents["messages"]
        assert as_json(await journal.messages("p6", 8, 1, 100)) == contents["fetched"]
    finally:
        journal.abort()


def rows(path: Path) -> Any:
    return as_json([list(row) for row in export_rows([path])])


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_a_journal_of_an_earlier_version_is_brought_up(version: int, tmp_path: Path) -> None:
    """Version 2 differs in its number only: it knows no packed blocks."""
    path, contents = unpack(tmp_path, max(3, version))
    if version < 3:
        with sqlite3.connect(path) as connection:
            connection.execute(f"PRAGMA user_version={version}")
        connection.close()
    assert rows(path) == contents["rows"]  # as it is, by a reader from outside
    assert bool(segment_bases(path)) == (version >= 4)
    asyncio.run(compare(path, contents))
    after = rows(path)
    assert after[: len(contents["rows"])] == contents["rows"]
    assert len(after) == len(contents["rows"]) + 2  # the crash, and that it came back

    async def go_on() -> None:
        journal = await Journal.open(path, cluster="golden", kept=(Sent, Got))
        position = journal.position
        await append(journal, message(1), Message("p1", 0, 3, (), bytes(2000), (("p2", 1, 5),)), kept=[Got(message(1))])
        await journal.close()
        with JournalFile(path) as file:
            assert file.extent() == (contents["removed"], position + 2)

    asyncio.run(go_on())
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert "deliveries" not in tables


@pytest.mark.parametrize("after", [1, 20, 60])
def test_a_node_killed_while_it_writes_the_log_of_an_earlier_journal_begins_again(after: int, tmp_path: Path) -> None:
    path, contents = unpack(tmp_path)
    child = f"""
import asyncio, os
from pathlib import Path
from antecede.journal import Journal, segments
from tests.wire.helpers import Got, Sent
write, count = os.pwritev, 0
def dying(*what):
    global count
    count += 1
    if count > {after}:
        os.kill(os.getpid(), 9)
    return write(*what)
segments.os.pwritev = dying
asyncio.run(Journal.open(Path({str(path)!r}), cluster="golden", kept=(Sent, Got)))
"""
    done = subprocess.run([sys.executable, "-c", child], timeout=60, check=False, cwd=GOLDEN.parents[2])
    assert done.returncode == -signal.SIGKILL
    assert rows(path) == contents["rows"]
    assert segment_bases(path) == [0]
    asyncio.run(compare(path, contents))


def test_a_version_3_block_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    path, _ = unpack(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE deliveries SET block = x'00112233' WHERE first = (SELECT max(first) FROM deliveries)"
        )
    connection.close()
    for _ in range(2):
        with pytest.raises(JournalError, match=r"cannot be brought up from version 3 .its checksum is wrong"):
            asyncio.run(Journal.open(path, cluster="golden", kept=(Sent, Got)))
