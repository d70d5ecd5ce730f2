"""Figures over the paper's own horizontal axis, where it is not the number of nodes."""

from antecede.experiments import EXPERIMENTS
from antecede.experiments.summary import Line
from antecede.report.figure import figures


def _line(protocol: str, metric: str, ours: float, nodes: int = 127) -> Line:
    return Line(
        experiment="locamu-figure-5a-b",
        setting="whole",
        protocol=protocol,
        nodes=nodes,
        metric=metric,
        ours=ours,
        spread=None,
        seeds=1,
        published=None,
        unit="",
    )


def test_metrics_that_are_points_of_an_axis_become_lines_over_it() -> None:
    lines = [
        _line(protocol, f"throughput_{publishers}_publishers", slope * publishers)
        for protocol, slope in (("locamu", 10.0), ("cbcast", 5.0))
        for publishers in (1, 15, 127)
    ]
    throughput, crossing = figures([*lines, _line("cbcast", "falls_behind_locamu_at_publishers", 40.0)])
    assert throughput.caption == "Throughput, 127 nodes."
    assert ">publishers<" in throughput.panels[0]
    assert throughput.sentences == [
        ("whole", "cbcast is lowest at every point, 50 % below locamu at publishers = 127."),
    ]
    assert "falls behind" in crossing.caption.lower()


def test_a_metric_at_several_sizes_is_drawn_over_these_too() -> None:
    lines = [
        _line("locamu", f"throughput_{publishers}_publishers", 10.0 * publishers, nodes)
        for nodes in (127, 255)
        for publishers in (1, 15)
    ]
    assert [figure.caption for figure in figures(lines)] == [
        "Throughput, 127 nodes.",
        "Throughput, 255 nodes.",
        "Throughput 1 publishers.",
        "Throughput 15 publishers.",
    ]


def test_an_axis_finds_its_values_in_what_its_experiment_measures() -> None:
    axes = {name: experiment.axis for name, experiment in EXPERIMENTS.items() if experiment.axis}
    assert {"kim-ahn-figure-8", "locamu-figure-4d", "tno-figures-22-24", "thesis-figure-5.11"} <= axes.keys()
