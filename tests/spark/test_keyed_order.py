"""The re-order operator on one key, without Spark: held to the pure gate, and to its own promises."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Gate, LimitError, UsageError
from antecede.spark.causal.keyed import Rule, advance
from antecede.spark.causal.naming import Naming
from antecede.spark.causal.steps import INCOMPLETE, LATE, WORDS, Late, Step
from tests.spark.logs import Id, Said, conversation, ids, table, travelled

NAMING = Naming(key=("room",), source=("author",), seq="n", deps="after", first=1)


def rule(late: Late = "wait", patience_ms: int | None = None, held_max: int = 10_000) -> Rule:
    return Rule(naming=NAMING, late=late, patience_ms=patience_ms, held_max=held_max)


class Fed:
    """A key fed batch by batch, with what came of it."""

    def __init__(self, asked: Rule) -> None:
        self.rule = asked
        self.state: bytes | None = None
        self.shown: list[tuple[Id, int]] = []
        self.steps: list[Step] = []

    def feed(self, rows: list[Said], now_ms: int = 0) -> list[str]:
        step = advance(self.rule, self.state, [table(rows)] if rows else [], now_ms)
        self.state = step.state
        self.steps.append(step)
        names = ids(step.pool.take(pa.array(step.order))) if len(step.order) else []
        shown = list(zip(names, step.words.tolist(), strict=True))
        self.shown += shown
        return [f"{author}.{n} {WORDS[word]}" for (author, n), word in shown]

    def total(self, count: str) -> int:
        return sum(getattr(step.counts, count) for step in self.steps)


def by_the_gate(arrived: list[Said]) -> list[Id]:
    """The same rows through the pure gate, one by one."""
    gate: Gate[Id] = Gate()
    out: list[Id] = []
    for one in arrived:
        gate.offer(one.id, (one.id,), one.after)
        out += gate.drain()
    return out


def cut(rng: random.Random, rows: list[Said], most: int) -> list[list[Said]]:
    batches = []
    while rows:
        size = rng.randint(0, most)
        batches.append(rows[:size])
        rows = rows[size:]
    return batches


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([0.0, 0.02, 0.2]), st.sampled_from([0.0, 0.3]))
def test_waiting_gives_what_the_pure_gate_gives(seed: int, loss: float, twice: float) -> None:
    rng = random.Random(seed)
    said = conversation(rng, rng.randint(1, 6), rng.randint(1, 120))
    arrived = travelled(rng, said, loss=loss, twice=twice, spread=rng.choice([0, 3, 200]))
    fed = Fed(rule())
    for batch in cut(rng, arrived, 40):
        fed.feed(batch)
    wanted = by_the_gate(arrived)
    got = [name for name, _ in fed.shown]
    assert sorted(got) == sorted(wanted)  # the same rows, each once
    needs = {one.id: one.needs() for one in said}
    seen: set[Id] = set()
    for name in got:  # each behind all it names
        assert seen.issuperset(needs[name])
        seen.add(name)
    assert all(word == 0 for _, word in fed.shown)
    assert len({one.id for one in arrived}) == len(got) + fed.steps[-1].counts.held if fed.steps else not arrived
    assert fed.total("duplicates") == len(arrived) - len({one.id for one in arrived})


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(["tag", "drop"]))
def test_giving_up_says_of_every_row_what_is_true(seed: int, late: Late) -> None:
    rng = random.Random(seed)
    said = conversation(rng, rng.randint(1, 6), rng.randint(1, 120))
    arrived = travelled(rng, said, loss=rng.choice([0, 0.1]), twice=0.1, spread=rng.choice([3, 60]))
    bound = rng.choice([1, 3, 20])
    patience = 50
    fed = Fed(rule(late, patience, bound))
    now = 0
    for batch in [*cut(rng, arrived, 15), [], []]:
        fed.feed(batch, now)
        step = fed.steps[-1]
        assert step.counts.held <= bound
        assert step.counts.hold_ms_max <= patience + patience + 1  # and the time between two batches
        assert (step.wake_ms is None) == (step.counts.held == 0)
        now += rng.randint(1, 40) if batch else patience + 1
    assert fed.steps[-1].counts.held == 0  # nothing waits for ever
    needs = {one.id: one.needs() for one in said}
    seen: set[Id] = set()
    for name, word in fed.shown:
        assert name not in seen
        if word != LATE:
            whole = seen.issuperset(needs[name])
            assert (word == INCOMPLETE) == (not whole), (name, word)
        else:
            assert late == "tag"
        seen.add(name)
    assert fed.total("released") == len(seen)
    assert fed.total("released") + fed.total("dropped") == len(arrived)
    if late == "tag":
        assert seen == {one.id for one in arrived}


def test_what_is_given_up_and_comes_after_all() -> None:
    question, answer, thanks = Said("ann", 1), Said("bob", 1, (("ann", 1),)), Said("ann", 2, (("bob", 1),))
    tag, drop = Fed(rule("tag", 100)), Fed(rule("drop", 100))
    for fed in (tag, drop):
        assert fed.feed([answer], 0) == []
        assert fed.steps[-1].wake_ms == 100
        assert fed.feed([], 99) == []
        assert fed.feed([], 100) == ["bob.1 incomplete"]
        assert fed.steps[-1].counts.given_up == 1
    assert tag.feed([question, thanks, question], 200) == ["ann.1 late", "ann.2 causal"]
    assert tag.steps[-1].counts.duplicates == 1
    assert drop.feed([question, thanks], 200) == ["ann.2 incomplete"]  # it names ann.1, which nobody was shown
    assert drop.steps[-1].counts.dropped == drop.steps[-1].counts.late == 1


def test_at_the_bound_waiting_fails_and_names_what_is_missing() -> None:
    fed = Fed(rule(held_max=2))
    rows = [Said("bob", n, (("ann", 7),)) for n in (1, 2, 3)]
    fed.feed(rows[:2])
    with pytest.raises(LimitError, match=r"rows of one key that wait is 3, the limit is 2.*'ann' up to 7"):
        fed.feed(rows[2:])


def test_at_the_bound_the_oldest_is_let_go_with_all_it_waits_for() -> None:
    fed = Fed(rule("tag", 1000, held_max=2))
    assert fed.feed([Said("bob", 1, (("ann", 1),)), Said("cat", 1, (("bob", 1),))]) == []
    # dan waits for something else, and goes on waiting
    assert fed.feed([Said("dan", 1, (("eve", 1),))]) == ["bob.1 incomplete", "cat.1 causal"]
    assert fed.steps[-1].counts.held == 1


def test_the_bound_is_not_on_what_one_batch_brings_in_any_order() -> None:
    said = [Said("ann", n) for n in range(1, 101)]
    fed = Fed(rule(held_max=1))
    fed.feed(said[::-1])
    assert [name for name, _ in fed.shown] == [one.id for one in said]


def test_a_circle_is_broken_and_told() -> None:
    fed = Fed(rule("tag", 10))
    fed.feed([Said("ann", 1, (("bob", 1),)), Said("bob", 1, (("ann", 1),)), Said("cat", 1, (("cat", 1),))], 0)
    assert fed.steps[-1].counts.held == 3
    assert sorted(fed.feed([], 10)) == ["ann.1 incomplete", "bob.1 causal", "cat.1 incomplete"]
    assert fed.feed([Said("ann", 1), Said("ann", 2), Said("cat", 2)], 20) == ["ann.2 causal", "cat.2 causal"]


def test_a_source_met_in_the_middle_of_its_life() -> None:
    fed = Fed(rule("tag", 10, held_max=5))
    fed.feed([Said("ann", 10**12), Said("ann", 10**12 + 2)], 0)
    assert fed.feed([], 10)[0] == f"ann.{10**12} incomplete"  # too far back to be missed one by one
    assert fed.feed([Said("ann", 10**12 + 3)], 30) == [f"ann.{10**12 + 3} causal"]
    assert len(fed.state or b"") < 200


def test_what_is_remembered_of_losses_is_bounded() -> None:
    fed = Fed(rule("drop", 1, held_max=8))
    for n in range(2, 2600, 2):  # every other one is lost: more than are remembered
        fed.feed([Said("ann", n)], 3 * n)
        fed.feed([], 3 * n + 2)
    assert fed.total("released") == 1299
    assert len(fed.state or b"") < 4000  # a thousand positions


def test_rows_come_out_as_they_went_in() -> None:
    said = [Said("ann", 3), Said("ann", 2), Said("ann", 1)]
    fed = Fed(rule())
    fed.feed(said[:2])
    step = advance(fed.rule, fed.state, [table(said[2:])], 0)
    assert step.pool.take(pa.array(step.order)).equals(table(said[::-1]))  # nulls, binary and nested values too


def test_state_of_other_columns_or_none_at_all_is_refused() -> None:
    fed = Fed(rule())
    fed.feed([Said("ann", 2)])
    with pytest.raises(UsageError, match="has rows with other columns"):
        advance(rule(), fed.state, [table([Said("ann", 1)]).drop_columns(["text"])], 0)
    with pytest.raises(UsageError, match="cannot be read"):
        advance(rule(), b"\x00rubbish", [], 0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (table([Said("ann", 0)]), "n 0: is below 1"),
        (
            table([Said("ann", 1)]).set_column(1, "author", pa.array([None], pa.string())),
            "author None: 1 rows have none",
        ),
        (table([Said("ann", 1, ((None, 1),))]), "after.author None"),  # type: ignore[arg-type]
    ],
)
def test_rows_without_a_place_are_refused(rows: pa.Table, said: str) -> None:
    with pytest.raises(UsageError) as error:
        advance(rule(), None, [rows], 0)
    assert said in str(error.value)
