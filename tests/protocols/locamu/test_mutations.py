"""The errors of the printed algorithm, and each correction taken out: the search finds them all.

By default the seed is replayed at which the search first found it; the slow tests look for it from seed 0 on.
"""

from typing import NamedTuple

import pytest

from antecede.protocols.locamu import LoCaMu
from antecede.search.locamu import Trial, search
from tests.protocols.locamu import mutations as broken


class Found(NamedTuple):
    """An error, the trial in which it shows, the first seed that shows it, and a rule that is violated then."""

    mutant: type[LoCaMu]
    trial: Trial
    seed: int
    rule: str


CALM = Trial()
#: Nodes come and go, links are good.
BACK = Trial(crashes=6, actions=20, members=1.0)
#: Nobody fails, everybody is suspected: copies take every way there is along a line.
DOUBTS = Trial(shape="line", nodes=9, false_suspicions=60, actions=10, members=1.0, window_of_time=2000.0, answers=0.05)
FALSE = Trial(false_suspicions=20, actions=20, members=1.0, window_of_time=1500.0)
FAULTS = Trial(crashes=4, false_suspicions=8)
#: Relays go for good, with messages in their hands.
GONE = Trial(
    nodes=9, crashes=3, stay_down=1.0, false_suspicions=4, actions=20, members=1.0, window_of_time=2000.0, loss=0.2
)
LAST_WORDS = Trial(
    nodes=10, f=2, crashes=3, stay_down=1.0, loss=0.2, actions=20, members=0.5, window_of_time=2000.0, last_words=True
)
#: Members come and go while nodes do.
JOINS = Trial(changes=16, crashes=6, topics=3, actions=20, members=0.4, answers=0.3, window_of_time=6000.0)
JOINS_AND_DOUBTS = Trial(
    shape="line",
    nodes=9,
    topics=2,
    members=0.3,
    actions=20,
    answers=0.3,
    crashes=6,
    false_suspicions=12,
    changes=16,
)

FOUND = [
    Found(broken.Printed, CALM, 0, "complete"),
    Found(broken.CountsItself, CALM, 0, "blocked"),
    Found(broken.NotesFirst, CALM, 0, "complete"),
    Found(broken.WaitsForItself, CALM, 0, "blocked"),
    Found(broken.DuplicatesRaiseThePast, FALSE, 20, "blocked"),
    Found(broken.TellsNobody, FAULTS, 1, "agreement"),
    Found(broken.AnyWayIsSafe, DOUBTS, 2, "exactly-once"),
    Found(broken.WaitsForItsSenderOnly, DOUBTS, 18, "causal"),
    Found(broken.NobodyStandsIn, LAST_WORDS, 1, "complete"),
    Found(broken.NoRecords, LAST_WORDS, 1, "blocked"),
    Found(broken.Nearsighted, DOUBTS, 0, "causal"),
    Found(broken.ForgetsIncomplete, BACK, 1, "exactly-once"),
    Found(broken.ForgetsUnstable, BACK, 0, "complete"),
    Found(broken.KeepsNothing, BACK, 0, "complete"),
    Found(broken.NeverLooksAgain, BACK, 0, "blocked"),
    Found(broken.BaseGraphOnly, GONE, 7, "complete"),
    Found(broken.TakesWhatIsLate, JOINS, 26, "causal"),
    Found(broken.SettlesWithNeighbours, JOINS_AND_DOUBTS, 90, "complete"),
]


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.mutant.__name__)
def test_the_search_finds_it(found: Found) -> None:
    verdict = search(found.seed, found.trial, broken.make_mutant(found.mutant))
    assert found.rule in verdict.violated, verdict.violated


@pytest.mark.parametrize("trial", list(dict.fromkeys(found.trial for found in FOUND)), ids=str)
def test_and_finds_nothing_in_locamu_there(trial: Trial) -> None:
    for seed in sorted({found.seed for found in FOUND if found.trial == trial}):
        verdict = search(seed, trial)
        assert verdict.ok, verdict.words


@pytest.mark.slow
@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.mutant.__name__)
def test_the_search_finds_it_from_the_beginning(found: Found) -> None:
    for seed in range(200):
        if not search(seed, found.trial, broken.make_mutant(found.mutant)).ok:
            return
    pytest.fail("two hundred runs without a fault")
