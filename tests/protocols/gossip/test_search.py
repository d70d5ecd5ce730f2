"""Gossip under random schedules: a few seeds in the default suite, many in the slow one, ten thousand on Spark."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.search.gossip import mixed_of, search, trial_of
from tests.protocols.gossip.mutations import JOINS


@pytest.mark.parametrize("seed", [10, 31, 50, 59, 62, 97, 143, 506])
def test_seeds_that_once_failed(seed: int) -> None:
    verdict = search(seed, mixed_of(seed))
    assert verdict.ok, verdict.words


@pytest.mark.parametrize("seed", [927, 1838, 2257, 7859, 9881])
def test_a_suspicion_is_no_answer(seed: int) -> None:
    """Brokers that suspected their only peer began a group as if nobody relayed it, and had its past afterwards."""
    verdict = search(seed, mixed_of(seed))
    assert verdict.ok, verdict.words


@pytest.mark.parametrize("seed", [4340, 5466])
def test_views_that_fall_apart_grow_together(seed: int) -> None:
    """Of eight brokers with views of three, one was in nobody's, or four knew only each other."""
    verdict = search(seed)
    assert verdict.ok, verdict.words


@pytest.mark.parametrize("seed", [3507, 4531, 6686, 7677, 8818])
def test_what_there_was_no_room_for_is_asked_for(seed: int) -> None:
    """A standing that came twice, or late, put an earlier one in the place of the latest: its tail was forgotten."""
    verdict = search(seed)
    assert verdict.ok, verdict.words


def test_what_is_too_old_for_epochs_is_counted() -> None:
    """A link stood still for 300 rounds, which is more than epochs of 4 colours tell; nobody slips anything in."""
    verdict = search(2316)
    assert verdict.ok, verdict.words


def test_a_subscriber_whose_only_broker_does_not_answer_asks_again() -> None:
    """It turned to others after a while, and where there were none said nothing any more."""
    verdict = search(30_001, msgspec.structs.replace(trial_of(30_001), brokers=2, changes=12, false_suspicions=4))
    assert verdict.ok, verdict.words


def test_a_topic_seen_through_one_group_and_then_through_another() -> None:
    """Messages that together cover an entry may be before one's time, and the entry is not."""
    verdict = search(0, JOINS)
    assert verdict.ok, verdict.words


def test_the_draws_reach_everything() -> None:
    trials = [trial_of(seed) for seed in range(200)]
    assert {trial.version for trial in trials} == {"context", "rounds"}
    assert any(trial.crashes and trial.loss and trial.moves and trial.groups > 2 for trial in trials)
    absences = [trial for trial in trials if trial.log]
    assert {bool(trial.log_keeps) for trial in absences} == {False, True}
    assert any(trial.groups > 1 for trial in absences)


def test_equal_seeds_give_equal_verdicts() -> None:
    assert search(8) == search(8)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1_000_000))
def test_no_seed_fails(seed: int) -> None:
    verdict = search(seed)
    assert verdict.ok, (seed, verdict.words)


@pytest.mark.parametrize("seed", [4508, 5245])
def test_a_subscriber_remembers_the_brokers_it_knew(seed: int) -> None:
    """Its broker did not have what it missed, or was gone, and so were all brokers that broker had told it of."""
    verdict = search(seed)
    assert verdict.ok, verdict.words
