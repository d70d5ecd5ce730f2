"""Views and the trees they give, against the overlay that builds whole trees (`overlay.vcube`)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.overlay.members import mask_of, nodes_of
from antecede.overlay.vcube import VCube
from antecede.protocols.vcube_ps.view import View

SIZES = st.sampled_from([1, 2, 3, 5, 8, 13, 16, 32])


@given(SIZES, st.randoms(use_true_random=False))
def test_trees_are_vcubes_trees_of_the_members(nodes: int, rng: random.Random) -> None:
    """Each node's view gives the children the overlay gives, for whatever root, after any history of changes."""
    dimension = (nodes - 1).bit_length()
    founders = {node for node in range(nodes) if rng.random() < 0.5}
    views = [View(node, dimension, mask_of(founders)) for node in range(nodes)]
    registers = {node: int(node in founders) for node in range(nodes)}
    down: set[int] = set()
    for _ in range(rng.randrange(20)):
        node = rng.randrange(nodes)
        if rng.random() < 0.6:
            registers[node] += 1
            for view in views:
                assert view.learn(node, registers[node])
        elif rng.random() < 0.5:
            down.add(node)
            for view in views:
                view.hide(node)
        else:
            down.discard(node)
            for view in views:
                view.show(node)
    members = {node for node, register in registers.items() if register % 2}
    cube = VCube(nodes, set(range(nodes)) - (members - down))
    for root in sorted(members - down):
        for node, children in cube.tree(root).items():
            parent = cube.parent(node, root)
            height = dimension if parent is None else (parent ^ node).bit_length() - 1
            assert views[node].near[height] == children
            assert [child for child in range(nodes) if views[node].passes(root, child)] == sorted(children)
    assert all(nodes_of(view.members) == sorted(members) for view in views)
    assert all(view.present == mask_of(members - down) for view in views)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 5))), st.randoms(use_true_random=False))
def test_views_merge_in_any_order_to_the_same(entries: list[tuple[int, int]], rng: random.Random) -> None:
    one, other = View(0, 3, 0b1010), View(5, 3, 0b1010)
    for node, register in entries:
        one.learn(node, register)
    shuffled = entries * 2
    rng.shuffle(shuffled)
    for node, register in shuffled:
        other.learn(node, register)
    assert dict(one.moved()) == dict(other.moved())
    assert one.digest == other.digest
    assert one.members == other.members


def test_a_lower_register_is_no_news() -> None:
    view = View(0, 3)
    assert view.learn(4, 3)
    assert not view.learn(4, 2)
    assert not view.learn(4, 3)
    assert 4 in view
    assert view.register(4) == 3


def test_digests_tell_views_apart() -> None:
    """Of all small histories no two different ones have the same digest."""
    seen: dict[int, tuple[tuple[int, int], ...]] = {}
    for a in range(6):
        for b in range(6):
            for c in range(6):
                view = View(0, 3)
                for node, register in ((1, a), (2, b), (7, c)):
                    view.learn(node, register)
                moved = tuple(sorted(view.moved()))
                assert seen.setdefault(view.digest, moved) == moved


@pytest.mark.parametrize("nodes", [8, 64])
def test_with_everybody_there_children_are_neighbours(nodes: int) -> None:
    dimension = (nodes - 1).bit_length()
    for node in range(nodes):
        view = View(node, dimension, (1 << nodes) - 1)
        assert view.near == [tuple(node ^ (1 << c) for c in range(h)) for h in range(dimension + 1)]
