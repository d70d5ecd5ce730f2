"""Gossip under random schedules: a few seeds in the default suite, many in the slow one, ten thousand on Spark."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.experiments.search_gossip import search, trial_of
from tests.protocols.gossip.mutations import JOINS


@pytest.mark.parametrize("seed", [10, 31, 50, 59, 62, 97, 143, 506])
def test_seeds_that_once_failed(seed: int) -> None:
    verdict = search(seed)
    assert verdict.ok, verdict.words


def test_a_topic_seen_through_one_group_and_then_through_another() -> None:
    """Messages that together cover an entry may be before one's time, and the entry is not."""
    verdict = search(0, JOINS)
    assert verdict.ok, verdict.words


def test_the_draws_reach_everything() -> None:
    trials = [trial_of(seed) for seed in range(200)]
    assert {trial.version for trial in trials} == {"context", "rounds"}
    assert any(trial.crashes and trial.loss and trial.moves and trial.groups > 2 for trial in trials)


def test_equal_seeds_give_equal_verdicts() -> None:
    assert search(8) == search(8)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1_000_000))
def test_no_seed_fails(seed: int) -> None:
    verdict = search(seed)
    assert verdict.ok, (seed, verdict.words)
