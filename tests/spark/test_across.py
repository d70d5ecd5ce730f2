"""Rows of logs in causal order across them: the operator's step, without a session, against an obvious order."""

import random
from typing import Any

import pyarrow as pa
import pytest

from antecede.core import LimitError
from antecede.spark.causal.across import LogRule, advance_logs
from antecede.spark.causal.naming import Naming
from antecede.spark.causal.steps import WORDS

PAST = pa.list_(pa.struct([("log", pa.string()), ("offset", pa.int64())]))
KINDS = {"log": pa.string(), "offset": pa.int64(), "past": PAST, "writer": pa.int64(), "number": pa.int64()}
SCHEMA = pa.schema([*KINDS.items(), ("retry", pa.bool_()), ("tombstone", pa.bool_())])


def rule(**more: Any) -> LogRule:
    naming = Naming(key=(), source=("log",), seq="offset", deps="past", first=0)
    settled = {"late": "wait", "patience_ms": None, "held_max": 1000, **more}
    return LogRule(naming=naming, writer="writer", number="number", retry="retry", tombstone="tombstone", **settled)


def row(log: str, offset: int, past: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    named = [{"log": name, "offset": at} for name, at in (past or {}).items()]
    plain = {"writer": None, "number": None, "retry": False, "tombstone": False}
    return {"log": log, "offset": offset, "past": named, **plain, **more}


class Order:
    """Batches one after the other."""

    def __init__(self, **more: Any) -> None:
        self.rule = rule(**more)
        self.state: bytes | None = None
        self.step: Any = None

    def give(self, *rows: dict[str, Any], now_ms: int = 0) -> list[tuple[str, int, str]]:
        arrived = [pa.Table.from_pylist(list(rows), SCHEMA)] if rows else []
        self.step = advance_logs(self.rule, self.state, arrived, now_ms)
        self.state = self.step.state
        taken = self.step.pool.take(pa.array(self.step.order)).to_pylist() if len(self.step.order) else []
        words = [WORDS[word] for word in self.step.words]
        return [(one["log"], one["offset"], word) for one, word in zip(taken, words, strict=True)]


def test_an_answer_waits_for_its_question_over_batches() -> None:
    order = Order()
    assert order.give(row("b", 5, {"a": 2}, writer=1, number=1), row("b", 6)) == [("b", 6, "causal")]
    assert order.give(row("a", 1)) == [("a", 1, "causal")]
    assert order.give(row("a", 2)) == [("a", 2, "causal"), ("b", 5, "causal")]
    assert order.give() == []
    assert order.step.counts.held == 0


def test_copies_and_tombstones_are_left_out_and_numbers_are_kept() -> None:
    order = Order()
    assert order.give(
        row("a", 0, writer=7, number=1),
        row("a", 1, writer=7, number=3),
        row("a", 2, writer=7, number=1, retry=True),
    ) == [("a", 0, "causal")]
    assert order.give(row("a", 3, writer=7, number=2, tombstone=True)) == [("a", 1, "causal")]
    assert order.step.counts.duplicates == 1
    assert order.give(row("a", 4, writer=7, number=3, retry=True)) == []


def test_what_never_comes_is_given_up_after_a_while() -> None:
    order = Order(late="tag", patience_ms=100)
    assert order.give(row("b", 0, {"a": 9}, writer=1, number=1), now_ms=0) == []
    assert order.step.wake_ms == 100
    assert order.give(now_ms=99) == []
    assert order.give(now_ms=100) == [("b", 0, "incomplete")]
    assert order.give(row("a", 9), row("a", 10), now_ms=101) == [("a", 9, "late"), ("a", 10, "causal")]
    dropping = Order(late="drop", patience_ms=100)
    dropping.give(row("b", 0, {"a": 9}), now_ms=0)
    dropping.give(now_ms=100)
    assert dropping.give(row("a", 9), row("a", 10), now_ms=101) == [("a", 10, "causal")]


def test_too_many_that_wait() -> None:
    with pytest.raises(LimitError, match=r"waited for: \{'a': 9\}"):
        Order(held_max=1).give(row("b", 0, {"a": 9}), row("b", 1, {"a": 9}))


@pytest.mark.parametrize("seed", range(100))
def test_any_batches_of_random_logs_give_every_row_once_behind_its_past(seed: int) -> None:
    rng = random.Random(seed)
    front: dict[int, dict[str, int]] = {writer: {} for writer in range(3)}
    numbers: dict[tuple[int, str], int] = {}
    logs: dict[str, list[dict[str, Any]]] = {name: [] for name in "abc"}
    for _ in range(60):
        writer, name = rng.randrange(3), rng.choice("abc")
        read = rng.choice([one for one in logs.values() if one] or [[]])
        if read:
            seen = rng.choice(read)
            known = {entry["log"]: entry["offset"] for entry in seen["past"]} | {seen["log"]: seen["offset"]}
            for log, offset in known.items():
                front[writer][log] = max(offset, front[writer].get(log, -1))
        offset = logs[name][-1]["offset"] + rng.choice((1, 1, 3)) if logs[name] else rng.randrange(5)
        number = numbers[writer, name] = numbers.get((writer, name), 0) + 1
        logs[name].append(row(name, offset, dict(front[writer]), writer=writer, number=number))
        front[writer][name] = offset
    order, out = Order(), []
    left = {name: list(rows) for name, rows in logs.items()}
    while any(left.values()):
        batch = []
        for rows in left.values():
            batch += [rows.pop(0) for _ in range(min(len(rows), rng.randrange(9)))]
        rng.shuffle(batch)
        out += order.give(*batch)
    assert {word for *_, word in out} <= {"causal"}
    place = {(log, offset): at for at, (log, offset, _) in enumerate(out)}
    assert len(out) == len(place) == 60
    for one in (one for rows in logs.values() for one in rows):
        for entry in one["past"]:
            for other in logs[entry["log"]]:
                if other["offset"] <= entry["offset"]:
                    assert place[other["log"], other["offset"]] < place[one["log"], one["offset"]]
