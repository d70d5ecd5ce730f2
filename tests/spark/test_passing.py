"""Rows passed all at once, held to the gate row by row: the same order, the same rows that wait, the same state."""

import random
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Gate
from antecede.core.gate import Settled
from antecede.spark.causal import ids
from antecede.spark.causal.by_id import ById, advance_ids
from antecede.spark.causal.headers import Columns, Headers
from antecede.spark.causal.holes import WithHoles
from antecede.spark.causal.keyed import Ordering, Rule, advance
from antecede.spark.causal.passing import pass_rows
from antecede.spark.causal.steps import Late, Step
from tests.spark import histories
from tests.spark.logs import Said, conversation, table, travelled
from tests.spark.test_by_id import NAMING as BY_ID
from tests.spark.test_ids import Parts
from tests.spark.test_keyed_order import NAMING, cut


def mixed(rng: random.Random, rows: int) -> tuple[Columns, list[int]]:
    """Rows with any names and dependencies: copies, cycles, settled ones, some far ahead. And what is settled."""
    sources = rng.randint(1, 5)
    level = [rng.choice((0, 0, 3, 1 << 40)) for _ in range(sources)]
    most = rng.choice((2, rows // sources + 1))
    far = rng.choice((0, 0, 1 << 50))

    def name() -> tuple[int, int]:
        source = rng.randrange(sources)
        return source, max(1, level[source] + rng.randint(-1, most) + (far if rng.random() < 0.05 else 0))

    names = [name() for _ in range(rows)]
    needs = [[name() for _ in range(rng.choice((0, 0, 1, 3)))] for _ in range(rows)]
    flat = np.array([need for mine in needs for need in mine], np.int64).reshape(-1, 2)
    starts = np.cumsum([0, *map(len, needs)])
    source, number = np.array(names, np.int64).reshape(-1, 2).T
    return Columns([f"s{at}" for at in range(sources)], source, number, starts, flat[:, 0], flat[:, 1]), level


def columns_of(said: list[Said]) -> Columns:
    streams = sorted({name for one in said for name, _ in (one.id, *one.after)})
    code = {name: at for at, name in enumerate(streams)}
    flat = np.array([(code[name], n) for one in said for name, n in one.after], np.int64).reshape(-1, 2)
    source, number = np.array([(code[one.author], one.n) for one in said], np.int64).reshape(-1, 2).T
    return Columns(streams, source, number, np.cumsum([0, *(len(one.after) for one in said)]), flat[:, 0], flat[:, 1])


def queues(gate: Gate[int]) -> Any:
    """For each position that messages wait for, these messages in the order in which they will be freed."""
    waiting = gate._got._waiting
    return {(s, n): [item for (item, _), _ in items] for s, by in waiting.items() for n, items in by.items()}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32), st.booleans())
def test_rows_leave_in_the_order_of_the_gate_and_wait_as_they_wait_there(seed: int, likely: bool) -> None:
    rng = random.Random(seed)
    if likely:
        said = conversation(rng, rng.randint(1, 6), rng.randint(1, 200))
        columns = columns_of(travelled(rng, said, loss=rng.choice((0, 0.02)), twice=0.1, spread=rng.choice((0, 3, 80))))
        level = [0] * len(columns.streams)
    else:
        columns, level = mixed(rng, rng.randint(0, 60))
    settled = Settled(dict(zip(columns.streams, level, strict=True)), {}, {})
    headers = Headers(columns)
    plain: Gate[int] = Gate()
    plain.resume(settled)
    wanted: list[int] = []
    for row in range(len(columns.source)):
        plain.offer(row, (headers.name(row),), headers.of(row))
        wanted += plain.drain()
    passed = pass_rows(columns, np.array(level, np.int64))
    assert passed.out == wanted
    assert sorted(passed.waiting) == sorted(plain.holding())
    assert passed.duplicates == len(columns.source) - len(wanted) - plain.held
    resumed: Gate[int] = Gate()
    resumed.resume(plain.settled())
    for row in passed.waiting:
        resumed.offer(row, (headers.name(row),), headers.of(row))
    assert queues(resumed) == queues(plain)


def told(step: Step) -> Any:
    """All that a step gives. The order of sources in its state means nothing."""
    version, held, *rest = msgspec.msgpack.decode(step.state)
    rest = [sorted(map(repr, part)) for part in rest]
    return step.order.tolist(), step.words.tolist(), step.counts, step.wake_ms, version, held, rest


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(["wait", "tag", "drop"]))
def test_steps_are_the_same_row_by_row(seed: int, late: Late) -> None:
    rng = random.Random(seed)
    said = conversation(rng, rng.randint(1, 6), rng.randint(1, 120))
    arrived = travelled(rng, said, loss=rng.choice([0, 0.1]), twice=0.1, spread=rng.choice([3, 60]))
    patience = None if late == "wait" else 50
    rule = Rule(naming=NAMING, late=late, patience_ms=patience, held_max=10_000 if late == "wait" else 20)
    fast = slow = None
    now = 0
    for batch in [*cut(rng, arrived, 15), []]:
        rows = [table(batch)] if batch else []
        one = advance(rule, fast, rows, now)
        with patch.object(Ordering, "_take_all", Ordering._take_each):
            other = advance(rule, slow, rows, now)
        assert told(one) == told(other)
        fast, slow = one.state, other.state
        now += rng.randint(1, 60)


@pytest.mark.parametrize("kind", [ById, WithHoles])
@pytest.mark.parametrize("seed", range(30))
def test_steps_with_ids_are_the_same_row_by_row(seed: int, kind: type[ById]) -> None:
    rng = random.Random(seed)
    rows: list[Any]
    if kind is ById:
        rows = histories.history(rng, rng.randint(1, 80), circles=rng.choice((0, 1, 4)))
        rule = Rule(naming=BY_ID, late="tag", patience_ms=50, held_max=20)
    else:
        rows = [one for one in conversation(rng, 5, 120) if rng.random() < 0.5]
        rule = Rule(naming=NAMING, late="wait", patience_ms=None, held_max=1, holes=True)
    rng.shuffle(rows)
    make: Any = histories.table if kind is ById else table
    stores = Parts(), Parts()
    fast = slow = None
    for now, batch in enumerate([*cut(rng, rows, 25), []]):
        arrived = [make(batch)] if batch else []
        ids._cache.clear()
        one = advance_ids(rule, fast, stores[0], arrived, 20 * now, kind=kind)
        ids._cache.clear()
        with patch.object(ById, "_take_all", ById._take_each):
            other = advance_ids(rule, slow, stores[1], arrived, 20 * now, kind=kind)
        assert told(one)[:4] == told(other)[:4]
        assert stores[0] == stores[1]
        fast, slow = one.state, other.state
