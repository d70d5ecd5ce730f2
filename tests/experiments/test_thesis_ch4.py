"""Chapter 4: the figures themselves, and the framework that puts them beside the published ones."""

import pytest

from antecede.core import UsageError
from antecede.experiments import EXPERIMENTS, Value, find
from antecede.experiments.published import published, published_for
from antecede.experiments.summary import Line, measure, summarise

#: By number of nodes: reduction and share of aggregated packets (%) of a prototype made beforehand, calibrated.
PROTOTYPE = {16: (2.56, 2.40), 32: (5.33, 4.76), 64: (8.47, 6.98), 128: (13.26, 10.35), 256: (18.72, 13.84)}


def lines(
    name: str, *, sizes: tuple[int, ...], seeds: int = 10, setting: str = "calibrated"
) -> dict[tuple[int, str], Line]:
    """Run one setting of an experiment in this process."""
    experiment = find(name)
    results = [
        (case, {variant: experiment.execute(spec) for variant, spec in case.runs.items()})
        for case in experiment.cases(range(1, seeds + 1))
        if case.setting == setting and case.nodes in sizes
    ]
    return {
        (line.nodes, f"{line.protocol} {line.metric}"): line
        for line in summarise(experiment, measure(experiment, results))
    }


def check_table_4_1(sizes: tuple[int, ...]) -> None:
    table = lines("thesis-table-4.1", sizes=sizes)
    for nodes in sizes:
        reduction, aggregated = PROTOTYPE[nodes]
        assert abs(table[nodes, "causal reduction"].ours - reduction) <= 2
        assert abs(table[nodes, "causal aggregated_packets"].ours - aggregated) <= 2
        assert table[nodes, "none packets"].ours == table[nodes, "none packets"].published == nodes * (nodes - 1)


def test_table_4_1_is_within_two_points_of_the_prototype() -> None:
    check_table_4_1((16, 32, 64, 128))


@pytest.mark.slow
def test_table_4_1_at_256_nodes() -> None:
    check_table_4_1((256,))


def test_figure_4_8_one_tree_saturates_between_128_and_256_nodes() -> None:
    few = lines("thesis-figure-4.8", sizes=(64,), seeds=1, setting="literal-uniform")
    many = lines("thesis-figure-4.8", sizes=(256,), seeds=1, setting="literal-uniform")
    assert few[64, "one-tree latency_vs_many_trees"].ours < 1.5
    assert many[256, "one-tree latency_vs_many_trees"].ours > 2


def test_figure_4_9_one_tree_bundles_far_less() -> None:
    table = lines("thesis-figure-4.9", sizes=(32, 64), seeds=3)
    assert all(table[nodes, "causal aggregations_vs_many_trees"].ours < -60 for nodes in (32, 64))


def test_figure_3_1_a_barrier_needs_a_handful_of_entries() -> None:
    table = lines("thesis-figure-3.1", sizes=(64, 128), seeds=2, setting="literal")
    for nodes in (64, 128):
        assert table[nodes, "causal-barrier mean_entries"].ours < table[nodes, "vector-clock mean_entries"].ours / 2


@pytest.mark.parametrize(
    "name", [name for name in EXPERIMENTS if name.startswith(("thesis-table-4", "thesis-figure-4", "thesis-figure-3"))]
)
def test_every_experiment_measures_what_was_published(name: str) -> None:
    """At one small size: every metric the paper prints for this item comes out of it under the same name."""
    experiment = find(name)
    case = next(case for case in experiment.cases([1]) if case.setting == experiment.settings[-1])
    runs = experiment.runs(case.setting, 32, 1)
    values = experiment.values(32, {variant: experiment.execute(spec) for variant, spec in runs.items()})
    ours = {(value.protocol, value.metric) for value in values}
    derived = {
        (value.protocol, value.metric)
        for value in experiment.derive([Value(v.protocol, n, v.metric, v.value) for v in values for n in (8, 1024)])
    }
    theirs = {
        (row.protocol, row.metric)
        for row in published()
        if (row.paper, row.item) == (experiment.paper, experiment.item)
    }
    assert theirs <= ours | derived
    assert experiment.about
    assert experiment.title


def test_spread_and_published_stand_beside_ours() -> None:
    experiment = find("thesis-table-4.1")
    measured = [("literal", Value("causal", 16, "reduction", value)) for value in (1.0, 3.0)]
    (line,) = summarise(experiment, measured)
    assert (line.ours, line.seeds, line.published, line.unit) == (2.0, 2, 3.33, "percent")
    assert line.spread == pytest.approx(2**0.5)


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(UsageError, match="experiments list"):
        find("table-9")


def test_published_values_are_read_whole() -> None:
    assert len(published()) > 100
    assert published_for("thesis", "table-4.1")["causal", 1024, "reduction"].value == 28.79
