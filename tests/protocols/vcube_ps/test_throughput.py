"""Many messages in flight instead of one a round trip: one publisher, 64 subscribers, 100 u.t. a hop."""

import pytest

from antecede.sim import RunSpec, simulate
from antecede.sim.units import TICKS
from antecede.trace import Event

MESSAGES = 64


def time_for_all(mode: str) -> float:
    """Until the last of the messages, all asked for at once, is delivered everywhere."""
    spec = RunSpec(
        protocol="vcube-ps",
        nodes=64,
        network="constant:delay=100,t_pc=0,t_t=1",
        workload=f"one:messages={MESSAGES}",
        options={"mode": mode},
    )
    trace = simulate(spec, trace=True, measure=False).trace
    assert trace is not None
    deliveries = [row.time_us for row in trace.rows() if row.event is Event.DELIVER]
    assert len(deliveries) == 64 * MESSAGES
    return max(deliveries) / TICKS


def test_pipelined_against_one_message_a_round_trip() -> None:
    """Stop and wait takes a way down a tree of six levels and back a message, 1200 u.t. and what its queues add.

    Pipelined, the first message takes the way down, and the others follow as fast as the publisher's wire, which
    carries six packets a message: 64 messages in 999 u.t. instead of 77,922, 78 times as fast.
    """
    faithful, pipelined = time_for_all("faithful"), time_for_all("pipelined")
    assert faithful / MESSAGES == pytest.approx(1200, rel=0.02)
    assert pipelined < 600 + 6 * MESSAGES + 6 * 6
    assert faithful / pipelined > 70
