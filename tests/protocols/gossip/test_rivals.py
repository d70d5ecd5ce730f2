"""pbcast, lpbcast and pabcast against their papers: how they spread, what they keep, what they promise and what not."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Packet, ProtocolError, UsageError
from antecede.protocols.gossip.epidemic import Reply, Solicit
from antecede.protocols.gossip.lpbcast import Gossip, Lpbcast
from antecede.protocols.gossip.pabcast import Pabcast, Votes
from antecede.protocols.gossip.pbcast import Have, Pbcast
from antecede.protocols.gossip.rival_options import LpbcastOptions, PabcastOptions, PbcastOptions
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules

ROUND = "constant:delay=1"


def run(protocol: str, nodes: int, seed: int = 1, *, loss: float = 0.0, workload: str = "one", **options: object):
    spec = RunSpec(
        protocol=protocol,
        nodes=nodes,
        seed=seed,
        network=ROUND,
        workload=workload,
        faults=(f"loss:share={loss}",) if loss else (),
        options={"round": 1000.0, **options},
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    report = audit(result.trace.rows(), rules=promised_rules(spec))
    assert report.ok, report
    return result


def delivered_by(result) -> int:
    return len({row.node for row in result.trace.rows() if row.event.name == "DELIVER"})


def kinds(result) -> Counter[str]:
    return Counter(row.note for row in result.trace.rows() if row.event.name == "SEND")


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["pbcast", "lpbcast", "pabcast"]),
    st.integers(2, 40),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.05, 0.3]),
)
def test_what_they_promise_holds(protocol: str, nodes: int, seed: int, loss: float) -> None:
    result = run(protocol, nodes, seed, loss=loss, workload="uniform:messages=3")
    assert result.metrics["still_held"] == 0


def test_pbcast_needs_gossip_only_for_what_the_multicast_lost() -> None:
    """Without loss everybody has it at once, and nobody asks; with it, the missing are filled in by rounds."""
    calm = run("pbcast", 64)
    assert delivered_by(calm) == 64
    assert not any("solicit" in kind for kind in kinds(calm))
    lossy = run("pbcast", 64, loss=0.3)
    assert delivered_by(lossy) == 64
    assert lossy.metrics["delivery_latency"]["max"] > 1000  # type: ignore[index,operator]


def test_pbcast_delivers_a_source_in_order_and_gives_up_what_nobody_tells_of() -> None:
    rounds = PbcastOptions(round=1.0, young=3).rounds(4)
    member = Pbcast(1, rounds, random.Random(1), {"t": range(4)}, multicast=True)
    other = Pbcast(0, rounds, random.Random(1), {"t": range(4)}, multicast=True)
    first, second = other.publish("t", b"1"), other.publish("t", b"2")
    member.receive(0, Reply((second,)))
    assert member.out.deliveries == []
    assert member.held == 1
    for _ in range(3):
        member.wake("round")
    assert member.out.deliveries == [second], "the first will not come any more"
    member.receive(0, Reply((first,)))
    assert member.out.deliveries == [second], "and if it does, it is late"


def test_pbcast_asks_for_what_it_lacks_and_gets_it() -> None:
    rounds = PbcastOptions(round=1.0).rounds(2)
    has, lacks = (Pbcast(node, rounds, random.Random(1), {"t": range(2)}, multicast=False) for node in (0, 1))
    message = has.publish("t", b"x")
    has.out.clear()
    has.wake("round")
    ((to, told),) = has.out.sends
    assert (to, told) == (1, Have((message.id,)))
    lacks.receive(0, told)
    ((_, asked),) = lacks.out.sends
    assert asked == Solicit((message.id,))
    has.out.clear()
    has.receive(1, asked)
    assert has.out.sends == [(1, Reply((message,)))]
    lacks.receive(0, Reply((message,)))
    assert lacks.out.deliveries == [message]


def test_lpbcast_views_stay_small_and_change() -> None:
    make = LpbcastOptions(view=5, round=1000.0).build_with_rng(64, {"topic": range(64)}, random.Random)
    member = make(0)
    assert isinstance(member, Lpbcast)
    before = set(member._view["topic"])
    for sender in range(1, 30):
        member.receive(sender, Gossip("topic", (), (), (sender, (sender * 7) % 64)))
    assert len(member._view["topic"]) == len(member._around["topic"]) == 5
    assert set(member._view["topic"]) != before
    assert 0 not in member._view["topic"]


def test_lpbcast_reaches_everybody_though_nobody_knows_everybody() -> None:
    """In nearly every run; how often exactly is Figure 9's question."""
    reached = [delivered_by(run("lpbcast", 64, seed, view=16)) for seed in range(10)]
    assert reached.count(64) >= 9, reached


def test_a_full_event_travels_once_and_its_name_for_longer() -> None:
    result = run("lpbcast", 32)
    full = Counter(row.node for row in result.trace.rows() if row.event.name == "SEND" and row.source >= 0)
    assert Counter(full.values())[3] >= 24, "each node pushes it in one round, to three; some are asked for it"
    told = [row for row in result.trace.rows() if row.event.name == "SEND" and row.source < 0]
    assert len(told) > 3 * 32


def one_order(result) -> bool:
    return audit(result.trace.rows(), rules=("total",)).ok


def test_pabcast_delivers_everywhere_in_one_order() -> None:
    for seed in range(10):
        result = run("pabcast", 8, seed, loss=0.05, workload="uniform:messages=3")
        assert one_order(result), seed
        assert sum(row.event.name == "DELIVER" for row in result.trace.rows()) == 8 * 8 * 3


def test_pabcast_takes_its_chance_where_patience_is_short() -> None:
    """A ballot that is closed before all votes are there may be closed differently: the audit counts such runs."""
    broken = [
        not one_order(run("pabcast", 8, seed, loss=0.3, workload="uniform:messages=3", patience=1))
        for seed in range(10)
    ]
    assert any(broken)


def test_pabcast_goes_on_without_a_member_that_stopped() -> None:
    spec = RunSpec(
        protocol="pabcast",
        nodes=8,
        seed=1,
        network=ROUND,
        workload="one:messages=3,interval=4000,never=7",
        faults=("crash:node=7,at=500",),
        options={"round": 1000.0},
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    rows = list(result.trace.rows())
    assert audit(rows, rules=("total", *promised_rules(spec))).ok
    assert sum(row.event.name == "DELIVER" for row in rows) == 7 * 3


def test_pabcast_counts_votes() -> None:
    """Three members: two have the first message, one the second. The first is next; the second follows in the next
    ballot."""
    rounds = PabcastOptions(round=1.0).rounds(3)
    one, two, three = (Pabcast(node, rounds, random.Random(1), {"t": range(3)}, patience=9) for node in range(3))
    first, second = one.publish("t", b"1"), three.publish("t", b"2")
    two.receive(0, Votes("t", (first,), 1, b"\x01", ((first.id, b"\x01"),), ()))
    assert two.out.deliveries == [], "the vote of the third is missing"
    two.receive(2, Votes("t", (second,), 1, b"\x04", ((second.id, b"\x04"),), ()))
    assert two.out.deliveries == [first]
    assert two.held == 1
    three.receive(0, Votes("t", (first,), 1, b"\x03", ((first.id, b"\x03"),), ()))
    assert three.out.deliveries == [first], "the same votes, whatever came first"
    one.receive(1, Votes("t", (second,), 2, b"\x02", ((second.id, b"\x02"),), ((1, (first.id,)),)))
    assert one.out.deliveries == [first], "it takes over the ballot that another closed"
    one.receive(2, Votes("t", (), 2, b"\x06", ((second.id, b"\x06"),), ()))
    assert one.out.deliveries == [first, second]


def test_mistakes() -> None:
    process = PbcastOptions().build_with_rng(4, {"t": [0, 1]}, random.Random)(2)
    with pytest.raises(UsageError, match="not a member"):
        process.publish("t", b"")
    with pytest.raises(UsageError, match="do not change"):
        process.subscribe("t")
    with pytest.raises(ProtocolError, match="not of its protocol"):
        process.receive(1, Packet())
