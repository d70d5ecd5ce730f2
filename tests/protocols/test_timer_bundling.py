"""Timer-based bundling, the rival (thesis 3.4.5)."""

import pytest

from antecede.sim import RunSpec, simulate
from tests.protocols.worlds import judge


def run(**options: object) -> dict[str, object]:
    spec = RunSpec(protocol="timer-bundling", nodes=32, seed=5, network="heavy-tailed", options=options)
    result = simulate(spec, trace=True)
    assert result.trace is not None
    report = judge(list(result.trace.rows()))
    assert report.ok, report
    return result.metrics


def test_longer_waits_bundle_more_and_deliver_later() -> None:
    short, long = run(wait=1), run(wait=100)
    assert long["packets"] < short["packets"]  # type: ignore[operator]
    assert long["delivery_latency"]["mean"] > short["delivery_latency"]["mean"]  # type: ignore[index]


@pytest.mark.parametrize("mtu", [80, 200])
def test_a_full_buffer_leaves_before_its_timer(mtu: int) -> None:
    metrics = run(wait=1000, mtu=mtu)
    sizes = [int(size) for size in metrics["packet_bytes"]]  # type: ignore[attr-defined]
    alone = max(76 + 4 * int(count) for count in metrics["dependencies"])  # type: ignore[attr-defined]
    assert max(sizes) <= max(mtu, alone)
