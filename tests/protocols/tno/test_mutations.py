"""Every error of the printed algorithm is found by the search that finds none in ours.

By default the seed is replayed at which the search first found it; the slow tests look for it from seed 0 on.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from antecede.protocols.tno import Manager, Publisher, SubscriptionClock
from antecede.search.harness import Verdict
from antecede.search.tno import Trial, make_with, search
from tests.protocols.tno import mutations
from tests.protocols.tno.scenario import Scenario


class Found(NamedTuple):
    """An error, the trial in which it shows, the first seed that shows it, and what is violated then."""

    mutant: type[SubscriptionClock] | type[Manager] | type[Publisher]
    trial: Trial
    seed: int
    rule: str = "total"

    def search(self, seed: int) -> Verdict:
        if issubclass(self.mutant, Manager):
            return search(seed, self.trial, make_with(make_manager=self.mutant))
        if issubclass(self.mutant, Publisher):
            return search(seed, self.trial, make_with(make_publisher=self.mutant))
        return search(seed, self.trial, make_with(make_clock=self.mutant))


def _trial(**values: object) -> Trial:
    """A service without any order, nobody answers: what is wrong is between numbers and subscriptions."""
    return Trial(**{"ens": "straight", "answers": 0.0, "nodes": 5, **values})  # type: ignore[arg-type]


#: By node the topics it takes: nobody takes both the second and the third.
CROSSING = ((2, 3), (0, 3), (0, 2, 3), (2, 3), (0, 1, 3))
#: Nobody takes the second and the third; an event of the third does not tell how the other two stand.
APART = ((0, 1), (0, 1), (0, 2), (0, 2), (0, 1))
SEEDS = 1400

FOUND = [
    Found(
        mutations.StrictAnywhere,
        _trial(fixed=True, topics=4, buffer=0, churn=0.0, window_of_time=2500.0, actions=30, founders=CROSSING),
        1337,
    ),
    Found(
        mutations.NeedsTwo,
        _trial(fixed=True, topics=2, churn=0.4, window_of_time=6000.0, actions=80, founders=0.4),
        48,
    ),
    Found(
        mutations.ResetsTheClock,
        _trial(topics=3, buffer=0, churn=0.3, window_of_time=3000.0, actions=80, founders=0.5),
        14,
    ),
    Found(
        mutations.ForgetsWhatItLeft,
        _trial(fixed=True, topics=2, buffer=0, churn=0.4, window_of_time=4000.0, actions=80, founders=0.6),
        112,
    ),
    Found(
        mutations.SeesOnlyItsOwn,
        _trial(topics=4, mode="faithful", churn=0.25, window_of_time=4000.0, actions=120, founders=0.6),
        2,
    ),
    Found(
        mutations.KnowsNoEpoch,
        _trial(topics=4, buffer=0, churn=0.0, beta=0.05, window_of_time=1500.0, actions=60, founders=0.7),
        2,
    ),
    Found(
        mutations.ForgetsItsTags,
        _trial(
            fixed=True,
            topics=3,
            ttl=0.0,
            beta=0.02,
            alpha=0.1,
            churn=0.0,
            answers=0.1,
            window_of_time=1500.0,
            founders=0.8,
        ),
        3,
        "causal",
    ),
    Found(
        mutations.InfersTheOrder,
        _trial(fixed=True, topics=3, buffer=0, churn=0.0, beta=0.02, window_of_time=3000.0, actions=80, founders=APART),
        28,
    ),
    Found(
        mutations.TakesAnyNumber,
        Trial(nodes=5, topics=2, crashes=2, lease=1000.0, loss=0.2, churn=0.0, window_of_time=6000.0, founders=0.8),
        0,
        "fifo",
    ),
]


def _name(found: Found) -> str:
    return found.mutant.__name__


@pytest.mark.parametrize("found", FOUND, ids=_name)
def test_a_known_seed_shows_the_error_and_nothing_without_it(found: Found) -> None:
    with_it = found.search(found.seed)
    assert found.rule in with_it.violated, with_it.words
    without = search(found.seed, found.trial)
    assert without.ok, without.words


@pytest.mark.slow
@pytest.mark.parametrize("found", FOUND, ids=_name)
def test_the_search_finds_the_error(found: Found) -> None:
    assert next((seed for seed in range(SEEDS) if not found.search(seed).ok), None) == found.seed


def test_every_error_is_looked_for() -> None:
    assert {found.mutant for found in FOUND} == {
        *mutations.CLOCKS,
        *mutations.MANAGERS,
        *mutations.PUBLISHERS,
    }


def test_strictness_anywhere_in_the_schedule_of_the_specification() -> None:
    path = Path(__file__).with_name("scenarios") / "strict_on_its_own_topic.txt"
    assert "audit: one order" in Scenario(path).run()
    assert "audit: total: " in Scenario(path).run(make_clock=mutations.StrictAnywhere)
