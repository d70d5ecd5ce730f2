"""Rows with ids in causal order, one key, without Spark: held to `causal_sort`; cycles, giving up, forgetting."""

import random
from typing import Any

import pyarrow as pa
import pytest

from antecede.core import LimitError
from antecede.spark.causal import ids, sorting
from antecede.spark.causal.by_id import advance_ids
from antecede.spark.causal.ids import Horizon
from antecede.spark.causal.keyed import Rule
from antecede.spark.causal.naming import Naming
from antecede.spark.causal.steps import WORDS, Late, Step
from tests.spark.histories import Commit, Shown, check_against_sorted, history, table
from tests.spark.test_ids import Parts

NAMING = Naming(key=("repo",), source=("sha",), seq="", deps="parents", first=1, by_id=True)


class Fed:
    """A key fed batch by batch, each by another worker."""

    def __init__(
        self, late: Late = "wait", patience_ms: int | None = None, held_max: int = 10_000, **more: Any
    ) -> None:
        self.rule = Rule(naming=NAMING, late=late, patience_ms=patience_ms, held_max=held_max, **more)
        self.state: bytes | None = None
        self.store = Parts()
        self.shown: list[Shown] = []
        self.step: Step

    def feed(self, rows: list[Commit], now_ms: int = 0) -> list[str]:
        ids._cache.clear()
        self.step = advance_ids(self.rule, self.state, self.store, [table(rows)] if rows else [], now_ms)
        self.state = self.step.state
        assert self.step.first_position == len(self.shown) + 1
        names = self.step.pool.column("sha").take(pa.array(self.step.order)).to_pylist() if len(self.step.order) else []
        shown = [Shown(sha, WORDS[word]) for sha, word in zip(names, self.step.words.tolist(), strict=True)]
        self.shown += shown
        return [f"{one.sha} {one.word}" for one in shown]


def positioned(rows: list[Commit]) -> list[dict[str, Any]]:
    """What `causal_sort` says of these rows, without Spark."""
    by = table(rows).append_column("antecede_by", pa.nulls(len(rows), pa.int64()))
    found: list[dict[str, Any]] = sorting._positioned(by, NAMING, ["repo", "sha"], holes=False).to_pylist()
    return found


@pytest.mark.parametrize("seed", range(150))
def test_any_batches_show_what_a_sorted_table_shows(seed: int) -> None:
    rng = random.Random(seed)
    rows = history(rng, rng.randint(1, 80), circles=rng.choice((0, 0, 1, 4)))
    rows = [one for one in rows if rng.random() >= rng.choice((0, 0.05))]
    arrived = rows + rng.choices(rows, k=rng.randint(0, 9)) if rows else []
    rng.shuffle(arrived)
    fed = Fed()
    left = arrived
    while left:
        size = rng.randint(0, 25)
        fed.feed(left[:size])
        left = left[size:]
    if rows:
        check_against_sorted(rows, fed.shown, positioned(rows))
        assert fed.step.counts.held == len(rows) - len(fed.shown)
        assert fed.store.ids == len(fed.shown) == fed.step.counts.remembered


def test_a_cycle_is_shown_at_once_behind_what_it_depends_on() -> None:
    fed = Fed()
    assert fed.feed([Commit("b", ("c", "a")), Commit("c", ("b",)), Commit("d", ("c",)), Commit("e", ("e",))]) == [
        "e circle"
    ]
    assert fed.feed([Commit("a")]) == ["a causal", "b circle", "c circle", "d causal"]
    assert fed.step.counts.circles == 2
    assert fed.feed([Commit("b", ("c", "a"))]) == []
    assert fed.step.counts.duplicates == 1


def test_what_never_comes_is_given_up_and_may_come_late() -> None:
    for late, then in (("tag", ["a late"]), ("drop", [])):
        fed = Fed(late, patience_ms=100)  # type: ignore[arg-type]
        assert fed.feed([Commit("c", ("b",)), Commit("b", ("a", "z")), Commit("d", ("e",))], 0) == []
        assert fed.step.wake_ms == 100
        assert fed.feed([Commit("e", ("d",))], 50) == ["d circle", "e circle"]
        assert fed.feed([], 100) == ["b incomplete", "c causal"]
        assert fed.step.counts.given_up == 2
        assert fed.feed([Commit("a")], 200) == then
        word = "causal" if late == "tag" else "incomplete"
        assert fed.feed([Commit("f", ("a",))], 300) == [f"f {word}"]


def test_a_cycle_behind_what_never_comes() -> None:
    fed = Fed("tag", patience_ms=100)
    fed.feed([Commit("b", ("c", "a")), Commit("c", ("b",)), Commit("d", ("c",))], 0)
    assert fed.feed([], 100) == ["b circle", "c circle", "d causal"]


def test_rows_say_for_what_they_wait() -> None:
    fed = Fed(held_max=2)
    fed.feed([Commit("c", ("b", "x")), Commit("b", ("a",))], 7)
    assert fed.step.counts.awaited == 2  # a and x
    fed.feed([], 30)
    assert fed.step.counts.waited_ms_max == 23
    with pytest.raises(LimitError, match=r"rows of one key that wait is 3, the limit is 2.*waited for: 'x', 'a'"):
        fed.feed([Commit("d", ("y",))])


def test_behind_the_horizon_an_id_is_forgotten() -> None:
    fed = Fed(horizon=Horizon(rows=80))
    for begin in range(0, 1000, 20):
        chain = [Commit(f"{n}", (f"{n - 1}",) if n else ()) for n in range(begin, begin + 20)]
        assert len(fed.feed(chain[::-1])) == 20
    assert 80 <= fed.store.ids <= 110
    assert fed.feed([Commit("x", ("950",))]) == ["x causal"]
    assert fed.feed([Commit("y", ("5",))]) == []  # it was forgotten: the row waits
