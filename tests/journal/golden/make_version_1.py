"""Makes the golden node directories of journal version 1, with the package as of commit e5826f5 (see README.md).

python make_version_1.py ARCHIVES     writes <protocol>.tar.xz for every protocol a node can run

It does not run with later versions, and need not: what it wrote is the point.
"""

import asyncio
import io
import json
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from antecede.live.batch import Batch
from antecede.live.bulk.caller import Caller
from antecede.live.bulk.records import Done, Release, Row, Stage, encode_rows
from antecede.live.journal import Journal
from antecede.live.journal.blocks import decode_deliveries
from antecede.live.node.local import LocalCluster
from antecede.live.node.protocol import OVERLAYS
from msgspec import inspect as mi

import antecede

SETTINGS: dict[str, Any] = {"round_s": 1.0, "timeout_s": 0.8, "slots": 4}
FILES = ("journal.db", "journal.db-wal", "roster.json", "staged.db", "staged.db-wal")


async def discuss(cluster: LocalCluster, rounds: int) -> None:
    """Each node asks; each answers the others' questions: causal links between all three."""

    async def one(node: int) -> None:
        async with antecede.connect(cluster.url(node), timeout_s=20) as bus, bus.subscribe("questions/#") as feed:
            for number in range(rounds):
                body = f"question {number} of {node}".encode()
                await bus.publish(f"questions/{node}", body, headers={"lang": "en"}, durability="disk")
                question = await anext(feed)
                await bus.publish("answers", b"re: " + question.payload, durability="disk")

    await asyncio.gather(*[one(node) for node in range(cluster.count)])


async def delivered(cluster: LocalCluster) -> dict[str, int]:
    """Wait until all nodes have delivered the same; how much of each source."""
    while True:
        found = []
        for node in range(cluster.count):
            async with antecede.connect(cluster.url(node), timeout_s=20) as bus:
                found.append((await bus.status())["delivered"])
        if all(one == found[0] for one in found):
            return found[0]
        await asyncio.sleep(0.2)


def load(url: str, awaited: tuple[int, int]) -> None:
    """A batch that is out; a batch that waits at its 21st row for a message not published yet; a part left behind."""
    with Caller(url) as caller:
        rows = [Row("loaded", f"batch 1 row {number}".encode()) for number in range(30)]
        caller.ask(Stage("part-1a", 0, encode_rows(rows[:15])), Done)
        caller.ask(Stage("part-1b", 0, encode_rows(rows[15:])), Done)
        caller.ask(Release("loader", 1, (("part-1a", 1), ("part-1b", 1))), Done)
        rows = [
            Row("loaded", f"batch 2 row {number}".encode(), {}, (awaited,) if number == 20 else ())
            for number in range(40)
        ]
        caller.ask(Stage("part-2", 0, encode_rows(rows)), Done)
        try:
            caller.ask(Release("loader", 2, (("part-2", 1),), 2000), Done)
        except antecede.StoppedError as error:
            print("   ", error)
        caller.ask(Stage("left-behind", 0, encode_rows(rows[:3])), Done)


async def run(protocol: str, directory: Path) -> tuple[int, int]:
    """Three nodes; one restarted and one killed on the way; at the end two stopped and one killed."""
    async with LocalCluster(directory, nodes=3, overlay=protocol, **SETTINGS) as cluster:
        await discuss(cluster, 12)
        await cluster.kill(2)
        async with antecede.connect(cluster.url(0), timeout_s=20) as bus:
            for number in range(5):
                await bus.publish("meanwhile", b"%d" % number, durability="disk")
        await cluster.start(2)
        await discuss(cluster, 12)
        counts = await delivered(cluster)
        awaited = (1, counts["1"] + 1)
        await asyncio.to_thread(load, cluster.url(0), awaited)
        await delivered(cluster)
        await asyncio.sleep(1)
        await cluster.kill(2)
    return awaited


def describe(journal: Path) -> dict[str, Any]:
    """What the tables say, by this version's own decoders."""
    connection = sqlite3.connect(journal)
    items = []
    for first, time_us, block in connection.execute("SELECT first, time_us, block FROM deliveries ORDER BY first"):
        for item in decode_deliveries(block).read(first, time_us):
            items.append(
                [
                    item.position,
                    item.time_us,
                    item.held_us,
                    item.out_of_order,
                    json.loads(msgspec.json.encode(item.message)),
                ]
            )
    names: dict[str, int] = {}
    raw = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])
    for (block,) in connection.execute("SELECT block FROM kept ORDER BY number"):
        for name, _ in raw.decode(block[:-4]):
            names[name] = names.get(name, 0) + 1
    found = {
        "facts": dict(connection.execute("SELECT name, value FROM facts")),
        "cursors": dict(connection.execute("SELECT name, position FROM cursors")),
        "deliveries": items,
        "kept": names,
    }
    connection.close()
    return found


def example(info: mi.Type) -> Any:  # noqa: PLR0911 - a table of types
    """A small value of a type."""
    match info:
        case mi.StructType() | mi.NamedTupleType():
            return info.cls(**{field.name: example(field.type) for field in info.fields})
        case mi.IntType():
            return max(info.ge or 0, 3)
        case mi.StrType():
            return "main"
        case mi.BytesType():
            return b"bytes"
        case mi.BoolType():
            return True
        case mi.NoneType():
            return None
        case mi.LiteralType():
            return info.values[0]
        case mi.TupleType():
            return tuple(example(item) for item in info.item_types)
        case mi.VarTupleType():
            return (example(info.item_type),)
        case mi.ListType():
            return [example(info.item_type)]
        case mi.DictType():
            return {example(info.key_type): example(info.value_type)}
        case mi.UnionType():
            return example(info.types[0])
    raise NotImplementedError(info)


async def every_record(protocol: str, path: Path) -> list[Any]:
    """A journal that holds one record of each type the protocol may keep; what they are, as JSON."""
    types = OVERLAYS[protocol].kept
    records = [example(mi.type_info(kind)) for kind in types]
    journal = await Journal.open(path, cluster="antecede", kept=types)
    await journal.set_node(1)
    done = asyncio.get_running_loop().create_future()
    batch = Batch(first=1, time_us=1_000_000, deliveries=[], changes=[], held_us={}, kept=records)
    journal.append(batch, done.set_result)
    assert await done is None
    assert await journal.kept() == records
    await journal.close()
    return [[type(one).__name__, json.loads(msgspec.json.encode(one))] for one in records]


def pack(directory: Path, contents: dict[str, Any], archive: Path) -> None:
    with tarfile.open(archive, "w:xz", preset=9) as tar:

        def add(name: str, data: bytes) -> None:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))

        for node in range(3):
            for name in FILES:
                if (directory / f"n{node}" / name).exists():
                    add(f"n{node}/{name}", (directory / f"n{node}" / name).read_bytes())
        add("every_record.db", (directory / "every_record.db").read_bytes())
        add("contents.json", json.dumps(contents, separators=(",", ":")).encode())


async def main(archives: Path) -> None:
    for protocol in OVERLAYS:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            awaited = await run(protocol, directory)
            records = await every_record(protocol, directory / "every_record.db")
            nodes = []
            for node in range(3):
                copy = directory / f"copy{node}"  # SQLite changes a file with a log by reading it
                shutil.copytree(directory / f"n{node}", copy)
                nodes.append(describe(copy / "journal.db"))
            contents = {
                "protocol": protocol,
                "settings": SETTINGS,
                "awaited": awaited,
                "nodes": nodes,
                "every_record": records,
            }
            pack(directory, contents, archives / f"{protocol}.tar.xz")
            for node, found in enumerate(nodes):
                files = sorted(one.name for one in (directory / f"n{node}").iterdir())
                print(protocol, node, found["facts"], found["cursors"], len(found["deliveries"]), found["kept"], files)


asyncio.run(main(Path(sys.argv[1])))
