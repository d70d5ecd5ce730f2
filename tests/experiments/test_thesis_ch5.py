"""Chapter 5: its figures, and what the text of 5.6 claims, with ours. One test a figure or claim, named after it."""

import pytest

from antecede.experiments import EXPERIMENTS, find
from antecede.experiments.summary import Line, measure, summarise
from antecede.experiments.thesis.chapter_5 import FAITHFUL, ROOT_0
from antecede.experiments.thesis.chapter_5_relays import RENDEZVOUS
from antecede.sim import RunSpec, simulate

CHAPTER_5 = [name for name in EXPERIMENTS if name.startswith(("thesis-figure-5", "thesis-table-5", "thesis-section-5"))]


def lines(name: str, *, sizes: tuple[int, ...], setting: str, seeds: int = 1) -> dict[tuple[int, str], Line]:
    """Run one setting of an experiment in this process."""
    experiment = find(name)
    results = [
        (case, {variant: experiment.execute(spec) for variant, spec in case.runs.items()})
        for case in experiment.cases(range(1, seeds + 1), full=True)
        if case.setting == setting and case.nodes in sizes
    ]
    return {
        (line.nodes, f"{line.protocol} {line.metric}"): line
        for line in summarise(experiment, measure(experiment, results))
    }


def test_every_figure_of_the_chapter_is_here_and_says_what_to_expect_of_it() -> None:
    assert CHAPTER_5 == [
        "thesis-figure-5.6",
        "thesis-figure-5.7",
        "thesis-figure-5.8",
        "thesis-table-5.1",
        "thesis-figure-5.9",
        "thesis-section-5.6.4",
        "thesis-figure-5.10",
        "thesis-figure-5.11",
        "thesis-figure-5.12",
        "thesis-figure-5.7-rivals",
    ]
    for name in CHAPTER_5:
        assert len(find(name).about) > 100


# -- 5.6.2: a single publisher ----------------------------------------------------------------------------------------


def test_figure_5_6_one_publisher_to_a_quarter_of_4096_nodes() -> None:
    """533 and 720 u.t., 1.79 times the messages; relays are drawn with the members."""
    table = lines("thesis-figure-5.6", sizes=(4096,), setting="peersim")
    for metric, tolerance in (
        ("vcube-ps latency", 0.02),
        ("srpt-s latency", 0.02),
        ("srpt-s pub_messages_vs_vcube_ps", 0.04),
    ):
        line = table[4096, metric]
        assert line.ours == pytest.approx(line.published, rel=tolerance), metric


def test_figure_5_6_with_everyone_subscribed_the_hop_to_the_root_is_the_only_difference() -> None:
    table = lines("thesis-figure-5.6", sizes=(256,), setting="peersim", seeds=4)
    ours, theirs = table[256, "vcube-ps latency_100_percent"].ours, table[256, "srpt-s latency_100_percent"].ours
    assert theirs - ours == pytest.approx(100, abs=2)


@pytest.mark.slow
def test_figure_5_7_from_a_tenth_to_all_of_4096_nodes() -> None:
    table = lines("thesis-figure-5.7", sizes=(4096,), setting="peersim", seeds=2)
    assert table[4096, "vcube-ps latency_growth"].ours == pytest.approx(36, abs=2)
    assert table[4096, "srpt-s relays"].ours == pytest.approx(779, rel=0.05)
    assert table[4096, "srpt-s path_hops"].ours == pytest.approx(7, abs=0.1)
    assert table[4096, "srpt-s latency_variation"].ours < 5


@pytest.mark.slow
def test_figure_5_7_relays_go_as_subscribers_come() -> None:
    table = lines("thesis-figure-5.7", sizes=(1024,), setting="peersim")
    relays = [table[1024, f"srpt-s relays_at_{percent}_percent"].ours for percent in (40, 60, 80, 100)]
    assert relays == sorted(relays, reverse=True)
    assert relays[-1] == 0


def test_figure_5_7_systems_that_reduce_relays_have_fewer_than_scribe() -> None:
    """Table 3.3 says "reduced" of DRScribe and Magnet. Magnet needs nodes with interests in common."""
    table = lines("thesis-figure-5.7-rivals", sizes=(256,), setting="one-topic", seeds=2)
    for percent in (10, 50):
        relays = {name: table[256, f"{name} relays_at_{percent}_percent"].ours for name in RENDEZVOUS}
        assert table[256, f"vcube-ps relays_at_{percent}_percent"].ours == 0
        assert max(relays["drscribe"], relays["magnet"]) < relays["scribe"] / 2, percent
    relays = {}
    for setting in ("alike", "independent"):
        table = lines("thesis-figure-5.7-rivals", sizes=(256,), setting=setting)
        relays |= {(setting, name): table[256, f"{name} relays"].ours for name in RENDEZVOUS}
    assert relays["alike", "magnet"] < relays["alike", "scribe"]
    assert relays["alike", "magnet"] < relays["independent", "magnet"]


# -- 5.6.3: several publishers ----------------------------------------------------------------------------------------


def test_figure_5_8_up_to_128_nodes_the_root_costs_one_hop() -> None:
    table = lines("thesis-figure-5.8", sizes=(64,), setting="peersim")
    ours, theirs = (table[64, f"{protocol} latency_100_percent"].ours for protocol in ("vcube-ps", "srpt-s"))
    assert theirs - ours == pytest.approx(100, abs=5)


@pytest.mark.slow
def test_figure_5_8_at_256_nodes_the_root_saturates() -> None:
    """2.48 times the latency; a tenth as much contention with ten times the propagation time."""
    table = lines("thesis-figure-5.8", sizes=(256,), setting="peersim")
    assert table[256, "srpt-s latency_vs_vcube_ps"].ours == pytest.approx(2.48, rel=0.06)
    assert table[256, "srpt-s latency_vs_vcube_ps_1000"].ours < 1.6
    assert table[256, "vcube-ps latency_vs_25_percent_publishers"].ours < 10


def test_hot_topics_do_not_bottleneck() -> None:
    """128 nodes publish within 500 u.t.: SRPT's root has 7 packets to send for each message, and no other node many."""
    worst = {}
    for protocol, options in (("vcube-ps", FAITHFUL), ("srpt-s", ROOT_0)):
        spec = RunSpec(protocol=protocol, nodes=128, network="peersim", workload="uniform:window=500", options=options)
        worst[protocol] = simulate(spec).metrics["place_mean_worst_node"]
    assert worst["vcube-ps"] < 4  # type: ignore[operator]
    assert worst["srpt-s"] > 100  # type: ignore[operator]


@pytest.mark.slow
def test_table_5_1_at_256_nodes() -> None:
    """No node of VCube-PS has a long queue; half of SRPT's have none, and its root has nearly everything."""
    table = lines("thesis-table-5.1", sizes=(256,), setting="peersim-free-acks")
    assert table[256, "srpt-s nodes_queue_0"].ours == 128
    assert table[256, "srpt-s nodes_queue_above_32"].ours == 1
    assert table[256, "srpt-s root_max_queue"].ours == pytest.approx(8 * 256 - 1000, rel=0.1)
    assert table[256, "vcube-ps nodes_queue_0"].ours == 0
    assert table[256, "vcube-ps nodes_queue_0_to_2"].ours + table[256, "vcube-ps nodes_queue_2_to_4"].ours == 256


@pytest.mark.slow
def test_table_5_1_at_1024_nodes() -> None:
    table = lines("thesis-table-5.1", sizes=(1024,), setting="peersim-free-acks")
    assert table[1024, "srpt-s nodes_queue_0"].ours == table[1024, "srpt-s nodes_queue_0"].published
    assert table[1024, "srpt-s root_max_queue"].ours == pytest.approx(9240, rel=0.03)
    assert table[1024, "srpt-s root_mean_queue"].ours == pytest.approx(4617, rel=0.03)
    middle = [table[1024, f"vcube-ps nodes_queue_{bin_}"].ours for bin_ in ("4_to_8", "8_to_16", "16_to_32")]
    assert sum(middle) > 1000
    assert middle[0] == pytest.approx(495, rel=0.3)
    assert middle[1] == pytest.approx(510, rel=0.3)


# -- 5.6.4: order -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_figure_5_9_barriers_are_small() -> None:
    table = lines("thesis-figure-5.9", sizes=(256,), setting="short-pause", seeds=3)
    assert table[256, "vcube-ps barrier_below_5"].ours == pytest.approx(51.6, abs=8)
    assert table[256, "vcube-ps barrier_of_1"].ours == pytest.approx(19.9, abs=5)
    assert table[256, "vcube-ps-pruned barrier_of_1"].ours == pytest.approx(31.2, abs=5)  # their code, made to prune
    assert table[256, "vcube-ps-pruned barrier_mean"].ours < 0.7 * table[256, "vcube-ps barrier_mean"].ours


@pytest.mark.slow
def test_section_5_6_4_order_delays_few_deliveries() -> None:
    table = lines("thesis-section-5.6.4", sizes=(256,), setting="short-pause", seeds=2)
    assert table[256, "vcube-ps delivered_without_delay"].ours == pytest.approx(87.2, abs=3)
    assert table[256, "vcube-ps delivered_within_10ut"].ours == pytest.approx(95.1, abs=6)


# -- 5.6.5 to 5.6.7 ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_figure_5_10_zipf_costs_the_roots_of_hot_topics() -> None:
    """+30.6 % for SRPT, +9.2 % for VCube-PS at 256 nodes; at 64 no root is short of time."""
    table = lines("thesis-figure-5.10", sizes=(64, 256), setting="peersim")
    for nodes, ours, theirs in ((256, 9.2, 30.6), (64, 9.2, 0)):
        assert table[nodes, "vcube-ps latency_increase"].ours == pytest.approx(ours, abs=5)
        assert table[nodes, "srpt-s latency_increase"].ours == pytest.approx(theirs, abs=8)


@pytest.mark.slow
def test_figure_5_11_churn_is_tolerated_and_relays_are_temporary() -> None:
    table = lines("thesis-figure-5.11", sizes=(250,), setting="per-minute")
    assert table[250, "vcube-ps latency_increase_max"].ours < 10
    assert table[250, "vcube-ps false_positives"].ours < 2.2
    assert table[250, "srpt-s latency_increase_max"].ours < 1.4


def test_figure_5_12_the_parts_of_a_brokers_latency_add_up() -> None:
    run = find("thesis-figure-5.12").execute(
        RunSpec(
            protocol="srpt-b",
            nodes=64,
            network="peersim",
            workload="rate:interval=50,messages=20,aside=8",
            options={"brokers": 8, "root": 0},
        )
    )
    assert run["tree"] + run["attached"] == pytest.approx(run["reception_latency"]["mean"])
    assert run["tree"] > 100
    assert run["attached"] > 99


@pytest.mark.slow
def test_figure_5_12_the_fewer_brokers_the_more_they_have_to_send() -> None:
    table = lines("thesis-figure-5.12", sizes=(1024,), setting="all-at-once")
    few, some, many = (table[1024, f"srpt-b-{brokers} latency"].ours for brokers in (32, 256, 2048))
    assert few > some > many > table[1024, "vcube-ps latency"].ours
    assert table[1024, "vcube-ps latency_vs_srpt_b"].ours < -22


# -- diagnosis --------------------------------------------------------------------------------------------------------


def test_diagnosis_rounds_grow_with_the_logarithm() -> None:
    for setting in ("one", "many"):
        table = lines("vcube-diagnosis", sizes=(8, 16, 32, 64), setting=setting, seeds=2)
        for nodes in (8, 16, 32, 64):
            assert table[nodes, f"{setting} everyone_knows"].ours == 100
            for metric in ("rounds_mean", "rounds_max", "tests_a_node_and_round"):
                line = table[nodes, f"{setting} {metric}"]
                assert line.published is not None
                assert line.ours <= line.published
