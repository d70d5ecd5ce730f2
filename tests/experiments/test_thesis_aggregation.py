"""Thesis 6.2.1: aggregation inside VCube-PS, by barriers, beside aggregation by clocks."""

from statistics import fmean

import pytest

from antecede.experiments import find
from antecede.sim import RunSpec, simulate


def figures(setting: str, nodes: int, seeds: range) -> dict[str, float]:
    experiment = find("thesis-section-6.2.1")
    found: dict[str, list[float]] = {}
    for seed in seeds:
        runs = experiment.runs(setting, nodes, seed)
        values = experiment.values(nodes, {variant: experiment.execute(spec) for variant, spec in runs.items()})
        for value in values:
            found.setdefault(f"{value.protocol} {value.metric}", []).append(value.value)
    return {name: fmean(values) for name, values in found.items()}


def test_barriers_save_packets_as_clocks_do_and_carry_less() -> None:
    """Seen over ten seeds in the experiment's `about`; here enough to notice should either stop saving."""
    ours = figures("calibrated", 32, range(1, 3))
    assert 2 < ours["barriers packets_saved"] < 12
    assert 2 < ours["clocks packets_saved"] < 12
    assert ours["barriers bytes_saved"] > 0
    assert abs(ours["barriers delivery_latency_change"]) < 3
    spread_out = figures("literal", 32, range(1, 2))
    assert spread_out["barriers bytes_a_message"] < 0.8 * spread_out["clocks bytes_a_message"]


@pytest.mark.slow
def test_the_more_crosses_on_its_way_the_more_is_saved() -> None:
    def saved(nodes: int) -> float:
        return figures("calibrated", nodes, range(1, 3))["barriers packets_saved"]

    assert saved(64) > saved(16)


def test_without_company_nothing_changes() -> None:
    """One publisher, nothing lost: there is nothing to bundle, and nothing is kept back."""
    runs = [
        simulate(
            RunSpec(
                protocol="vcube-ps",
                nodes=16,
                network="constant",
                workload="one:messages=5,interval=10",
                options={"aggregate": aggregate},
            )
        ).metrics
        for aggregate in (False, True)
    ]
    assert runs[0] == runs[1]
