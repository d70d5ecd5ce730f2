"""Measures what a journal costs: processor time and bytes written for a message, by messages a commit.

python bench/journal_store.py [--messages 20000] [--payload 128] [--only journal append] [--sync]
python bench/journal_store.py --protocols [--messages 4000]

Four ways of storing the same batches. `journal`: the journal of this package, as a node that publishes and takes its
own messages uses it. `sqlite`: one row a batch in one table of SQLite, the least that SQLite can do. `rocksdb`: one
batch a commit in RocksDB (rocksdict), one value each for deliveries, changes and kept records, without compression.
`append`: one append a batch to a plain file. `--sync`: each commit reaches the disk itself; then few messages are
enough.

`--protocols`: three nodes in processes of their own, by protocol. Bytes of all files in a node's journal for a message,
at the node that publishes and at one that only takes.
"""

import argparse
import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import antecede
from antecede.core import Message
from antecede.journal import Journal
from antecede.journal.batch import Batch, Run
from antecede.journal.blocks import KeptCodec, encode_changes, encode_deliveries, store_changes
from antecede.node.local_cluster import LocalCluster
from antecede.node.run import keep_freed_memory
from antecede.protocols.live_registry import LIVE
from antecede.protocols.vcube_ps.records import Logged
from antecede.wire.envelope import seal

PER_COMMIT = (1, 16, 430)
NOW_US = 1_800_000_000_000_000


def batches(messages: int, per_commit: int, size: int) -> list[Batch]:
    """Publications of node 0 on one topic, as a client of it makes them."""
    rng = Random(1)
    made = []
    for begin in range(0, messages, per_commit):
        sent = [
            Message("p0", 0, seq + 1, (), seal("prices/a", rng.randbytes(size), time_us=NOW_US), (), seq + 1)
            for seq in range(begin, min(begin + per_commit, messages))
        ]
        first = sent[0]
        bare = Message(first.topic, first.source, first.seq, first.deps, b"", (), first.clock)
        kept: list[object] = [Logged(bare, sent[-1].seq)]
        now_us = NOW_US + begin
        runs = [Run(0, 0, len(sent))]
        made.append(
            Batch(first=begin + 1, time_us=now_us, deliveries=sent, changes=[], held_us={}, kept=kept, runs=runs)
        )
    return made


def written() -> int:
    """Bytes that this process has caused to be written to the disk, so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("write_bytes")).split()[1])


async def with_journal(path: Path, made: list[Batch], sync: bool) -> float:
    journal = await Journal.open(path, cluster="bench", kept=(Logged,))
    begin = time.process_time()
    for batch in made:
        done = asyncio.get_running_loop().create_future()
        journal.append(
            batch, lambda error, done=done: done.set_exception(error) if error else done.set_result(None), sync=sync
        )
        await done
        journal.note_topics(batch.first, ["prices/a"] * len(batch.deliveries))
    await journal.close()
    return time.process_time() - begin


def parts(batch: Batch, codec: KeptCodec) -> list[bytes]:
    return [
        codec.encode(batch.kept),
        encode_changes(store_changes(batch)),
        encode_deliveries(batch.deliveries, batch.held_us),
    ]


def with_sqlite(path: Path, made: list[Batch], sync: bool) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
    connection.execute("CREATE TABLE t (first INTEGER PRIMARY KEY, block BLOB)")
    codec = KeptCodec((Logged,))
    begin = time.process_time()
    for batch in made:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (?, ?)", (batch.first, b"".join(parts(batch, codec))))
        connection.execute("COMMIT")
    connection.close()
    return time.process_time() - begin


def with_rocksdb(path: Path, made: list[Batch], sync: bool) -> float:
    from rocksdict import DBCompressionType, Options, Rdict, WriteBatch, WriteOptions  # noqa: PLC0415

    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.none())
    store = Rdict(str(path), options)
    how = WriteOptions()
    how.sync = sync
    codec = KeptCodec((Logged,))
    begin = time.process_time()
    for batch in made:
        rows = WriteBatch(raw_mode=True)
        for table, part in zip(b"kcd", parts(batch, codec), strict=True):
            rows.put(table.to_bytes(1, "big") + batch.first.to_bytes(8, "big"), part)
        store.write(rows, write_opt=how)
    store.close()
    return time.process_time() - begin


def with_append(path: Path, made: list[Batch], sync: bool) -> float:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    codec = KeptCodec((Logged,))
    begin = time.process_time()
    for batch in made:
        os.write(file, b"".join(parts(batch, codec)))
        if sync:
            os.fdatasync(file)
    os.close(file)
    return time.process_time() - begin


WAYS: dict[str, Callable[[Path, list[Batch], bool], float]] = {
    "journal": lambda path, made, sync: asyncio.run(with_journal(path, made, sync)),
    "sqlite": with_sqlite,
    "rocksdb": with_rocksdb,
    "append": with_append,
}


async def by_protocol(protocol: str, messages: int, together: int, base: Path) -> tuple[int, int]:
    """Bytes of the journals of a publisher's node and of another one, when both have stopped."""
    async with LocalCluster(base, nodes=3, protocol=protocol) as cluster:
        publisher, reader = [antecede.connect(cluster.url(node)) for node in (0, 2)]
        async with publisher as bus, reader as other, other.subscribe("prices/#", over_gaps=True) as feed:
            for begin in range(0, messages, together):
                count = min(together, messages - begin)
                await asyncio.gather(*[bus.publish("prices/a", os.urandom(128)) for _ in range(count)])
            async for message in feed:
                if message.id.seq == messages:
                    break
            await asyncio.sleep(2)  # what nodes tell each other about the last messages
    homes = [cluster.journal(node).parent for node in (0, 1)]
    first, second = [sum([one.stat().st_size for one in home.glob("journal.db*")]) for home in homes]
    return first, second


def protocols(messages: int, base: Path | None) -> None:
    print("| protocol | together | B at the publisher's node | B at another |\n|---|---|---|---|")
    for protocol in LIVE:
        for together in (1, 16, 400):
            count = messages if together > 1 else messages // 2
            with tempfile.TemporaryDirectory(dir=base) as directory:
                first, second = asyncio.run(by_protocol(protocol, count, together, Path(directory)))
            print(f"| {protocol} | {together} | {first / count:,.0f} | {second / count:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--payload", type=int, default=128, help="bytes of a message")
    parser.add_argument("--only", nargs="+", default=(), help="names of ways")
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--dir", type=Path, help="a directory on the disk to be measured")
    parser.add_argument("--protocols", action="store_true")
    asked = parser.parse_args()
    if asked.protocols:
        protocols(min(asked.messages, 4000), asked.dir)
        return
    print("| store | a commit | µs a message | B written | B on disk |\n|---|---|---|---|---|")
    keep_freed_memory()
    for name, store in WAYS.items():
        if asked.only and name not in asked.only:
            continue
        for per_commit in PER_COMMIT:
            messages = asked.messages if per_commit > 1 else asked.messages // 4
            made = batches(messages, per_commit, asked.payload)
            with tempfile.TemporaryDirectory(dir=asked.dir) as directory:
                os.sync()
                before = written()
                took = store(Path(directory) / "journal", made, asked.sync)
                files = [one for one in Path(directory).rglob("*") if one.is_file()]
                for one in files:  # what the system still holds in its memory
                    file = os.open(one, os.O_RDONLY)
                    os.fsync(file)
                    os.close(file)
                wrote = (written() - before) / messages
                size = sum(one.stat().st_size for one in files) / messages
            print(f"| {name} | {per_commit} | {took / messages * 1e6:.1f} | {wrote:,.0f} | {size:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
