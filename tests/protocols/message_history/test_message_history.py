"""Message history: no message waits, order and completeness hold under loss, and what is stable is forgotten."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Message, Packet, ProtocolError, UsageError
from antecede.protocols.message_history import MessageHistory
from antecede.protocols.message_history.process import GROUP, HEADER, NAME, History, HistoryAck
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 8), st.integers(0, 9999), st.sampled_from([0.0, 0.1, 0.3]), st.sampled_from([0.0, 0.2]))
def test_everything_is_delivered_in_order_and_nothing_waits(
    nodes: int, seed: int, loss: float, duplication: float
) -> None:
    spec = RunSpec(
        protocol="message-history",
        nodes=nodes,
        seed=seed,
        network="heavy-tailed",
        workload="uniform:messages=3,window=400",
        faults=(f"loss:share={loss}", f"duplication:share={duplication}"),
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    report = audit(result.trace.rows(), rules=promised_rules(spec))
    assert report.ok, report
    assert report.deliveries == 3 * nodes * nodes
    assert result.metrics["waited_share"] == 0


def members(count: int) -> list[MessageHistory]:
    return [MessageHistory(node, {"t": range(count)}, ack_us=1, retry_us=10) for node in range(count)]


def test_a_packet_has_what_its_receiver_has_not_acknowledged() -> None:
    one, two, _ = members(3)
    first = one.publish("t", b"1")
    one.out.clear()
    one.receive(1, HistoryAck("t", ((0, 1),)))
    second = one.publish("t", b"2")
    assert one.out.sends == [(1, History((second,))), (2, History((first, second)))]
    two.receive(0, History((first, second)))
    assert two.out.deliveries == [first, second]
    assert one.size(History((first, second))) == HEADER + GROUP + 2 * (NAME + 1)


def test_a_stable_message_is_forgotten_and_one_that_is_not_is_repeated() -> None:
    one, *_ = members(3)
    first = one.publish("t", b"1")
    assert one.out.timers == [(10, "retry")]
    one.out.clear()
    one.receive(1, HistoryAck("t", ((0, 1),)))
    one.wake("retry")
    assert one.out.sends == [(2, History((first,)))]
    assert len(one.unfinished()) == 1
    one.out.clear()
    one.receive(2, HistoryAck("t", ((0, 1),)))
    one.wake("retry")
    assert (one.out.sends, one.out.timers, one.unfinished()) == ([], [], [])
    assert one._groups["t"].kept == {}


def test_a_sender_has_what_it_sends() -> None:
    """So it is not sent back to it."""
    one, two, three = members(3)
    question = one.publish("t", b"?")
    two.receive(0, History((question,)))
    two.out.clear()
    answer = two.publish("t", b"!")
    assert two.out.sends == [(0, History((answer,))), (2, History((question, answer)))]
    three.receive(1, History((question, answer)))
    assert three.out.deliveries == [question, answer]


def test_mistakes() -> None:
    node, *_ = members(2)
    with pytest.raises(UsageError, match="not a member"):
        node.publish("other", b"")
    with pytest.raises(UsageError, match="do not change"):
        node.subscribe("t")
    for packet in (Packet(), HistoryAck("other", ()), History((Message("other", 1, 1),))):
        with pytest.raises(ProtocolError, match="not one of its protocol"):
            node.receive(1, packet)
    with pytest.raises(ProtocolError, match=r"without 1\.1"):
        node.receive(1, History((Message("t", 1, 2),)))
