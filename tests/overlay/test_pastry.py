"""Pastry's routes: they end at the node closest to the key, from everywhere, soon, whoever is down."""

from math import ceil, log
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.overlay.pastry import NAME_BITS, Pastry, distance, name_of

keys = st.integers(0, (1 << NAME_BITS) - 1)


def route(ring: Pastry, node: int, key: int, down: frozenset[int]) -> list[int]:
    path = [node]
    while (hop := ring.next_hop(path[-1], key, down)) is not None:
        assert hop not in path, f"{path} goes round"
        path.append(hop)
    return path


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 150), keys, st.integers(0, 1000), st.sets(st.integers(0, 149)), st.sampled_from([2, 4, 16]))
def test_every_route_ends_at_the_root(nodes: int, key: int, start: int, down: set[int], leaves: int) -> None:
    ring = Pastry(nodes, digit_bits=2, leaves=leaves)
    gone = frozenset(down & set(range(nodes)))
    up = [node for node in range(nodes) if node not in gone]
    if not up:
        return
    path = route(ring, up[start % len(up)], key, gone)
    assert not gone & set(path)
    closest = min(distance(name_of(f"node {node}"), key) for node in up)
    assert distance(name_of(f"node {path[-1]}"), key) == closest
    assert path[-1] == ring.root(key, gone)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 150), keys, st.integers(0, 149), st.sets(st.integers(0, 149)), st.randoms(use_true_random=False))
def test_any_detour_ahead_ends_at_the_root(nodes: int, key: int, start: int, down: set[int], rng: Random) -> None:
    """A hop may be any node ahead; it is known to its predecessor, up, and never met before."""
    ring = Pastry(nodes, digit_bits=2, leaves=4)
    path = [start % nodes]
    gone = frozenset(down & set(range(nodes))) - {path[0]}
    while (hop := ring.next_hop(path[-1], key, gone)) is not None:
        ahead = ring.ahead(path[-1], key, gone)
        assert {hop, *ahead} <= set(ring.neighbours(path[-1], gone)) - gone
        assert not ahead or hop in ahead
        path.append(rng.choice(ahead or [hop]))
    assert len(set(path)) == len(path)
    assert path[-1] == ring.root(key, gone)


def test_names_and_keys_may_be_chosen() -> None:
    ring = Pastry(3, names=[30, 10, 20], keys={"here": 19})
    assert ring.root(ring.key_of("here")) == 2
    assert ring.key_of("elsewhere") == name_of("elsewhere")
    assert [ring.root(key) for key in (9, 21, 29)] == [1, 2, 0]


@given(st.integers(1, 150), st.integers(0, 149), st.integers(0, 149))
def test_from_node_to_node(nodes: int, sender: int, to: int) -> None:
    """Straight to whom one knows; a node's next hop is somebody it knows."""
    ring = Pastry(nodes, leaves=4)
    sender, to = sender % nodes, to % nodes
    route = ring.route(sender, to)
    assert (*route, to)[-1] == to
    assert len(set(route)) == len(route)
    assert (not route) == (sender == to)
    if route:
        assert ring.route(sender, route[0]) == (route[0],)


def test_routes_are_short() -> None:
    """Expected: log_16 N hops, and the last through the leaves."""
    ring = Pastry(2000)
    lengths = [len(route(ring, node, name_of(f"topic {node}"), frozenset())) - 1 for node in range(0, 2000, 7)]
    assert sum(lengths) / len(lengths) < log(2000, 16) + 1
    assert max(lengths) <= ceil(log(2000, 16)) + 2


def test_roots_are_spread() -> None:
    ring = Pastry(64)
    roots = [ring.root(name_of(f"topic {number}")) for number in range(2000)]
    assert len(set(roots)) > 55


def test_nobody_left() -> None:
    with pytest.raises(UsageError, match="every node is down"):
        Pastry(2).root(0, frozenset({0, 1}))
    with pytest.raises(UsageError, match="digit_bits"):
        Pastry(2, digit_bits=5)
