"""Journals as a node writes them, with contents a test can foresee."""

import asyncio
from pathlib import Path

from antecede.core import Message
from antecede.journal import Journal, Retention
from antecede.journal.batch import Batch
from antecede.wire.envelope import seal

BEGIN_US = 1_763_200_000_000_000
#: Between two deliveries.
STEP_US = 1000
SOURCES = 4


def topic(position: int, topics: int = 5) -> str:
    return f"rooms/{position % topics}/chat"


def message(position: int, topics: int = 5) -> Message:
    """What is delivered at `position`: by turns of four sources, each following the one before."""
    source, seq = position % SOURCES, (position - 1) // SOURCES + 1
    before = position - 1
    deps = ((before % SOURCES, (before - 1) // SOURCES + 1),) if position % 2 and before else ()
    headers = {"kind": "seventh"} if position % 7 == 0 else None
    time_us = BEGIN_US + position * STEP_US
    payload = seal(topic(position, topics), f"body {position}".encode(), time_us=time_us, headers=headers)
    return Message("main", source, seq, deps, payload)


async def append(
    journal: Journal, messages: list[Message], time_us: int, held_us: dict[int, int] | None = None
) -> None:
    done = asyncio.get_running_loop().create_future()
    batch = Batch(first=journal.position + 1, time_us=time_us, deliveries=messages, changes=[], held_us=held_us or {})
    journal.append(batch, lambda error: done.set_exception(error) if error else done.set_result(None))
    await done


def write_journal(directory: Path, count: int, *, batch: int = 10, topics: int = 5, retain: int | None = None) -> None:
    """Deliveries 1 to `count`, or that many more, in batches of which the last of each was held for 5 µs.

    `retain`: bytes that retention leaves.
    """

    async def write() -> None:
        directory.mkdir(parents=True, exist_ok=True)
        journal = await Journal.open(directory / "journal.db", cluster="antecede")
        await journal.set_node(0)
        begin = journal.position
        for first in range(begin + 1, begin + count + 1, batch):
            last = min(begin + count, first + batch - 1)
            messages = [message(position, topics) for position in range(first, last + 1)]
            await append(journal, messages, BEGIN_US + last * STEP_US + 500, {len(messages) - 1: 5})
            journal.note_topics(first, [topic(position, topics) for position in range(first, last + 1)])
        if retain is not None:
            await journal.retain(Retention(bytes_max=retain))
        await journal.close()

    asyncio.run(write())
