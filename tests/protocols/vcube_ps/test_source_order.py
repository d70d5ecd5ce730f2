"""The faithful mode delivers the same, step for step, with either order of one topic."""

import pytest

from antecede.protocols.vcube_ps import options
from antecede.protocols.vcube_ps.order import TopicOrder
from antecede.sim import RunSpec, simulate


@pytest.mark.parametrize(
    ("network", "workload", "prune"),
    [
        ("peersim", "uniform:window=200,messages=3", True),
        ("heavy-tailed", "uniform:window=50,messages=5", True),
        ("heavy-tailed", "uniform:window=50,messages=5", False),
        ("heavy-tailed", "churn:size=10", True),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_orders_give_the_same_run(
    monkeypatch: pytest.MonkeyPatch, network: str, workload: str, prune: bool, seed: int
) -> None:
    chosen: dict[str, object] = {"mode": "faithful", "prune": prune}
    spec = RunSpec(protocol="vcube-ps", nodes=16, seed=seed, network=network, workload=workload, options=chosen)
    fast = simulate(spec, trace=True)
    monkeypatch.setattr(options, "SourceOrder", TopicOrder)
    plain = simulate(spec, trace=True)
    assert fast.metrics == plain.metrics
    assert fast.trace is not None
    assert plain.trace is not None
    assert list(fast.trace.rows()) == list(plain.trace.rows())
