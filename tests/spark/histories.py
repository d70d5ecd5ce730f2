"""Random histories: rows with ids and parents, some of them in cycles, and what a table of them must come to."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

SCHEMA = pa.schema(
    [("repo", pa.string()), ("sha", pa.string()), ("parents", pa.list_(pa.string())), ("text", pa.binary())]
)


class Commit(NamedTuple):
    sha: str
    parents: tuple[str, ...] = ()
    repo: str = "r"


def history(rng: random.Random, commits: int, *, circles: int = 0, repo: str = "r") -> list[Commit]:
    """A history with merges. `circles`: so many commits also name a later one, or themselves."""
    shas = [f"{rng.getrandbits(64):016x}" for _ in range(commits)]
    made = []
    for at, sha in enumerate(shas):
        recent = shas[max(0, at - 12) : at]
        made.append(Commit(sha, tuple(rng.sample(recent, min(len(recent), rng.choice((0, 1, 1, 1, 2, 3))))), repo))
    for _ in range(circles):
        at = rng.randrange(commits)
        later = rng.randrange(at, min(commits, at + 6))
        made[at] = made[at]._replace(parents=(*made[at].parents, shas[later]))
    return made


def table(rows: Sequence[Commit]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "repo": [one.repo for one in rows],
        "sha": [one.sha for one in rows],
        "parents": [list(one.parents) or None for one in rows],
        "text": [str(one.sha).encode() for one in rows],
    }
    return pa.table(columns, schema=SCHEMA)


class Shown(NamedTuple):
    sha: str
    word: str


def check_against_sorted(rows: Sequence[Commit], shown: Sequence[Shown], positioned: Sequence[dict[str, Any]]) -> None:
    """Hold what a stream showed of one key to what `causal_sort` says of the same rows.

    Shown are the rows that lack no ancestor, each once, behind its parents; and the same cycles, side by side.
    """
    parents = {one.sha: set(one.parents) for one in rows}
    missing = {one["sha"] for one in positioned if one["missing"] is not None}
    circle = {one["sha"]: one["circle"] for one in positioned}
    position = {one["sha"]: one["position"] for one in positioned}
    lacking = set(missing)
    for sha in sorted(parents, key=position.__getitem__):
        if lacking & parents[sha]:
            lacking.add(sha)
    around = {number: {sha for sha in circle if circle[sha] == number} for number in circle.values() if number}
    lacking |= {sha for members in around.values() if members & lacking for sha in members}
    for sha in sorted(parents, key=position.__getitem__):  # behind such a cycle
        if lacking & parents[sha]:
            lacking.add(sha)
    assert sorted(one.sha for one in shown) == sorted(parents.keys() - lacking)
    at = {one.sha: index for index, one in enumerate(shown)}
    for one in shown:
        assert one.word == ("circle" if circle[one.sha] else "causal"), one
        for parent in parents[one.sha]:
            assert at[parent] < at[one.sha] or (circle[parent] and circle[parent] == circle[one.sha])
    for members in around.values():
        if not members & lacking:
            assert max(at[sha] for sha in members) - min(at[sha] for sha in members) == len(members) - 1
