"""Random logs of messages with dependencies, and what a network does to them."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

Id = tuple[str, int]

SCHEMA = pa.schema(
    [
        ("room", pa.string()),
        ("author", pa.string()),
        ("n", pa.int64()),
        ("after", pa.list_(pa.struct([("author", pa.string()), ("n", pa.int64())]))),
        ("text", pa.binary()),
        ("rating", pa.int32()),
    ]
)


class Said(NamedTuple):
    """A row as people write it."""

    author: str
    n: int
    after: tuple[Id, ...] = ()
    room: str = "r"

    @property
    def id(self) -> Id:
        return self.author, self.n

    def needs(self) -> tuple[Id, ...]:
        """All it names, its author's previous message included."""
        return (((self.author, self.n - 1),) if self.n > 1 else ()) + self.after


def conversation(rng: random.Random, authors: int, messages: int, deps: int = 2, room: str = "r") -> list[Said]:
    """People who each have read some of what was said, in an order that is causal."""
    said: list[Said] = []
    counts: dict[str, int] = {}
    for _ in range(messages):
        author = f"a{rng.randrange(authors)}"
        counts[author] = counts.get(author, 0) + 1
        read = [one.id for one in rng.sample(said[-20:], min(len(said[-20:]), rng.randint(0, deps)))]
        said.append(Said(author, counts[author], tuple(read), room))
    return said


def travelled(
    rng: random.Random, said: Sequence[Said], *, loss: float = 0.0, twice: float = 0.0, spread: float = 0.0
) -> list[Said]:
    """What arrives: some lost, some twice, each displaced by up to `spread` places."""
    arrivals: list[tuple[float, int, Said]] = []
    for at, one in enumerate(said):
        if rng.random() < loss:
            continue
        for _ in range(2 if rng.random() < twice else 1):
            arrivals.append((at + rng.uniform(0, spread), rng.randrange(1 << 30), one))
    return [one for _, _, one in sorted(arrivals)]


def table(rows: Sequence[Said]) -> pa.Table:
    return pa.table(
        {
            "room": [one.room for one in rows],
            "author": [one.author for one in rows],
            "n": [one.n for one in rows],
            "after": [[{"author": author, "n": n} for author, n in one.after] or None for one in rows],
            "text": [f"{one.author}.{one.n}".encode() for one in rows],
            "rating": [one.n % 5 if one.n % 3 else None for one in rows],
        },
        schema=SCHEMA,
    )


def large(rows: int, *, authors: int = 50, deps: int = 4) -> pa.Table:
    """A long conversation with numbers for names, in an order that is causal: `author`, `n`, `after`."""
    rng = np.random.default_rng(1)
    author = rng.integers(0, authors, rows)
    counts = np.bincount(author, minlength=authors)
    n = np.empty(rows, np.int64)
    n[np.argsort(author, kind="stable")] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    at = np.repeat(np.arange(rows), deps)
    named = at - rng.integers(1, 1000, len(at))
    there = named >= 0
    ends = np.cumsum(np.bincount(at[there], minlength=rows))
    entries = pa.StructArray.from_arrays([pa.array(author[named[there]]), pa.array(n[named[there]])], ["author", "n"])
    after = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), entries)
    return pa.table({"author": author, "n": n, "after": after})


def ids(rows: pa.Table) -> list[Id]:
    return list(zip(rows.column("author").to_pylist(), rows.column("n").to_pylist(), strict=True))
