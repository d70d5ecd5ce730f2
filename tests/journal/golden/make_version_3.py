"""Makes the golden journals of versions 3 to 5, with the package as of the commits that README.md names.

python make_version_3.py version_3.tar.xz     from the root of the checkout, which must be on PYTHONPATH too

It does not run with later versions, and need not: what it wrote is the point.
"""

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from random import Random

import msgspec
from tests.wire.helpers import Got, Sent

from antecede.core import Message
from antecede.core.process import Change
from antecede.journal import Journal, Retention, export_rows
from antecede.journal.batch import Batch, Run
from antecede.journal.joins import Join

#: Bytes of a payload. Those of 24 and more are referred to by kept records, from version 5 on.
SIZE = int(os.environ.get("PAYLOAD_BYTES", "20"))


async def append(journal: Journal, *messages: Message, **more: object) -> None:
    done = asyncio.get_running_loop().create_future()
    batch = Batch(first=journal.position + 1, deliveries=list(messages), **({"changes": [], "held_us": {}} | more))
    journal.append(batch, lambda error: done.set_exception(error) if error else done.set_result(None))
    await done
    journal.note_topics(batch.first, [f"app/{one.topic}" for one in messages])


async def live(path: Path, seed: int) -> None:
    """A life: batches of every kind, 300 deliveries; then a crash, or a stop."""
    journal = await Journal.open(path, cluster="golden", kept=(Sent, Got))
    rng = Random(seed)
    time_us = 1_000_000_000 * seed
    seqs = {(topic, source): 1000 * (seed - 1) for topic in ("p1", "p2") for source in (3, 4)}
    outside = 100 * (seed - 1)
    await journal.set_node(3, 77)
    await journal.set_settings({"protocol": "golden"})
    joined = journal.position
    await append(journal, time_us=time_us, changes=[Change(0, "subscribe", "p1"), Change(0, "subscribe", "p2")])
    await journal.note_join(Join("p1", joined, False, True, ((4, 1, 5),)))
    while journal.position < 300 * seed:
        time_us += 1000
        messages = []
        for _ in range(rng.choice((0, 1, 1, 2, 7, 40))):
            topic, source = rng.choice(sorted(seqs))
            seqs[topic, source] += 1
            across = (("p9", 1, 2), ("p8", 2, 3)) if rng.random() < 0.3 else ()
            messages.append(Message(topic, source, seqs[topic, source], ((5, 6),), rng.randbytes(SIZE), across, 9))
        changes = []
        if rng.random() < 0.1:
            outside += 1
            there = Message("p7", 3, outside, (), rng.randbytes(SIZE))
            changes.append(Change(len(messages) // 2, "publish", "p7", there))
        runs = [Run(0, 0, 1)] if messages and messages[0].source == 3 else []
        kept = [Got(one) for one in messages[:2]] + [Sent(change.message) for change in changes]
        held_us = {0: 55} if messages else {}
        await append(journal, *messages, time_us=time_us, changes=changes, runs=runs, kept=kept, held_us=held_us)
    await journal.set_cursor("reader", 250)
    if seed == 1:
        await journal.compact_kept(lambda records: records[:10])
        await journal.retain(Retention(age_us=0), needed_from=101)
        await journal.store_fetched([Message("p6", 8, seq, (), b"fetched") for seq in range(1, 9)])
        await journal.close()
        return
    await append(journal, time_us=time_us, changes=[Change(0, "unsubscribe", "p2")])
    os._exit(9)


async def contents(path: Path) -> object:
    """What the journal gives back, as JSON."""
    rows = [list(row) for row in export_rows([path])]
    journal = await Journal.open(path, cluster="golden", kept=(Sent, Got))
    found = {
        "identity": list(journal.identity),
        "settings": journal.settings,
        "removed": journal.removed,
        "position": journal.position,
        "deliveries": (await journal.read(journal.removed, limit=10_000)).items,
        "kept": await journal.kept(),
        "cursors": await journal.cursors(),
        "joins": [list(join) for join in await journal.joins()],
        "messages": await journal.messages("p1", 3, 1, 10_000),
        "fetched": await journal.messages("p6", 8, 1, 100),
        "rows": rows,
    }
    journal.abort()
    return found


def main(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        path = home / "journal.db"
        for seed in (1, 2):
            subprocess.run([sys.executable, __file__, "life", str(path), str(seed)], check=False, timeout=60)
        files = {
            one.name: one.read_bytes()
            for one in sorted(home.glob("journal.db*"))
            if one.suffix not in (".lock", ".db-shm")
        }
        files["contents.json"] = msgspec.json.encode(asyncio.run(contents(path)))
    with tarfile.open(archive, "w:xz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    print(json.dumps({name: len(data) for name, data in files.items()}))


if sys.argv[1] == "life":
    asyncio.run(live(Path(sys.argv[2]), int(sys.argv[3])))
else:
    main(Path(sys.argv[1]))
