"""Gossip under random schedules: a few seeds in the default suite, many in the slow one, ten thousand on Spark."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.experiments.search_gossip import search, trial_of


@pytest.mark.parametrize("seed", [2, 5, 10, 31, 50, 59, 62, 246, 506])
def test_seeds_that_once_failed(seed: int) -> None:
    verdict = search(seed)
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
