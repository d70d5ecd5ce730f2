"""Every error of the printed protocol, and a few of ours, is found by the search that finds none in gossip.

Each is replayed at a seed that shows it, and the protocol itself passes at that seed.
"""

from functools import cache

import pytest

from antecede.search.gossip import Trial, search
from tests.protocols.gossip.mutations import FOUND, Found, mutated


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.change.__name__)
def test_put_back_it_is_found(found: Found) -> None:
    verdict = search(found.seed, found.trial, mutated(found.change))
    assert found.rule in verdict.violated, verdict
    assert passes(found.seed, found.trial)


@cache
def passes(seed: int, trial: Trial) -> bool:
    return search(seed, trial).ok
