"""Node directories of earlier versions open, are brought up, give back what they hold, and their nodes run on."""

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

from antecede import Node
from antecede.core import Message
from antecede.core.errors import JournalError
from antecede.journal import Journal, JournalFile, export_rows
from antecede.node.protocol import node_records
from antecede.protocols.live_registry import LIVE
from antecede.wire.envelope import unseal

from ..node.clusters import QUICK, until_all_have

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = sorted(one.name for one in GOLDEN.iterdir() if one.is_dir())
PROTOCOLS = sorted(LIVE)

#: Records that had no tag in version 1, by their classes' names of that time.
UNTAGGED = {"Life": "diagnosis.life"}


def unpack(version: str, protocol: str, into: Path) -> dict[str, Any]:
    """Copy the directories out of their archive; what they should contain."""
    with tarfile.open(GOLDEN / version / f"{protocol}.tar.xz") as archive:
        archive.extractall(into, filter="data")
    contents: dict[str, Any] = json.loads((into / "contents.json").read_bytes())
    return contents


#: How many fields a message has now. It had six.
LATER = len(Message.__struct_fields__)


def as_version_1(value: Any) -> Any:
    """Without the fields that messages have had since, which must have their defaults."""
    if not isinstance(value, list):
        return value
    if (
        len(value) == LATER
        and isinstance(value[0], str)
        and all(isinstance(part, list) for part in (value[3], value[5]))
    ):
        assert value[6:] == [0, ""]
        value = value[:6]
    return [as_version_1(part) for part in value]


async def replayed(journal: Journal, position: int) -> list[Any]:
    """Deliveries up to `position`, as `contents.json` writes them."""
    found, after = [], 0
    while after < position:
        page = await journal.read(after)
        found += page.items
        after = page.position
    return [
        [
            one.position,
            one.time_us,
            one.held_us,
            one.out_of_order,
            as_version_1(json.loads(msgspec.json.encode(one.message))),
        ]
        for one in found
        if one.position <= position
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("version", VERSIONS)
def test_golden_nodes_run_on(version: str, protocol: str, tmp_path: Path) -> None:
    contents = unpack(version, protocol, tmp_path)
    source, seq = contents["awaited"]

    async def test() -> None:
        nodes: list[Node] = []
        try:
            for number in range(3):
                seeds = (nodes[0].address,) if nodes else ()
                settings = contents["settings"] | QUICK | {"protocol": protocol, "directory": tmp_path / f"n{number}"}
                nodes.append(Node(port=0, name=f"n{number}", seeds=seeds, **settings))
                await nodes[-1].start()
            for node, wanted in zip(nodes, contents["nodes"], strict=True):
                assert node.journal is not None
                assert node.journal.identity.node == wanted["facts"]["node"] == node.slot
                assert node.journal.identity.incarnation == wanted["facts"]["incarnation"] + 1
                cursors = await node.journal.cursors()
                assert cursors.keys() == wanted["cursors"].keys()
                assert all(cursors[name] >= position for name, position in wanted["cursors"].items())  # it went on
                assert await replayed(node.journal, len(wanted["deliveries"])) == wanted["deliveries"]
            async with nodes[source].connect() as bus:
                awaited = await bus.publish("news", b"what the batch waits for", durability="disk")
            assert (awaited.source, awaited.seq) == (source, seq)  # numbers count on
            await until_all_have(nodes, len(contents["nodes"][0]["deliveries"]) + 1 + 20)
            for node in nodes:
                assert node.journal is not None
                page = await node.journal.read(0)
                envelopes = [unseal(item.message.payload) for item in page.items]
                bodies = [one.body.decode() for one in envelopes if one.topic == "loaded"]
                assert bodies == [f"batch {b} row {n}" for b, rows in ((1, 30), (2, 40)) for n in range(rows)]
        finally:
            for node in reversed(nodes):
                await node.stop()

    async def timed() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(timed())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("version", VERSIONS)
def test_golden_records_of_every_type(version: str, protocol: str, tmp_path: Path) -> None:
    contents = unpack(version, protocol, tmp_path)

    async def read() -> list[object]:
        kept = node_records(LIVE[protocol])
        journal = await Journal.open(tmp_path / "every_record.db", cluster="antecede", kept=kept)
        try:
            return await journal.kept()
        finally:
            await journal.close()

    records = asyncio.run(read())
    written = [[UNTAGGED[name], *fields] if name in UNTAGGED else fields for name, fields in contents["every_record"]]
    assert as_version_1(json.loads(msgspec.json.encode(records))) == written


@pytest.mark.parametrize("number", [0, 2])
def test_a_node_killed_while_it_brings_its_journal_up_begins_again(number: int, tmp_path: Path) -> None:
    contents = unpack("version_1", "vcube", tmp_path)
    path = tmp_path / f"n{number}" / "journal.db"
    child = f"""
import asyncio, os, sys
from pathlib import Path
from antecede.journal import Journal, migration
from antecede.node.protocol import node_records
from antecede.protocols.live_registry import LIVE
tagged, count = migration._tagged, 0
def dying(name, record):
    global count
    count += 1
    if count == 60:
        os.kill(os.getpid(), 9)
    return tagged(name, record)
migration._tagged = dying
asyncio.run(Journal.open(Path({str(path)!r}), cluster="antecede", kept=node_records(LIVE["vcube"])))
"""
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", child], timeout=60, check=False).returncode == -signal.SIGKILL
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        connection.close()

    async def test() -> None:
        journal = await Journal.open(path, cluster="antecede", kept=node_records(LIVE["vcube"]), check="full")
        wanted = contents["nodes"][number]
        assert len(await journal.kept()) == sum(wanted["kept"].values())
        assert await replayed(journal, len(wanted["deliveries"])) == wanted["deliveries"]
        await journal.close()

    asyncio.run(test())


def test_a_journal_that_cannot_be_brought_up_is_refused_and_left_alone(tmp_path: Path) -> None:
    unpack("version_1", "vcube", tmp_path)
    path = tmp_path / "n1" / "journal.db"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE kept SET block = x'00112233' WHERE number = 20")
    connection.close()
    for _ in range(2):
        with pytest.raises(JournalError, match=r"cannot be brought up from version 1 .its checksum is wrong"):
            asyncio.run(Journal.open(path, cluster="antecede", kept=node_records(LIVE["vcube"])))


def test_readers_from_outside_take_earlier_versions_as_they_are(tmp_path: Path) -> None:
    contents = unpack("version_1", "gossip", tmp_path)
    with JournalFile(tmp_path / "n0") as file:
        stored = [one for chunk in file.blocks(0, file.extent().position) for one in chunk]
    assert sum(len(one.block.messages) for one in stored) == len(contents["nodes"][0]["deliveries"])
    assert list(export_rows([tmp_path / "n0" / "journal.db"]))
