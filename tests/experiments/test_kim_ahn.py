"""Figures 7 to 10: members spread a message as it is calculated; brokers reach their subscribers sooner."""

from statistics import mean

import pytest

from antecede.experiments.kim_ahn.epidemic_model import mean_reached, spread
from antecede.experiments.kim_ahn.figures_7_10 import CRASH, LOSS, SPREADING, AllReached, Reached, StepsToAll


@pytest.fixture(scope="module")
def measured() -> dict[str, list[list[int]]]:
    """By protocol: for each seed, subscribers reached after each step, of 64 with fan-out 3."""
    experiment = StepsToAll()
    found: dict[str, list[list[int]]] = {}
    for seed in range(1, 7):
        for protocol, spec in experiment.runs("fanout-3", 64, seed).items():
            its = experiment.execute(spec)
            if its["reached"] is not None:
                found.setdefault(protocol, []).append(its["reached"])
    return found


def test_members_spread_a_message_as_calculated(measured: dict[str, list[list[int]]]) -> None:
    model = spread(64, 3, 8, loss=LOSS, crash=CRASH)
    for protocol in ("lpbcast", "pabcast"):
        for step in range(1, 8):
            reached = mean(run[step] for run in measured[protocol])
            assert reached == pytest.approx(mean_reached(model[step]), rel=0.15), f"{protocol} after {step}"


def test_a_message_spreads_to_all_that_can_be_reached(measured: dict[str, list[list[int]]]) -> None:
    assert len(measured) == 6
    for protocol, runs in measured.items():
        for run in runs:
            assert run == sorted(run)
        assert sorted(run[-1] for run in runs)[len(runs) // 2] >= 63, f"{protocol}: all but one that stopped, mostly"


def test_brokers_reach_subscribers_sooner_than_members_reach_each_other(measured: dict[str, list[list[int]]]) -> None:
    """ "Converges faster" (section 3). That all are reached sooner needs notices that are repeated."""
    for rival in ("lpbcast", "pabcast"):
        for ours in ("gossip-context", "gossip-rounds"):
            for step in (1, 2, 3):
                assert mean(run[step] for run in measured[ours]) > mean(run[step] for run in measured[rival])

    def steps_to_all(protocol: str) -> float:
        return mean(run.index(run[-1]) for run in measured[protocol])

    assert steps_to_all("gossip-context, repeated") < steps_to_all("pabcast") < steps_to_all("gossip-context")


def test_the_figures_read_what_they_are_named_for() -> None:
    metrics = {
        "gossip-context": {"reached": [1, 3, 5, 7, 9, *[10] * 27], "up": 10, "fanout": 3},
        "lpbcast": {"reached": None, "fanout": 3},
    }
    steps = {(value.protocol, value.metric): value.value for value in StepsToAll().values(10, metrics)}
    assert steps["gossip-context", "steps"] == 5
    assert ("lpbcast", "steps") not in steps, "its publisher stopped before the first round"
    reached = {(value.protocol, value.metric): value.value for value in Reached().values(10, metrics)}
    assert reached["gossip-context", "after-2"] == 5
    assert reached["model", "after-1"] == pytest.approx(1 + 9 * (1 - (1 - 3 / 9 * 0.95 * 0.99)))
    everybody = {(value.protocol, value.metric): value.value for value in AllReached().values(10, metrics)}
    assert [everybody["gossip-context", f"all-after-{step}"] for step in (4, 5, 6)] == [0, 1, 1]


def test_names_differ() -> None:
    assert len({experiment.name for experiment in SPREADING}) == 3
