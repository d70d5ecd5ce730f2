"""VCube-PS under random schedules of SUB, UNS, PUB, rejoin, loss, suspicion, crash and recovery (issue C).

A failure names its seed and its trial: `search(seed, trial)` runs it again.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antecede.search.vcube_ps import Trial, search, trial_of

TRIALS = st.builds(
    Trial,
    nodes=st.sampled_from([2, 3, 4, 5, 8]),
    mode=st.just("faithful"),
    actions=st.integers(5, 40),
    answers=st.sampled_from([0.0, 0.15, 0.4]),
    leaves=st.sampled_from([0.05, 0.3, 0.6]),
    window_of_time=st.sampled_from([500.0, 1500.0, 4000.0]),
    founders=st.sampled_from([0.0, 0.5, 1.0]),
    fifo=st.booleans(),
)
ACROSS = st.builds(lambda topics: {"topics": topics, "domain": "all"}, st.integers(1, 3))
FAULTS = st.fixed_dictionaries(
    {
        "mode": st.just("pipelined"),
        "window": st.sampled_from([1, 2, 64]),
        "aggregate": st.booleans(),
        "loss": st.sampled_from([0.0, 0.1, 0.4]),
        "duplication": st.sampled_from([0.0, 0.2]),
        "crashes": st.integers(0, 3),
        "stay_down": st.sampled_from([0.0, 0.3, 1.0]),
        "false_suspicions": st.integers(0, 10),
    }
)
SEED = st.integers(0, 1 << 32)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def changed(trial: Trial, **values: object) -> Trial:
    return Trial(**{field: getattr(trial, field) for field in trial.__struct_fields__} | values)  # type: ignore[arg-type]


@QUICK
@given(SEED, TRIALS)
def test_faithful(seed: int, trial: Trial) -> None:
    verdict = search(seed, trial)
    assert verdict.ok, (seed, trial, verdict.words)


@QUICK
@given(SEED, TRIALS, ACROSS)
def test_faithful_across_topics(seed: int, trial: Trial, across: dict[str, object]) -> None:
    verdict = search(seed, changed(trial, **across))
    assert verdict.ok, (seed, trial, across, verdict.words)


@QUICK
@given(SEED, TRIALS, FAULTS)
def test_pipelined_with_faults(seed: int, trial: Trial, faults: dict[str, object]) -> None:
    verdict = search(seed, changed(trial, **faults))
    assert verdict.ok, (seed, trial, faults, verdict.words)


@QUICK
@given(SEED, TRIALS, FAULTS, ACROSS)
def test_pipelined_across_topics(seed: int, trial: Trial, faults: dict[str, object], across: dict[str, object]) -> None:
    verdict = search(seed, changed(trial, **faults | across | {"stay_down": 0.0}))
    assert verdict.ok, (seed, trial, faults, across, verdict.words)


@pytest.mark.parametrize("seed", range(25))
def test_drawn_trials(seed: int) -> None:
    verdict = search(seed)
    assert verdict.ok, (trial_of(seed), verdict.words)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_drawn_trials(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        verdict = search(seed)
        assert verdict.ok, (seed, trial_of(seed), verdict.words)


def test_the_same_seed_gives_the_same_run() -> None:
    assert search(7) == search(7)
