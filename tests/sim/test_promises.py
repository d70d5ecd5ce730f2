"""What a run promises, which is what it is judged by."""

import pytest

from antecede.audit import ALL_RULES, audit
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules, promises_across_topics

_SEVERAL = "zipf:count=3,messages=4,interval=100"


@pytest.mark.parametrize(
    ("protocol", "options", "across", "once"),
    [
        ("vcube-ps", {}, True, False),
        ("vcube-ps", {"domain": "topic"}, False, False),
        ("vcube-ps", {"mode": "faithful"}, False, True),
        ("vcube-ps", {"mode": "faithful", "domain": "all"}, True, True),
        ("causal-aggregation", {}, False, True),
        ("srpt-s", {}, False, True),
    ],
)
def test_promises(protocol: str, options: dict[str, object], across: bool, once: bool) -> None:
    spec = RunSpec(protocol=protocol, nodes=8, workload=_SEVERAL, options=options)
    assert promises_across_topics(spec) == across
    assert ("tree-edges-once" in promised_rules(spec)) == once
    assert set(promised_rules(spec)) <= set(ALL_RULES)
    assert promises_across_topics(RunSpec(protocol=protocol, nodes=8, options=options)), "one topic is all of them"


def test_it_makes_a_difference() -> None:
    """Order within each topic is kept, order over all of them is not, where only the one is promised."""
    spec = RunSpec(
        protocol="vcube-ps", nodes=8, network="heavy-tailed", workload=_SEVERAL, options={"mode": "faithful"}
    )
    trace = simulate(spec, trace=True).trace
    assert trace is not None
    assert not promises_across_topics(spec)
    assert audit(trace.rows(), across_topics=False).ok
    assert audit(trace.rows(), across_topics=True).violated == ("causal",)
