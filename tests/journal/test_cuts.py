"""Positions and frontiers: what the index finds is what a look at every message finds."""

import asyncio
import random
from pathlib import Path

import pytest

from antecede.core import Message
from antecede.journal import Journal, JournalFile
from antecede.journal.batch import Batch
from antecede.journal.lookup import StreamName


def write(path: Path, messages: list[Message], rng: random.Random) -> None:
    """Deliveries in batches of random sizes."""

    async def run() -> None:
        journal = await Journal.open(path, cluster="c")
        at = 0
        while at < len(messages):
            some = messages[at : at + rng.randint(1, 9)]
            done = asyncio.get_running_loop().create_future()
            batch = Batch(first=at + 1, time_us=1, deliveries=some, changes=[], held_us={})
            journal.append(batch, lambda error, done=done: done.set_result(error))  # type: ignore[misc]
            assert await done is None
            at += len(some)
        await journal.close()

    asyncio.run(run())


def draw(rng: random.Random, count: int) -> list[Message]:
    """Messages of some streams, mixed. One stream misses some numbers in the middle."""
    names = [(f"p{rng.randrange(3)}", rng.randrange(3)) for _ in range(5)]
    last = dict.fromkeys(names, 0)
    found = []
    for number in range(count):
        name = rng.choice(names)
        last[name] += 4 if name == names[0] and number == count // 2 else 1
        found.append(Message(*name, last[name], (), b"x"))
    return found


def frontier(messages: list[Message]) -> dict[StreamName, int]:
    """By stream, the last message."""
    return {(one.topic, one.source): one.seq for one in messages}


@pytest.mark.parametrize("seed", range(6))
def test_what_the_index_finds_is_there(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    messages = draw(rng, 120)
    write(tmp_path / "journal.db", messages, rng)
    present = frontier(messages)
    with JournalFile(tmp_path / "journal.db") as file:
        for position in range(len(messages) + 1):
            found = frontier(messages[:position])
            assert {name: seq for name, seq in file.frontier_at(position, present).items() if seq} == found
            behind = {name: found.get(name, 0) + 1 for name, seq in present.items() if seq > found.get(name, 0)}
            assert file.first_of(behind, len(messages)) == position
            (chunks, reached) = file.sealed(position, len(messages), partitions=["p1"])
            assert reached == len(messages)
            wanted = [at for at, one in enumerate(messages, 1) if at > position and one.topic == "p1"]
            assert [at for at in wanted if not any(one.first <= at <= one.last for one in chunks)] == []
            end = file.end_of(found)
            assert position <= end <= position + 8 if position else end == 0
        for name, seq in present.items():
            numbers = {one.seq for one in messages if (one.topic, one.source) == name}
            after = rng.randint(0, seq - 1)
            missing = {number for low, high in file.holes(name, after, seq + 2) for number in range(low, high + 1)}
            assert missing == set(range(after + 1, seq + 3)) - numbers
