"""The thesis's future work as experiments: relations that their texts state, at sizes that take seconds."""

from pathlib import Path

import pytest

from antecede.experiments import find
from antecede.experiments.base import Experiment, Metrics
from antecede.experiments.thesis.chapter_6_placement import VARIABLE, Placement
from antecede.sim import RunSpec


def executed(experiment: Experiment, runs: dict[str, RunSpec]) -> dict[str, Metrics]:
    return {name: experiment.execute(spec) for name, spec in runs.items()}


def read(experiment: Experiment, nodes: int, metrics: dict[str, Metrics]) -> dict[str, float]:
    return {f"{value.protocol} {value.metric}": value.value for value in experiment.values(nodes, metrics)}


@pytest.mark.parametrize(
    ("setting", "percent"), [("loss", 10), ("crashes", 25), ("crashes-for-good", 25), ("crashes-and-loss", 25)]
)
def test_aggregation_keeps_its_promises_under_faults(setting: str, percent: int) -> None:
    experiment = find("thesis-section-6.2.2.1")
    runs = experiment.runs(setting, 16, 1)
    chosen = {name: spec for name, spec in runs.items() if name.endswith(f" {percent}")}
    assert all(spec.faults for spec in chosen.values())
    ours = read(experiment, 16, executed(experiment, chosen))
    for mode in ("together", "alone"):
        assert ours[f"{mode} promises_kept_at_{percent}_percent"] == 1
    assert ours[f"together packets_saved_at_{percent}_percent"] > 0


def test_the_same_nodes_crash_with_and_without_return() -> None:
    experiment = find("thesis-section-6.2.2.1")
    returning = experiment.runs("crashes", 32, 3)["together 25"].faults
    for_good = experiment.runs("crashes-for-good", 32, 3)["together 25"].faults
    assert len(returning) == 8
    assert tuple(fault.partition(",back=")[0] for fault in returning) == for_good
    fewer = experiment.runs("crashes-for-good", 32, 3)["alone 6"].faults
    assert {fault.split(",")[0] for fault in fewer} < {fault.split(",")[0] for fault in for_good}


def test_riding_along_saves_more_packets_than_aggregation_and_costs_less_time_than_a_timer() -> None:
    experiment = find("thesis-section-6.2.2.2")
    ours = read(experiment, 64, executed(experiment, experiment.runs("calibrated", 64, 1)))
    assert ours["riding reduction"] > ours["causal reduction"] + 3
    assert ours["riding delivery_mean_change"] < ours["timer-10 delivery_mean_change"] - 3


def test_chosen_slots_are_faster_than_slots_at_random() -> None:
    experiment = find("thesis-section-6.2.1-placement")
    ours = read(experiment, 32, executed(experiment, experiment.runs("regions", 32, 1)))
    assert ours["placed latency_p50_change"] < -20
    assert ours["placed latency_p99_change"] < 0


def test_measured_links_need_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "measured" not in Placement().settings
    file = tmp_path / "rtt.txt"
    file.write_text("0 4 80\n4 0 80\n80 80 0\n")
    monkeypatch.setenv(VARIABLE, str(file))
    experiment = Placement()
    assert "measured" in experiment.settings
    metrics = experiment.execute(experiment.runs("measured", 3, 1)["placed"])
    assert metrics["delivery_latency"]["max"] > 40


def test_smaller_cells_bring_fewer_messages_from_outside_and_more_subscriptions() -> None:
    experiment = find("thesis-section-6.2.2.3")
    runs = experiment.runs("fast", 16, 1)
    ours = read(experiment, 16, executed(experiment, {level: runs[level] for level in ("0", "2")}))
    assert ours["vcube-ps outside_for_each_inside_at_level_2"] < ours["vcube-ps outside_for_each_inside_at_level_0"]
    assert ours["vcube-ps delivered_inside_percent_at_level_0"] == 100
    assert ours["vcube-ps packets_about_membership_percent_at_level_0"] == 0
    assert ours["vcube-ps packets_about_membership_percent_at_level_2"] > 20
    assert ours["vcube-ps promises_kept_at_level_2"] == ours["vcube-ps promises_kept_at_level_0"] == 1
