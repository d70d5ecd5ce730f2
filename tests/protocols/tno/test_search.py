"""Total notification order under random schedules of publications, joins, leaves, swaps, loss and crashes (issue G).

A failure names its seed and its trial: `search(seed, trial)` runs it again.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.search.tno import Trial, search, trial_of
from antecede.sim.run import RunSpec, simulate

SEED = st.integers(0, 1 << 32)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
STRAIGHT = st.builds(
    Trial,
    ens=st.just("straight"),
    nodes=st.sampled_from([2, 3, 5]),
    topics=st.integers(1, 4),
    mode=st.sampled_from(["plus", "faithful"]),
    route=st.sampled_from(["direct", "through"]),
    buffer=st.sampled_from([-1, 0, 1, 4]),
    ttl=st.sampled_from([0.0, 300.0]),
    window=st.sampled_from([1, 2, 64]),
    replicas=st.sampled_from([1, 2]),
    beta=st.sampled_from([0.0, 0.02]),
    actions=st.integers(5, 40),
    churn=st.sampled_from([0.0, 0.3, 0.6]),
    window_of_time=st.sampled_from([500.0, 2000.0]),
    founders=st.sampled_from([0.0, 0.5, 1.0]),
    fifo=st.booleans(),
    fixed=st.booleans(),
)


@QUICK
@given(SEED, STRAIGHT)
def test_no_schedule_goes_wrong(seed: int, trial: Trial) -> None:
    verdict = search(seed, trial)
    assert verdict.ok, (seed, trial, verdict.words)


@pytest.mark.parametrize("seed", range(16))
def test_drawn_trials(seed: int) -> None:
    verdict = search(seed)
    assert verdict.ok, (trial_of(seed), verdict.words)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_drawn_trials(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        verdict = search(seed)
        assert verdict.ok, (seed, trial_of(seed), verdict.words)


def test_where_nothing_changes_nothing_is_tagged() -> None:
    """And it is not for want of disorder: the paper's rule tags a tenth and more of the same runs."""
    busy = {"ens": "straight", "route": "through", "ttl": 0.0, "churn": 0.0, "founders": 0.8, "window_of_time": 1500.0}
    trial, printed = Trial(**busy), Trial(**busy, mode="faithful")  # type: ignore[arg-type]
    plus, faithful = [[search(seed, kind) for seed in range(3)] for kind in (trial, printed)]
    assert trial.tags_nothing
    assert all(verdict.ok and verdict.tagged == 0 for verdict in plus), [verdict.words for verdict in plus]
    assert all(verdict.ok for verdict in faithful), [verdict.words for verdict in faithful]
    assert sum(verdict.tagged for verdict in faithful) > 0.1 * sum(verdict.deliveries for verdict in faithful)


def test_managers_that_crash_for_good() -> None:
    """One of three replicas goes in the middle of everything: what is asked is answered, and order holds."""
    trial = Trial(nodes=6, topics=3, replicas=3, crashes=1, stays_down=True, loss=0.05, churn=0.1, actions=40)
    verdicts = [search(seed, trial) for seed in range(4)]
    assert all(verdict.ok for verdict in verdicts), [verdict.words for verdict in verdicts]
    assert sum(verdict.messages for verdict in verdicts) > 50


def test_once_asked_itself_for_ever() -> None:
    """A node that manages the topic it publishes on got an old timestamp, and asked for a new one at once."""
    verdict = search(9535)
    assert verdict.ok, (trial_of(9535), verdict.words)


@pytest.mark.parametrize("seed", [9164, 9267])
def test_once_blocked_after_a_crash(seed: int) -> None:
    """An answer to a request of before the crash came before its turn; a service that still gave what nobody wanted."""
    verdict = search(seed)
    assert verdict.ok, (trial_of(seed), verdict.words)


def test_once_missed_an_event_after_a_change_of_mind() -> None:
    """The service reported a subscription that was taken back; it was believed to be the one asked for after that."""
    verdict = search(5613)
    assert verdict.ok, verdict.words


def test_once_repeated_nothing_while_there_was_always_something_new() -> None:
    """A manager that waited for its replicas at every tick never sent again what another manager had not received."""
    verdict = search(3441)
    assert verdict.ok, verdict.words


def test_the_same_seed_gives_the_same_run() -> None:
    assert search(7) == search(7)


def test_a_manager_that_is_gone_unnoticed_is_not_asked_for_ever() -> None:
    """A run ends, and the judge says what is missing: what only the dead could have numbered."""
    gone = RunSpec(
        protocol="tno", nodes=4, workload="overlapping:count=2,taken=2,messages=6", faults=("crash:node=1,at=0",)
    )
    result = simulate(gone, trace=True)
    assert result.trace is not None
    assert not audit(result.trace.rows(), rules=("complete",)).ok
    with_replicas = RunSpec(
        protocol="tno",
        nodes=4,
        workload=gone.workload,
        faults=("crash:node=1,at=0,noticed=100",),
        options={"replicas": 3},
    )
    result = simulate(with_replicas, trace=True)
    assert result.trace is not None
    assert audit(result.trace.rows(), rules=("complete", "total")).ok
