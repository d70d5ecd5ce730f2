"""Random runs of causal order over logs: as built, none goes wrong; with a rule left out, the search finds it."""

import pytest

from antecede.search.logs import Run, Trial, search
from tests.protocols.logs import mutations


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_runs_keep_their_promises(first: int) -> None:
    for seed in range(first, first + 20):
        verdict = search(seed)
        assert verdict.ok, f"antecede search logs --seed {seed}\n{verdict.words}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 11_000, 1000))
def test_many_runs_keep_their_promises(first: int) -> None:
    for seed in range(first, first + 1000):
        verdict = search(seed)
        assert verdict.ok, f"antecede search logs --seed {seed}\n{verdict.words}"


_BUSY = Trial(logs=3, clients=5, actions=60, answers=0.7, loss=0.3, lost_acknowledgements=0.3)

_RESTARTING = Trial(
    logs=2,
    clients=3,
    actions=30,
    answers=0.4,
    loss=0.3,
    lost_acknowledgements=0.1,
    tail=0.8,
    crashes=6,
    stale_cursors=0.8,
)

#: Applications that are slow to take what is ready, and logs that lose records meanwhile.
_SLOW = Trial(logs=3, clients=4, actions=60, answers=0.7, crashes=6, keeps=8, slow=0.6)


def test_publishing_after_an_incomplete_record_is_no_violation() -> None:
    """A client took an incomplete record, and published. A message before both came later: the tag had told of it."""
    verdict = search(1870)
    assert verdict.ok, verdict.words
    assert verdict.tagged > 0


@pytest.mark.parametrize("seed", range(5))
def test_slow_applications_are_told_of_every_gap(seed: int) -> None:
    verdict = search(seed, _SLOW)
    assert verdict.ok, verdict.words


@pytest.mark.parametrize(
    ("mutation", "trial", "seeds"),
    [
        (mutations.OwnLogLeftOut, _BUSY, 30),
        (mutations.WithoutNumbers, _BUSY, 10),
        (mutations.PastNotTransitive, Trial(logs=3, clients=5, actions=60, answers=0.7), 200),
        (mutations.NoWaitForAcknowledgements, _BUSY, 10),
        (mutations.GivenUpWithoutTombstone, _BUSY, 20),
        (mutations.SettledWithoutProof, _BUSY, 20),
        (mutations.CursorBetweenReleases, Trial(logs=3, clients=4, actions=60, answers=0.7, crashes=6), 100),
        (mutations.CursorBehindGaps, _SLOW, 20),
        (mutations.CursorOfARetry, _RESTARTING, 20),
    ],
)
def test_a_rule_left_out_is_found(mutation: type[Run], trial: Trial, seeds: int) -> None:
    found = next((seed for seed in range(seeds) if not search(seed, trial, mutation).ok), None)
    assert found is not None, f"{mutation.__doc__} was not found in {seeds} runs"
