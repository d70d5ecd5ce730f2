"""Δ-causal order: what is late is lost, what is delivered is in order and in time, and nothing waits for ever."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Message, Packet, ProtocolError, UsageError
from antecede.protocols.delta_causal import DeltaCausal
from antecede.protocols.delta_causal.process import GROUP, HEADER, NAME, TIME, Timed
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules

TICK = 10.0


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(0, 9999),
    st.sampled_from([50.0, 150.0, 600.0]),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.sampled_from([0.0, 600.0, 2000.0]),
)
def test_order_holds_and_every_delivery_is_in_time(
    nodes: int, seed: int, delta: float, loss: float, horizon: float
) -> None:
    spec = RunSpec(
        protocol="delta-causal",
        nodes=nodes,
        seed=seed,
        network="heavy-tailed",
        workload="uniform:messages=3,window=600",
        faults=(f"loss:share={loss}", "duplication:share=0.1"),
        options={"delta": delta, "tick": TICK, "horizon": horizon},
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    rows = list(result.trace.rows())
    report = audit(rows, rules=promised_rules(spec))
    assert report.ok, report
    assert result.metrics["still_held"] == 0
    if horizon == 2000.0:  # the clock counts until the last message is over
        sent = {(row.source, row.seq): row.time_us for row in rows if row.event.name == "PUBLISH"}
        for row in rows:
            if row.event.name == "DELIVER":
                assert row.time_us - sent[row.source, row.seq] <= (delta + 2 * TICK) * 1e6


def test_a_longer_delta_loses_less() -> None:
    lost = []
    for delta in (100.0, 200.0, 1000.0):
        spec = RunSpec(
            protocol="delta-causal", nodes=8, seed=1, workload="uniform:messages=3", options={"delta": delta}
        )
        result = simulate(spec)
        lost.append(8 * 7 * 3 - result.metrics["deliveries"])  # type: ignore[operator]
    assert lost[0] > lost[1] >= lost[2] == 0, lost


def member(node: int = 2) -> DeltaCausal:
    process = DeltaCausal(node, {"t": range(4)}, delta=5, tick_us=1, horizon=100)
    process.start()
    process.out.clear()
    return process


def test_a_message_waits_for_a_predecessor_until_that_is_lost() -> None:
    process = member()
    answer = Message("t", 1, 1, ((0, 1),))
    process.receive(1, Timed(answer, 2, 0, (1,)))
    assert process.held == 1
    for _ in range(4):  # it is tick 2 now, as at the sender
        process.wake("tick")
    assert (process.held, process.out.deliveries) == (1, []), "5 ticks have passed since tick 1, not more"
    process.wake("tick")
    assert (process.held, process.out.deliveries) == (0, [answer])
    process.receive(0, Timed(Message("t", 0, 1), 1, 0, ()))
    assert process.out.deliveries == [answer], "it is late"
    assert process.given_up == 1


def test_a_late_message_is_discarded_and_its_successor_does_not_wait() -> None:
    process = member()
    for _ in range(7):
        process.wake("tick")
    process.receive(0, Timed(Message("t", 0, 1), 1, 0, ()))
    second = Message("t", 0, 2)
    process.receive(0, Timed(second, 6, 1, ()))
    assert process.out.deliveries == [second]


def test_a_message_is_never_older_than_what_it_depends_on() -> None:
    """Clocks differ after the horizon. If x, which follows y, were older, x would be given up before y."""
    process = member()
    process.receive(0, Timed(Message("t", 0, 1), 40, 0, ()))
    process.publish("t", b"")
    (packet, *_) = [packet for _, packet in process.out.sends]
    assert isinstance(packet, Timed)
    assert packet.sent >= 40


def test_a_message_names_its_predecessors_with_their_times() -> None:
    process = member()
    process.receive(0, Timed(Message("t", 0, 1), 0, 0, ()))
    process.wake("tick")
    first = process.publish("t", b"xy")
    process.wake("tick")
    process.publish("t", b"")
    packets = [packet for to, packet in process.out.sends if to == 0]
    assert [(packet.sent, packet.previous, packet.times) for packet in packets if isinstance(packet, Timed)] == [
        (1, 0, (0,)),
        (2, 1, ()),
    ]
    assert first.deps == ((0, 1),)
    assert process.size(packets[0]) == HEADER + GROUP + 2 * (NAME + TIME) + TIME + 2


def test_mistakes() -> None:
    process = member()
    with pytest.raises(UsageError, match="not a member"):
        process.publish("other", b"")
    with pytest.raises(UsageError, match="do not change"):
        process.subscribe("t")
    for packet in (Packet(), Timed(Message("other", 0, 1), 0, 0, ()), Timed(Message("t", 0, 1), 0, 0, (1,))):
        with pytest.raises(ProtocolError, match="not one of its protocol"):
            process.receive(0, packet)
