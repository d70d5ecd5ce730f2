"""SRPT against thesis 5.3 and 5.6: its tree and relays, the hop to the root, brokers; and what the thesis does not ask
of it, causal order while members come and go."""

import random
from collections import Counter
from collections.abc import Collection
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Packet, ProtocolError, UsageError
from antecede.overlay.shared_tree import BrokerTree, SubscriberTree
from antecede.overlay.vcube import VCube
from antecede.protocols.options import MakeProcess
from antecede.protocols.registry import options
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import Simulation
from antecede.sim.network import Network, PacketSwitched, constant, heavy_tailed
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS
from antecede.trace import Event, Recorder, Row

T = "t"


def maker(nodes: int, members: Collection[int], protocol: str = "srpt-s", **values: object) -> MakeProcess:
    chosen = options(protocol, values)
    return chosen.build_groups(nodes, {T: members})  # type: ignore[attr-defined]


def world(
    make: MakeProcess, nodes: int, members: Collection[int], network: Network | None = None
) -> tuple[Simulation, Recorder]:
    recorder = Recorder()
    tracer = Tracer(recorder)
    simulation = Simulation(make, range(nodes), network or PacketSwitched(constant(100 * TICKS)), [tracer])
    for node in members:
        tracer.changed(0, node, "subscribe", T)
    return simulation, recorder


def sent(recorder: Recorder) -> list[Row]:
    return [row for row in recorder.rows() if row.event is Event.SEND]


# -- 5.3: the tree ----------------------------------------------------------------------------------------------------


def test_figure_5_2_relays_between_subscribers() -> None:
    """Subscribers 0, 1, 3, 5, 6 under root 0: 2 and 4 are relays, and get what they do not want."""
    members = [0, 1, 3, 5, 6]
    simulation, recorder = world(maker(8, members, root=0), 8, members)
    simulation.publish(5, T, b"")
    simulation.run()
    down = {(row.node, row.peer) for row in sent(recorder) if row.source == 5 and row.node != 5}
    assert down == {(0, 1), (0, 2), (2, 3), (0, 4), (4, 5), (4, 6)}
    assert (5, 0) in {(row.node, row.peer) for row in sent(recorder)}, "the additional hop to the root"
    assert {row.node for row in recorder.rows() if row.event is Event.DELIVER} == set(members)


@given(st.data())
def test_relays_are_the_nodes_on_the_way_that_are_no_members(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(2, 40))
    root = data.draw(st.integers(0, nodes - 1))
    members = data.draw(st.sets(st.integers(0, nodes - 1), min_size=1))
    publisher = data.draw(st.sampled_from(sorted(members)))
    tree = VCube(nodes).tree(root)
    parent = {child: node for node, children in tree.items() for child in children}
    needed = set()
    for member in members:
        at = member
        while at != root:
            needed.add(at)
            at = parent[at]

    simulation, recorder = world(maker(nodes, members, root=root), nodes, members)
    simulation.publish(publisher, T, b"")
    simulation.run()
    posts = publisher != root
    carrying = [row for row in sent(recorder) if row.source == publisher]
    acks = [row for row in sent(recorder) if row.note == "ack"]
    assert {row.peer for row in carrying[posts:]} == needed
    assert len(carrying) - posts == len(acks) == len(needed)
    assert {row.node for row in recorder.rows() if row.event is Event.DELIVER} == members
    assert simulation.processes[root].held == 0


def test_paths_and_children_agree() -> None:
    for tree in (SubscriberTree(VCube(12), 5), BrokerTree(23, 8, 3)):
        for node in range(12):
            path = tree.path(node)
            assert path[0] == tree.root
            assert path[-1] == node
            assert all(child in tree.children(above) for above, child in pairwise(path))


def test_figure_5_6_counts_with_everyone_subscribed() -> None:
    """N − 1 edges of the tree, as many acknowledgements, one hop to the root; every mean latency one hop longer."""
    run = simulate(
        RunSpec(protocol="srpt-s", nodes=64, workload="one", network="peersim", options={"root": 0}, seed=3)
    ).metrics
    assert run["sent"] == {"post": 1, "pub": 63, "ack": 63}
    assert run["hops_mean"] == pytest.approx(3.984, abs=0.001)
    assert run["reception_latency"]["mean"] == pytest.approx(100 + 64 / 126 * (6 * 99 + 21), rel=0.01)  # type: ignore[index]


# -- 5.6.7: brokers ---------------------------------------------------------------------------------------------------


def test_brokers_are_a_tree_and_subscribers_hang_on_them_evenly() -> None:
    tree = BrokerTree(4096, 32, 0)
    below = Counter(tree.path(node)[-2] for node in range(32, 4096))
    assert set(below.values()) == {127}
    assert len(BrokerTree(4096, 256, 0).children(255)) == 15
    assert len(BrokerTree(4096, 2048, 0).children(2047)) == 1


def test_a_message_goes_to_the_root_broker_down_the_brokers_and_out() -> None:
    nodes, brokers = 32, 8
    members = range(brokers, nodes)
    simulation, recorder = world(maker(nodes, members, "srpt-b", brokers=brokers, root=0), nodes, members)
    simulation.publish(9, T, b"")
    simulation.run()
    links = [(row.node, row.peer) for row in sent(recorder) if row.source == 9]
    assert links[0] == (9, 0)
    assert sum(1 for node, to in links[1:] if to < brokers) == brokers - 1
    assert sorted((node, to) for node, to in links if to >= brokers) == sorted((m % brokers, m) for m in members)
    assert {row.node for row in recorder.rows() if row.event is Event.DELIVER} == set(members)


# -- causal order while members come and go ---------------------------------------------------------------------------


def churned(protocol: str, seed: int, **values: object) -> tuple[list[Row], Simulation, set[int], set[int]]:
    """Members join, leave, rejoin and publish on links that reorder everything; then, at rest, everybody speaks."""
    nodes, brokers = 16, 4
    rng = random.Random(seed)
    able = range(brokers if protocol == "srpt-b" else 0, nodes)
    founders = set(rng.sample(able, 5))
    staying = set(sorted(founders)[:2])
    network = PacketSwitched(heavy_tailed(random.Random(f"{seed}/net"), 100 * TICKS, 1.2), processing=TICKS)
    simulation, recorder = world(maker(nodes, founders, protocol, **values), nodes, founders, network)
    inside = set(founders)

    def act() -> None:
        node = rng.choice(able)
        if node in staying or rng.random() < 0.5:
            if node in inside:
                simulation.publish(node, T, b"")
        elif node in inside:
            inside.discard(node)
            simulation.unsubscribe(node, T)
        else:
            inside.add(node)
            simulation.subscribe(node, T)

    for _ in range(60):
        simulation.at(rng.randrange(1500 * TICKS), act)
    simulation.run()
    for node in sorted(inside):
        simulation.publish(node, T, b"last")
    simulation.run()
    return list(recorder.rows()), simulation, staying, inside


@pytest.mark.parametrize("protocol", ["srpt-s", "srpt-b"])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9))
def test_order_holds_and_nobody_is_blocked_while_members_change(protocol: str, seed: int) -> None:
    values: dict[str, object] = {"brokers": 4} if protocol == "srpt-b" else {}
    rows, simulation, staying, inside = churned(protocol, seed, **values)
    report = audit(rows)
    assert report.ok, report
    published = {(row.source, row.seq) for row in rows if row.event is Event.PUBLISH}
    last = {row.source: row.seq for row in rows if row.event is Event.PUBLISH}
    took: dict[int, set[tuple[int, int]]] = {}
    for row in rows:
        if row.event is Event.DELIVER:
            took.setdefault(row.node, set()).add((row.source, row.seq))
    for node in staying:
        assert took[node] == published, "a member that stays gets everything"
    for node in inside:
        assert {(source, last[source]) for source in inside} <= took[node], "a member at rest gets what comes then"
    assert all(process.held == 0 for node, process in simulation.processes.items() if node in inside)


def test_a_joiner_starts_where_the_root_stood() -> None:
    """Node 3 joins after two messages of 1, which it must neither get nor wait for."""
    simulation, recorder = world(maker(4, [0, 1], root=0), 4, [0, 1])
    simulation.publish(1, T, b"")
    simulation.publish(1, T, b"")
    simulation.run()
    simulation.subscribe(3, T)
    simulation.run()
    simulation.publish(1, T, b"")
    simulation.run()
    assert [(row.source, row.seq) for row in recorder.rows() if row.event is Event.DELIVER and row.node == 3] == [
        (1, 3)
    ]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_only_subscribers_publish() -> None:
    process = maker(4, [0])(2)
    with pytest.raises(UsageError, match="does not subscribe"):
        process.publish(T, b"")


def test_bad_options() -> None:
    with pytest.raises(UsageError, match="root 9"):
        maker(8, [0], root=9)
    with pytest.raises(UsageError, match="brokers 40"):
        maker(8, [0], "srpt-b", brokers=40)
    with pytest.raises(UsageError, match="root 5"):
        maker(8, [0], "srpt-b", brokers=4, root=5)


def test_foreign_packets_are_refused() -> None:
    class Foreign(Packet, frozen=True):
        pass

    with pytest.raises(ProtocolError, match="Foreign"):
        maker(4, [0])(2).receive(1, Foreign())


def test_a_broadcast_refuses_a_workload_with_subscribers() -> None:
    with pytest.raises(UsageError, match="is a broadcast"):
        simulate(RunSpec(protocol="causal-aggregation", nodes=8, workload="one:subscribers=0.5"))
