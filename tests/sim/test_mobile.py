"""Nodes that move and take the cells around them."""

import math
import random
from itertools import pairwise

import pytest

from antecede.audit import audit
from antecede.core.areas import cell_of, cells_touched, topic_of
from antecede.sim import RunSpec, simulate
from antecede.sim.mobile import Mobile
from antecede.sim.networks import Square
from antecede.sim.paths import Path
from antecede.sim.units import TICKS
from antecede.trace import Event


def test_a_node_moves_at_its_speed_and_stays_in_the_square() -> None:
    path = Path(1, 3, speed=0.05)
    points = [path.at(10.0 * step) for step in range(2000)]
    steps = [math.dist(a, b) for a, b in pairwise(points)]
    assert max(steps) < 0.0005 + 1e-9
    assert sum(steps) > 0.95 * 0.05 * 20  # it turns at waypoints, which shortens a few steps
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in points)
    assert Path(1, 3, speed=0.05).at(5000.0) == path.at(5000.0)
    assert Path(1, 3, speed=0.0).at(9999.0) == points[0]


def test_the_first_members_are_those_near_and_level_0_is_for_all() -> None:
    workload = Mobile(level=2, radius=0.2)
    members = workload.members(12, random.Random(1))
    for node in range(12):
        near = {topic_of(cell) for cell in cells_touched(*workload.path(node).at(0), 0.2, 2)}
        assert {topic for topic, nodes in members.items() if node in nodes} == near
    assert Mobile(level=0).members(5, random.Random(1)) == {"area": [0, 1, 2, 3, 4]}


def test_subscriptions_follow_the_nodes_and_order_holds_across_cells() -> None:
    spec = RunSpec(protocol="vcube-ps", nodes=12, seed=2, workload="mobile:level=2,speed=0.1,messages=60,paths=2")
    trace = simulate(spec, trace=True, measure=False).trace
    assert trace is not None
    rows = list(trace.rows())
    report = audit(rows, across_topics=True)
    assert report.ok, report
    workload = Mobile(level=2, speed=0.1, paths=2)
    taken: dict[int, set[str]] = {node: set() for node in range(12)}
    moves = 0
    for row in rows:
        if row.event is Event.SUBSCRIBE:
            moves += row.time_us > 0
            taken[row.node].add(row.topic)
        elif row.event is Event.UNSUBSCRIBE:
            taken[row.node].discard(row.topic)
        elif row.event is Event.PUBLISH:
            at = workload.path(row.node).at(row.time_us / TICKS)
            assert row.topic == topic_of(cell_of(*at, 2))
    assert moves > 10
    # Long after the last move every node takes what it touched at its last step.
    assert all(1 <= len(topics) <= 9 for topics in taken.values())


def test_a_packet_takes_time_by_distance() -> None:
    network = Square(t_pc=0, t_t=0, paths=3, least=5, side=100).build(4, "any seed")
    one, other = (Path(3, node, 0.0).at(0) for node in (1, 2))
    assert network.arrivals(0, 1, 2, 50)[0] == pytest.approx((5 + 100 * math.dist(one, other)) * TICKS, abs=1)
