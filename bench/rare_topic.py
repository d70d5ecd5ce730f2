"""What a rare topic costs a bulk reader of a journal, with and without the topic index, and what the index costs.

    python bench/rare_topic.py [--messages 400000] [--batch 100] [--topics 64]

One message in 50,000 is on the rare topic. Times are processor time; payloads have 128 bytes.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from antecede.core import Message
from antecede.journal import Journal, JournalFile
from antecede.journal.batch import Batch
from antecede.wire.envelope import seal

RARE = "rare/one"


async def write(path: Path, count: int, size: int, topics: int, *, index: bool) -> float:
    """Write the journal; the processor time."""
    journal = await Journal.open(path, cluster="bench")
    began = time.process_time()
    for at in range(0, count, size):
        names = [RARE if number % 50_000 == 0 else f"often/{number % topics}/x" for number in range(at, at + size)]
        messages = [Message("p0", 1, at + i + 1, (), seal(n, bytes(128), time_us=1)) for i, n in enumerate(names)]
        done = asyncio.get_running_loop().create_future()
        batch = Batch(first=at + 1, time_us=at, deliveries=messages, changes=[], held_us={})
        journal.append(batch, done.set_result)
        await done
        if index:
            journal.note_topics(at + 1, names)
    await journal.close()
    return time.process_time() - began


def read(path: Path, count: int) -> tuple[int, float]:
    """Read the rare topic in bulk; the bytes of the blocks that were read, and the processor time."""
    began, size, after = time.process_time(), 0, 0
    with JournalFile(path) as file:
        while after < count:
            blocks, after = file.sealed(after, count, filters=(RARE,))
            size += sum([len(one.block) for one in blocks])
    return size, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--topics", type=int, default=64)
    asked = parser.parse_args()
    for index in (False, True):
        with tempfile.TemporaryDirectory() as base:
            path = Path(base) / "journal.db"
            spent = asyncio.run(write(path, asked.messages, asked.batch, asked.topics, index=index))
            stored = path.stat().st_size
            size, reading = read(path, asked.messages)
        print(
            f"{'with' if index else 'without'} index: writing {spent / asked.messages * 1e6:.2f} µs and "
            f"{stored / asked.messages:.1f} bytes a message; the rare topic: {size / 1e6:.1f} MB read in "
            f"{reading * 1000:.0f} ms"
        )


if __name__ == "__main__":
    main()
