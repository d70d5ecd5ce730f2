"""Timer-based bundling, the rival (thesis 3.4.5), with a wait that follows the load, and in a hybrid (6.2.2.2)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message
from antecede.core.process import Outbox
from antecede.overlay.trees import PerSourceTrees
from antecede.overlay.vcube import VCube
from antecede.protocols.aggregation import Bundle, HybridBundling
from antecede.protocols.aggregation.timer import Buffers
from antecede.protocols.sizes import ByteModel
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


@pytest.mark.parametrize("protocol", ["timer-bundling", "hybrid-bundling"])
@settings(max_examples=8, deadline=None)
@given(st.integers(1, 16), st.integers(0, 9999), st.sampled_from([30, 400]), st.sampled_from(["per-source", "single"]))
def test_order_holds_whatever_waits(protocol: str, nodes: int, seed: int, window: int, trees: str) -> None:
    spec = RunSpec(
        protocol=protocol,
        nodes=nodes,
        seed=seed,
        network="heavy-tailed",
        workload=f"uniform:messages=3,window={window}",
        options={"wait": 60, "trees": trees} | ({"adaptive": True} if protocol == "timer-bundling" else {"few": 0.3}),
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    report = judge(list(result.trace.rows()))
    assert report.ok, report
    assert result.metrics["still_held"] == 0


def test_an_adaptive_wait_follows_the_load() -> None:
    """Alone, alone, alone: it halves down to a 32nd. With company it doubles up to the wait that was given."""
    buffers, out = Buffers(ByteModel(), 3200, adaptive=True), Outbox()

    def waits(messages: int) -> int:
        for seq in range(messages):
            buffers.put(out, 7, Message("t", 1, seq + 1))
        delay, timer = out.timers[-1]
        buffers.wake(out, timer)
        return delay

    assert [waits(1) for _ in range(7)] == [3200, 1600, 800, 400, 200, 100, 100]
    assert [waits(2) for _ in range(7)] == [100, 200, 400, 800, 1600, 3200, 3200]
    assert 7 not in buffers


def hybrid(few: float) -> HybridBundling:
    return HybridBundling(0, PerSourceTrees(VCube(4)), ByteModel(), wait_us=100, few=few)


def test_packets_wait_where_few_are_bundles() -> None:
    """Node 0 publishes: its packets carry one message, so they wait, and the next ones join them."""
    node = hybrid(few=0.5)
    first, second = node.publish("t", b"1"), node.publish("t", b"2")
    assert node.out.sends == []
    for _, timer in list(node.out.timers):
        node.wake(timer)
    assert node.out.sends == [(hop, Bundle((first, second))) for hop in (1, 2)]


def test_where_enough_are_bundles_none_waits() -> None:
    node = hybrid(few=0.0)
    message = node.publish("t", b"1")
    assert node.out.sends == [(hop, Bundle((message,))) for hop in (1, 2)]
    assert node.out.timers == []
