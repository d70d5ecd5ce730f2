"""Flooding over FIFO links: order holds without names of other messages, and with new links only if these are safe."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Packet, ProtocolError, UsageError
from antecede.protocols.options import PROMISES
from antecede.protocols.safe_links import SafeLinks
from antecede.protocols.safe_links.process import Ask, Changes, Flood, Ping, Pong
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules


def run(nodes: int, seed: int, network: str = "heavy-tailed", **options: object):
    spec = RunSpec(
        protocol="safe-links",
        nodes=nodes,
        seed=seed,
        network=network,
        workload="uniform:messages=2,window=800",
        options={"changes": 4, "every": 80.0, **options},
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    rows = list(result.trace.rows())
    report = audit(rows, rules=promised_rules(spec))
    assert report.ok, report
    return result, rows


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 10),
    st.integers(0, 9999),
    st.sampled_from(["heavy-tailed", "normal", "constant:delay=100"]),
    st.integers(0, 3),
)
def test_order_holds_while_links_change(nodes: int, seed: int, network: str, links: int) -> None:
    result, _ = run(nodes, seed, network, links=links)
    assert result.metrics["still_held"] == 0


def test_links_that_are_used_at_once_break_the_order() -> None:
    broken = [not audit(run(8, seed, ping=False)[1], rules=PROMISES).ok for seed in range(6)]
    assert sum(broken) >= 3, broken


def test_a_message_has_as_many_bytes_with_many_nodes_as_with_few() -> None:
    sizes = set()
    for nodes in (4, 12):
        _, rows = run(nodes, 1)
        sizes |= {row.bytes for row in rows if row.event.name == "SEND" and row.source >= 0}
    assert len(sizes) == 1


def member(node: int, links: list[int], ring: int = 1) -> SafeLinks:
    changes = Changes(ring=ring, times=1, every_us=10)
    return SafeLinks(node, frozenset({"t"}), random.Random(1), links, changes)


def test_a_new_link_carries_first_what_was_delivered_since_the_question() -> None:
    """0 asks 1, which passes the question on to 2. What 0 delivers meanwhile goes to 2 before anything later."""
    zero, one, two = member(0, [1]), member(1, [2]), member(2, [1])
    zero.wake("change")
    assert zero.out.sends == [(1, Ask(1, 1))]
    before, *_ = zero.out.sends
    zero.out.clear()
    first = zero.publish("t", b"first")
    assert zero.out.sends == [(1, Flood(2, first))], "the new link is not in use yet"
    one.receive(0, before[1])
    assert one.out.sends == [(2, Ping(1, 0, 1))]
    two.receive(1, Ping(1, 0, 1))
    assert two.out.sends == [(0, Pong(1))]
    zero.out.clear()
    zero.receive(2, Pong(1))
    assert zero.out.sends == [(2, Flood(1, first))]
    zero.out.clear()
    second = zero.publish("t", b"second")
    assert zero.out.sends == [(1, Flood(3, second)), (2, Flood(2, second))]


def test_packets_that_overtake_each_other_are_put_in_order() -> None:
    sender, receiver = member(0, [1]), member(1, [2])
    first, second = sender.publish("t", b"1"), sender.publish("t", b"2")
    receiver.receive(0, Flood(2, second))
    assert receiver.out.deliveries == []
    assert receiver.held == 1
    receiver.receive(0, Flood(1, first))
    receiver.receive(0, Flood(1, first))
    assert receiver.out.deliveries == [first, second]


def test_mistakes() -> None:
    node = member(0, [1])
    with pytest.raises(UsageError, match="not a member"):
        node.publish("other", b"")
    with pytest.raises(UsageError, match="do not change"):
        node.subscribe("t")
    with pytest.raises(ProtocolError, match="not one of its protocol"):
        node.receive(1, Packet())
