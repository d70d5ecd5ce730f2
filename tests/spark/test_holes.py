"""Rows of a filtered stream in causal order, one key, without Spark."""

import random

import pyarrow as pa
import pytest

from antecede.spark.causal import ids
from antecede.spark.causal.by_id import advance_ids
from antecede.spark.causal.holes import WithHoles
from antecede.spark.causal.keyed import Rule
from antecede.spark.causal.steps import WORDS
from tests.spark.logs import Id, Said, conversation, table
from tests.spark.logs import ids as names_of
from tests.spark.test_ids import Parts
from tests.spark.test_keyed_order import NAMING


class Fed:
    def __init__(self) -> None:
        self.rule = Rule(naming=NAMING, late="wait", patience_ms=None, held_max=1, holes=True)
        self.state: bytes | None = None
        self.store = Parts()

    def feed(self, rows: list[Said]) -> list[tuple[Id, str]]:
        ids._cache.clear()
        arrived = [table(rows)] if rows else []
        step = advance_ids(self.rule, self.state, self.store, arrived, 0, kind=WithHoles)
        self.state = step.state
        assert step.counts.held == 0
        names = names_of(step.pool.take(pa.array(step.order))) if len(step.order) else []
        return list(zip(names, [WORDS[word] for word in step.words], strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_two_nodes_deliveries_of_some_topics_each_message_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    said = conversation(rng, 5, 200)
    kept = [one for one in said if rng.random() < 0.4]
    at = [0, 0]  # each node's deliveries come in its order; batches of both together are mixed
    shown: list[Id] = []
    fed = Fed()
    while min(at) < len(kept):
        batch = []
        for node in range(2):
            end = min(len(kept), at[node] + rng.randrange(30))
            batch += kept[at[node] : end]
            at[node] = end
        rng.shuffle(batch)
        for name, word in fed.feed(batch):
            assert word == "causal"
            shown.append(name)
    assert sorted(shown) == sorted(one.id for one in kept)
    position = {name: index for index, name in enumerate(shown)}
    for one in kept:
        earlier = [other.id for other in kept if other.author == one.author and other.n < one.n]
        for name in [*earlier, *one.after]:
            assert position.get(name, -1) < position[one.id]


def test_rows_stay_behind_what_they_depend_on_through_a_row_that_was_filtered_out() -> None:
    """dan.1 names cat.1, which names bob.1; cat's is filtered out, and bob.1 names another that is."""
    rows = [Said("bob", 1, (("ann", 1),)), Said("dan", 1, (("cat", 1),))]
    assert [name for name, _ in Fed().feed(rows)] == [("bob", 1), ("dan", 1)]


def test_a_row_behind_a_higher_number_is_late_and_a_copy_is_none() -> None:
    fed = Fed()
    assert fed.feed([Said("ann", 7), Said("ann", 3, (("bob", 2),))]) == [(("ann", 3), "causal"), (("ann", 7), "causal")]
    assert fed.feed([Said("ann", 3), Said("ann", 5), Said("ann", 9)]) == [(("ann", 5), "late"), (("ann", 9), "causal")]
    assert fed.feed([Said("ann", 5), Said("ann", 9)]) == []
