"""The fixed sequencer: one order for all, on links that lose, repeat and reorder; nothing is ever tagged."""

import pytest

from antecede.audit import audit
from antecede.core import UsageError
from antecede.sim.run import RunSpec, promised_rules, promises_across_topics, simulate

WORKLOAD = "overlapping:count=5,taken=3,messages=60,interval=20"
SPEC = RunSpec(protocol="sequencer", nodes=6, workload=WORKLOAD, faults=("loss:share=0.2", "duplication:share=0.2"))


@pytest.mark.parametrize("seed", range(3))
def test_one_order_whatever_links_do(seed: int) -> None:
    spec = RunSpec(**{field: getattr(SPEC, field) for field in SPEC.__struct_fields__} | {"seed": seed})
    result = simulate(spec, trace=True)
    assert result.trace is not None
    report = audit(result.trace.rows(), rules=promised_rules(spec), across_topics=promises_across_topics(spec))
    assert report.ok, report
    assert "total" in {rule.name for rule in report.rules}
    assert report.tagged == 0
    assert result.metrics["still_held"] == 0


def test_everything_goes_to_everybody() -> None:
    """The price (paper 6.3): nodes receive what they do not take, and one wire carries it all."""
    calm = RunSpec(protocol="sequencer", nodes=6, workload=WORKLOAD)
    sent = simulate(calm).metrics["sent"]
    assert isinstance(sent, dict)
    assert sent["ordered"] == 60 * 5
    assert sent["post"] <= 60


def test_the_sequencer_must_be_there() -> None:
    with pytest.raises(UsageError, match="sequencer 6: there is no such node; choose 0 … 5"):
        simulate(RunSpec(protocol="sequencer", nodes=6, workload=WORKLOAD, options={"sequencer": 6}))
