"""Gossip: who gets everything, what order costs, and that buffers may be small."""

import pytest

from antecede.audit import audit
from antecede.experiments.kim_ahn.bytes import ListBytes
from antecede.experiments.kim_ahn.reliability import Reliability
from antecede.sim import RunSpec, simulate


def test_with_pull_everybody_gets_everything() -> None:
    """About 95 % without pull, 100 % with it."""
    experiment = Reliability()
    found = {name: experiment.execute(spec) for name, spec in experiment.runs("brokers", 96, 1).items()}
    assert found["pull"]["reached_all"] == found["pull"]["delivered"] == 100
    assert 92 < found["no-pull"]["delivered"] < 98
    assert found["no-pull"]["reached_all"] < 20
    assert 3 < found["pull"]["rounds_brokers"] < 8  # log2 of 32 is 5


def test_the_list_of_predecessors_is_shorter_than_graph_and_vectors() -> None:
    experiment = ListBytes()
    runs = experiment.runs("context", 12, 1)
    some, many = (experiment.execute(runs[name]) for name in ("overlap 0.2", "overlap 0.8"))
    for lists in (some, many):
        assert lists["rounds"] < lists["predecessors"] < lists["graph_recent"] < lists["graph"]
        assert lists["predecessors"] < lists["vectors"]
    assert some["predecessors"] < many["predecessors"]


@pytest.mark.parametrize("protocol", ["gossip-context", "gossip-rounds"])
def test_small_buffers_cost_time_not_messages(protocol: str) -> None:
    """With room for eight messages out of turn and a fifth of all packets lost."""
    several = 1 if protocol == "gossip-rounds" else 0.3
    spec = RunSpec(
        protocol=protocol,
        nodes=20,
        workload=f"brokered:brokers=5,count=2,several={several},messages=60,interval=40",
        faults=("loss:share=0.2",),
        options={"brokers": 5, "held": 8, **({"colours": 64} if protocol == "gossip-rounds" else {})},
    )
    trace = simulate(spec, trace=True, measure=False).trace
    assert trace is not None
    report = audit(trace.rows(), rules=("causal", "fifo", "exactly-once", "no-invention", "complete", "agreement"))
    assert report.ok, str(report)
