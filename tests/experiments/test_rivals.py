"""The rivals' experiments, at sizes that take seconds: what they count, and the relations that their texts state."""

import random
from collections import deque

from antecede.core import Message, Packet, Process
from antecede.experiments import find
from antecede.experiments.rivals.bundling import Bundling
from antecede.experiments.rivals.comparison import COMPARED, CausalComparison
from antecede.experiments.rivals.plumtree import PlumtreeBesideGossip
from antecede.experiments.rivals.probabilistic_clocks import KEYS, Clocks, Load, violated_share
from antecede.experiments.rivals.state import StateSampler, entries
from antecede.experiments.rivals.thicket import LoadSpread
from antecede.experiments.rivals.total import COMPARED as TOTAL
from antecede.experiments.rivals.total import TotalComparison
from antecede.protocols.registry import PROTOCOLS, options
from antecede.sim import RunSpec, simulate
from antecede.sim.tracing import Tracer
from antecede.trace import Recorder


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
    assert set(experiment.runs("churn", 16, 1)) == {"vcube-ps", "srpt-s", "locamu", "plumtree", "thicket"}
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


# -- total order ------------------------------------------------------------------------------------------------------


def test_every_protocol_with_one_order_is_compared() -> None:
    total = {name for name in PROTOCOLS if "total" in options(name, {}).promises}
    assert total <= {compared.protocol for compared in TOTAL.values()}
    experiment = find("comparison-total")
    assert set(experiment.runs("one-topic", 16, 1)) == set(TOTAL)
    assert {spec.protocol for spec in experiment.runs("churn", 16, 1).values()} == {"tno", "sequencer"}


def test_nodes_agree_where_it_is_promised_and_elsewhere_the_audit_counts() -> None:
    experiment = TotalComparison()
    runs = experiment.runs("overlapping", 12, 1)
    figures = {name: experiment.execute(runs[name]) for name in ("sequencer", "sequencing-atoms", "pabcast")}
    assert figures["sequencer"]["promises_one_order"] == figures["sequencing-atoms"]["promises_one_order"] == 1
    assert figures["sequencer"]["disagreeing_percent"] == figures["sequencing-atoms"]["disagreeing_percent"] == 0
    assert figures["sequencer"]["violations_percent"] == 0 < figures["sequencing-atoms"]["violations_percent"]
    assert figures["pabcast"]["promises_one_order"] == 0 < figures["pabcast"]["disagreeing_percent"]
    assert figures["sequencer"]["state"] < figures["sequencer"]["state_of_one"], "one node keeps what all wait for"


# -- state ------------------------------------------------------------------------------------------------------------


class _Counting(Process):
    """A process with state of every kind."""

    def __init__(self, settings: dict[str, int]) -> None:
        super().__init__(0)
        self.settings = settings
        self.levels: dict[int, int] = {}
        self.waiting: deque[Message] = deque()
        self.rng = random.Random(1)

    def publish(self, topic: str, payload: bytes) -> None: ...

    def receive(self, sender: int, packet: Packet) -> None: ...

    def size(self, packet: Packet) -> int:
        return 0


def test_state_is_counted_in_entries() -> None:
    process = _Counting({"a": 1, "b": 2})
    assert entries(process, frozenset()) == 2
    assert entries(process, frozenset([id(process.settings)])) == 0
    process.levels[7] = 1
    process.waiting.append(Message("t", 1, 1, ((2, 1), (3, 1))))
    assert entries(process, frozenset([id(process.settings)])) == 1 + 1 + 2, "a counter, a message, its dependencies"
    process.out.send(1, Packet())
    assert entries(process, frozenset([id(process.settings)])) == 4, "the outbox is no state"


def test_looks_at_the_state_change_nothing() -> None:
    spec = RunSpec(protocol="vcube-ps", nodes=8, workload="rate:messages=20,interval=20")
    plain, looked, state = Recorder(), Recorder(), StateSampler()
    simulate(spec, watch=[Tracer(plain)])
    simulate(spec, watch=[Tracer(looked)], before=state.schedule)
    assert list(plain.rows()) == list(looked.rows())
    assert 0 < state.mean_max <= state.node_max


def test_an_adaptive_timer_costs_little_under_a_light_load() -> None:
    experiment = Bundling()
    light = experiment.runs("normal", 100, 1)
    figures = {name: experiment.execute(light[name]) for name in ("causal aggregation", "timer", "adaptive timer")}
    fixed, adaptive, none = (figures[name]["latency"] for name in ("timer", "adaptive timer", "causal aggregation"))
    assert none < adaptive < (none + fixed) / 2


def test_several_trees_spread_the_load_of_one_publisher() -> None:
    experiment = LoadSpread()
    runs = experiment.runs("one-publisher", 16, 1)
    one, four = (experiment.execute(runs[name]) for name in ("plumtree, 12 links", "thicket, 4 trees"))
    assert four["load_at_10"] > one["load_at_10"], "leaves of one tree forward nothing"
    assert four["load_at_100"] < one["load_at_100"]
    assert four["lost_percent"] == four["violations_percent"] == 0
    assert experiment.axis is not None
