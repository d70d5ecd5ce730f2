"""The rivals' experiments, at sizes that take seconds: what they count, and the relations that their texts state."""

from antecede.experiments import find
from antecede.experiments.rivals.comparison import COMPARED, CausalComparison
from antecede.experiments.rivals.plumtree import PlumtreeBesideGossip
from antecede.experiments.rivals.probabilistic_clocks import KEYS, Clocks, Load, violated_share
from antecede.protocols.registry import PROTOCOLS, options
from antecede.sim import RunSpec


def test_fewer_entries_violate_more_and_a_vector_clock_nothing() -> None:
    experiment = Clocks()
    metrics = {name: experiment.execute(spec) for name, spec in experiment.runs("medium", 4, 1).items()}
    few = {(value.protocol, value.metric): value.value for value in experiment.values(4, metrics)}
    assert few["vector clock", "violations_percent"] == 0
    assert few["vector clock", "early_percent"] > 1
    for keys in KEYS:
        calculated = few[f"K = {keys}, calculated", "violations_percent"]
        assert 0.5 * calculated < few[f"K = {keys}", "violations_percent"] < 1.5 * calculated
    many = experiment.execute(experiment.runs("medium", 64, 1)["K = 2"])
    assert 100 * many["violated"] < few["K = 2", "violations_percent"] / 2


def test_the_calculation_is_the_papers() -> None:
    """Its example: 100 entries and 20 messages under way; four keys are about the best, as 100 ln 2 / 20 = 3.5."""
    by_keys = {keys: violated_share(100, keys, 20) for keys in range(1, 9)}
    assert min(by_keys, key=lambda keys: by_keys[keys]) in (3, 4)
    assert violated_share(1, 1, 5) == 1


def test_the_load_is_the_number_of_messages_under_way() -> None:
    runs = Load().runs("32 entries", 20, 1)
    assert {spec.workload for spec in runs.values()} == {"rate:messages=250,interval=5"}


def test_plumtree_sends_a_message_far_fewer_times_than_gossip() -> None:
    experiment = PlumtreeBesideGossip()
    runs = experiment.runs("calm", 16, 1)
    tree, gossip = (experiment.execute(runs[name]) for name in ("plumtree", "gossip-context"))
    assert tree["copies"] < 2
    assert gossip["copies"] > 10
    assert tree["lost_percent"] == tree["violations_percent"] == gossip["lost_percent"] == 0


def test_plumtree_is_repaired_after_crashes() -> None:
    experiment = PlumtreeBesideGossip()
    spec = experiment.runs("crash", 16, 1)["plumtree"]
    assert spec.faults
    assert spec.faults[0].endswith("at=6000,noticed=400")
    figures = experiment.execute(spec)
    assert figures["to_all_after_crash"] > 0
    assert figures["violations_percent"] == 0


def test_every_protocol_with_causal_order_is_compared() -> None:
    """Protocols with one order for all are another comparison's; `srpt-b` is `srpt-s` with brokers."""
    others = {"srpt-b", "vcube-diagnosis"}
    promises = {name: options(name, {}).promises for name in PROTOCOLS if name not in others}
    causal = {name for name, rules in promises.items() if "causal" in rules and "total" not in rules}
    assert causal <= {compared.protocol for compared in COMPARED.values()}


def test_a_comparison_has_each_protocol_where_it_is_made_for_the_faults() -> None:
    experiment = find("comparison-causal")
    assert isinstance(experiment, CausalComparison)
    assert set(experiment.runs("calm", 16, 1)) == set(COMPARED)
    assert set(experiment.runs("churn", 16, 1)) == {"vcube-ps", "srpt-s", "locamu", "plumtree"}
    assert all(spec.faults == ("loss:share=0.05",) for spec in experiment.runs("loss", 16, 1).values())


def test_violations_are_counted_where_order_is_not_promised_and_there_alone() -> None:
    experiment = CausalComparison()
    runs = experiment.runs("calm", 16, 1)

    def counted(name: str) -> tuple[float, float]:
        spec: RunSpec = runs[name]
        figures = experiment.execute(spec)
        return figures["promises_causal_order"], figures["violations_percent"]

    assert counted("lpbcast")[0] == 0 < counted("lpbcast")[1]
    for name in ("vcube-ps", "safe-links", "vector-clocks", "plumtree"):
        assert counted(name) == (1, 0), name
