"""JEDI: FIFO links on a tree give causal order across topics, acknowledgements alone do not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Message, Packet, ProtocolError
from antecede.protocols.flooding import Jedi
from antecede.protocols.flooding.jedi import Acknowledge, Dispatch, Expect
from antecede.protocols.flooding.options import JediOptions
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules
from antecede.trace import Event, Row


def run(nodes: int, seed: int, workload: str, **options: object) -> tuple[RunSpec, list[Row]]:
    spec = RunSpec(
        protocol="jedi",
        nodes=nodes,
        seed=seed,
        network="heavy-tailed",
        workload=workload,
        faults=("duplication:share=0.2",) if options.get("fifo", True) else (),
        options=options,
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    assert result.metrics["still_held"] == 0
    return spec, list(result.trace.rows())


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(0, 9999),
    st.sampled_from(["uniform:messages=3,window=400", "overlapping:count=4,taken=2,messages=30,interval=20"]),
    st.integers(0, 4),
)
def test_order_holds_across_topics(nodes: int, seed: int, workload: str, clients: int) -> None:
    spec, rows = run(nodes, seed, workload, clients=clients)
    report = audit(rows, rules=promised_rules(spec), across_topics=True)
    assert report.ok, report


def test_over_links_that_reorder_acknowledgements_keep_the_order_of_a_source_and_no_more() -> None:
    violated = 0
    for seed in range(5):
        spec, rows = run(12, seed, "uniform:messages=3,window=400", fifo=False, clients=3)
        assert audit(rows, rules=promised_rules(spec), across_topics=True).ok
        violated += not audit(rows, rules=("causal",), across_topics=True).ok
    assert violated >= 3


def test_a_publisher_has_one_message_in_flight() -> None:
    """Between two publications of a node come all deliveries of the first."""
    _, rows = run(8, 1, "uniform:messages=4,window=100", clients=3)
    reached: dict[tuple[int, int], int] = {}
    for row in rows:
        if row.event is Event.DELIVER:
            reached[row.source, row.seq] = reached.get((row.source, row.seq), 0) + 1
        elif row.event is Event.PUBLISH and row.seq > 1:
            assert reached[row.source, row.seq - 1] == 8


def member(node: int) -> Jedi:
    made = JediOptions(clients=1).build_groups(4, {"t": range(4)})(node)
    assert isinstance(made, Jedi)
    return made


def test_acknowledgements_may_come_before_their_number() -> None:
    client = member(2)
    first = client.publish("t", b"1")
    assert client.publish("t", b"2") is None
    client.out.clear()
    for number in (1, 2, 3):
        client.receive(0, Acknowledge(number, "t", 2, 1))
    client.receive(0, Acknowledge(4, "t", 2, 9))  # not of the message in flight
    assert client.out.sends == []
    client.receive(0, Expect(5, "t", 1, 3))
    (to, sent), *_ = client.out.sends
    assert (to, sent.messages[0].seq) == (0, 2)
    assert first is not None
    assert client.state_bytes > 0


def test_mistakes() -> None:
    server = member(0)
    with pytest.raises(ProtocolError, match="not one of its protocol"):
        server.receive(1, Packet())
    with pytest.raises(ProtocolError, match="no such group"):
        server.receive(1, Dispatch(1, Message("other", 1, 1)))
