"""Measures what a journal costs: processor time and bytes written for a message of 128 bytes, by messages a commit.

python bench/journal_store.py [--messages 20000] [--sync]

Three ways of storing the same batches. `journal`: the journal of this package, as a node that publishes and takes its
own messages uses it. `sqlite`: one row a batch in one table of SQLite, the least that SQLite can do. `append`: one
append a batch to a plain file. `--sync`: each commit reaches the disk itself; then few messages are enough.
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

from antecede.core import Message
from antecede.journal import Journal
from antecede.journal.batch import Batch, Run
from antecede.journal.blocks import KeptCodec, encode_changes, encode_deliveries, store_changes
from antecede.protocols.vcube_ps.records import Logged
from antecede.wire.envelope import seal

PER_COMMIT = (1, 16, 430)
NOW_US = 1_800_000_000_000_000


def batches(messages: int, per_commit: int) -> list[Batch]:
    """Publications of node 0 on one topic, as a client of it makes them."""
    rng = Random(1)
    made = []
    for begin in range(0, messages, per_commit):
        sent = [
            Message("p0", 0, seq + 1, (), seal("prices/a", rng.randbytes(128), time_us=NOW_US), (), seq + 1)
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


def parts(batch: Batch, codec: KeptCodec) -> bytes:
    return b"".join(
        [
            codec.encode(batch.kept),
            encode_changes(store_changes(batch)),
            encode_deliveries(batch.deliveries, batch.held_us),
        ]
    )


def with_sqlite(path: Path, made: list[Batch], sync: bool) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
    connection.execute("CREATE TABLE t (first INTEGER PRIMARY KEY, block BLOB)")
    codec = KeptCodec((Logged,))
    begin = time.process_time()
    for batch in made:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (?, ?)", (batch.first, parts(batch, codec)))
        connection.execute("COMMIT")
    connection.close()
    return time.process_time() - begin


def with_append(path: Path, made: list[Batch], sync: bool) -> float:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    codec = KeptCodec((Logged,))
    begin = time.process_time()
    for batch in made:
        os.write(file, parts(batch, codec))
        if sync:
            os.fdatasync(file)
    os.close(file)
    return time.process_time() - begin


WAYS: dict[str, Callable[[Path, list[Batch], bool], float]] = {
    "journal": lambda path, made, sync: asyncio.run(with_journal(path, made, sync)),
    "sqlite": with_sqlite,
    "append": with_append,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--dir", type=Path, help="a directory on the disk to be measured")
    asked = parser.parse_args()
    print("| store | a commit | µs a message | B written | B on disk |\n|---|---|---|---|---|")
    for name, store in WAYS.items():
        for per_commit in PER_COMMIT:
            messages = asked.messages if per_commit > 1 else asked.messages // 4
            made = batches(messages, per_commit)
            with tempfile.TemporaryDirectory(dir=asked.dir) as directory:
                os.sync()
                before = written()
                took = store(Path(directory) / "journal", made, asked.sync)
                for one in Path(directory).iterdir():  # what the system still holds in its memory
                    file = os.open(one, os.O_RDONLY)
                    os.fsync(file)
                    os.close(file)
                wrote = (written() - before) / messages
                size = sum(one.stat().st_size for one in Path(directory).iterdir()) / messages
            print(f"| {name} | {per_commit} | {took / messages * 1e6:.1f} | {wrote:,.0f} | {size:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
