"""Figures 7 to 10 in shape: what is simulated spreads as it is calculated, and no protocol faster than another."""

from statistics import mean

import pytest

from antecede.experiments.kim_ahn.epidemic_model import mean_reached, spread
from antecede.experiments.kim_ahn.figures_7_10 import CRASH, LOSS, SPREADING, AllReached, Reached, StepsToAll


@pytest.fixture(scope="module")
def measured() -> dict[str, list[list[int]]]:
    """By protocol: for each seed, who was reached after each step, of 64 with fan-out 3."""
    experiment = StepsToAll()
    found: dict[str, list[list[int]]] = {}
    for seed in range(1, 7):
        for protocol, spec in experiment.runs("fanout-3", 64, seed).items():
            its = experiment.execute(spec)
            if its["reached"] is not None:
                found.setdefault(protocol, []).append(its["reached"])
    return found


def test_simulation_and_calculation_agree(measured: dict[str, list[list[int]]]) -> None:
    model = spread(64, 3, 8, loss=LOSS, crash=CRASH)
    for protocol, runs in measured.items():
        for step in range(1, 8):
            reached = mean(run[step] for run in runs)
            assert reached == pytest.approx(mean_reached(model[step]), rel=0.15), f"{protocol} after {step}"


def test_a_rumour_only_grows_and_reaches_all(measured: dict[str, list[list[int]]]) -> None:
    assert len(measured) == 4
    for runs in measured.values():
        for run in runs:
            assert run == sorted(run)
            assert run[0] == 1
            assert run[-1] == 63, "all but the one that stopped"


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
