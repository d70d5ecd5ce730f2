"""VCube's trees against their definition, on random cubes, and what their computation may cost."""

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.overlay.trees import PerSourceTrees, SingleTree, Trees
from antecede.overlay.vcube import VCube

few = settings(max_examples=30, deadline=None, derandomize=True)
many = settings(max_examples=150, deadline=None, derandomize=True)
search = settings(max_examples=1500, deadline=None)

# -- the definition, as printed and as slow ---------------------------------------------------------------------------


def printed_cluster(i: int, s: int) -> list[int]:
    """c(i, s) = i ⊕ 2^(s−1) ‖ c(i ⊕ 2^(s−1), k) for k = 1 … s−1 (thesis 2.4)."""
    first = i ^ 2 ** (s - 1)
    return [first] + [node for k in range(1, s) for node in printed_cluster(first, k)]


def printed_first_child(cube: VCube, i: int, s: int) -> int | None:
    return next((node for node in printed_cluster(i, s) if cube.takes_part(node)), None)


def printed_children(cube: VCube, i: int, r: int, h: int) -> list[int]:
    """Algorithm 1, with line 3 corrected to 1 ≤ s ≤ h."""
    if i == r:
        found = [printed_first_child(cube, i, s) for s in range(1, h + 1)]
        return [child for child in found if child is not None]
    s = next(s for s in range(1, cube.dimension + 1) if i in printed_cluster(r, s))
    child = printed_first_child(cube, r, s)
    assert child is not None, "i takes part, so its cluster is not empty"
    return printed_children(cube, i, child, s - 1)


# -- random cubes -----------------------------------------------------------------------------------------------------


@st.composite
def small_cubes(draw: st.DrawFn) -> VCube:
    """Any absent set of up to 33 nodes; at least one takes part."""
    nodes = draw(st.integers(1, 33))
    survivor = draw(st.integers(0, nodes - 1))
    absent = draw(st.sets(st.integers(0, nodes - 1)))
    return VCube(nodes, absent - {survivor})


@st.composite
def large_cubes(draw: st.DrawFn) -> VCube:
    """Up to 4096 nodes, from nobody absent to nearly everybody."""
    nodes = draw(st.one_of(st.integers(1, 4096), st.sampled_from([1024, 1025, 4095, 4096])))
    share = draw(st.sampled_from([0.0, 0.01, 0.3, 0.7, 0.99]))
    rng = random.Random(draw(st.integers(0, 2**32)))
    survivor = rng.randrange(nodes)
    return VCube(nodes, {node for node in range(nodes) if node != survivor and rng.random() < share})


def participants(cube: VCube) -> list[int]:
    return [node for node in range(cube.nodes) if cube.takes_part(node)]


def pick(cube: VCube, number: int) -> int:
    """A participant, chosen by any number."""
    there = participants(cube)
    return there[number % len(there)]


def levels(nodes: int) -> int:
    """⌈log₂ nodes⌉, by doubling."""
    d = 0
    while 2**d < nodes:
        d += 1
    return d


# -- a tree reaches everybody once, in few hops -----------------------------------------------------------------------


def check_spanning(cube: VCube, root: int) -> dict[int, tuple[int, ...]]:
    """Walks the tree, and gives it: one that runs in circles must fail a test, not hang it."""
    tree: dict[int, tuple[int, ...]] = {}
    hops = {root: 0}
    level = [root]
    while level:
        below = []
        for node in level:
            tree[node] = cube.children(node, root)
            for child in tree[node]:
                assert child not in hops, f"{child} is reached twice"
                hops[child] = hops[node] + 1
                below.append(child)
        level = below
    assert sorted(hops) == participants(cube)
    assert max(hops.values()) <= levels(cube.nodes)
    return tree


@many
@given(small_cubes(), st.integers(0, 2**16))
def test_every_participant_is_reached_exactly_once(cube: VCube, number: int) -> None:
    check_spanning(cube, pick(cube, number))


@few
@given(large_cubes(), st.integers(0, 2**16))
def test_every_participant_is_reached_exactly_once_in_large_cubes(cube: VCube, number: int) -> None:
    check_spanning(cube, pick(cube, number))


@pytest.mark.slow
@search
@given(large_cubes(), st.integers(0, 2**16))
def test_every_participant_is_reached_exactly_once_long_search(cube: VCube, number: int) -> None:
    check_spanning(cube, pick(cube, number))


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 6, 7, 9, 12, 100, 129, 1000])
def test_any_number_of_nodes(nodes: int) -> None:
    cube = VCube(nodes)
    assert cube.dimension == levels(nodes)
    for root in {0, nodes // 2, nodes - 1}:
        check_spanning(cube, root)


@many
@given(small_cubes(), st.integers(0, 2**16))
def test_tree_is_the_children_of_everybody_breadth_first(cube: VCube, number: int) -> None:
    root = pick(cube, number)
    walked = check_spanning(cube, root)
    tree = cube.tree(root)
    assert tree == walked
    depths = [cube.depth(node, root) or 0 for node in tree]
    assert depths == sorted(depths)


# -- children, parent, is_parent, depth and the printed algorithm agree ------------------------------------------------


@many
@given(small_cubes(), st.integers(0, 2**16))
def test_children_are_those_of_algorithm_1(cube: VCube, number: int) -> None:
    root = pick(cube, number)
    for i in participants(cube):
        assert list(cube.children(i, root)) == printed_children(cube, i, root, cube.dimension)


@many
@given(small_cubes(), st.integers(0, 2**16))
def test_parent_is_parent_and_depth_agree_with_children(cube: VCube, number: int) -> None:
    root = pick(cube, number)
    parent_of: dict[int, int] = {}
    for i in participants(cube):
        for child in cube.children(i, root):
            parent_of[child] = i
    for k in range(cube.nodes):
        assert cube.parent(k, root) == parent_of.get(k)
        for i in range(cube.nodes):
            assert cube.is_parent(i, k, root) == (parent_of.get(k) == i), (i, k)
        hops, at = 0, k
        while at in parent_of:
            hops, at = hops + 1, parent_of[at]
        assert cube.depth(k, root) == (hops if at == root else None)


@few
@given(large_cubes(), st.integers(0, 2**16), st.lists(st.integers(0, 2**16), min_size=20, max_size=20))
def test_parent_and_children_agree_in_large_cubes(cube: VCube, number: int, others: list[int]) -> None:
    root = pick(cube, number)
    for other in others:
        i = pick(cube, other)
        for child in cube.children(i, root):
            assert cube.parent(child, root) == i
            assert cube.is_parent(i, child, root)
            depth = cube.depth(i, root)
            assert depth is not None
            assert cube.depth(child, root) == depth + 1


@many
@given(small_cubes(), st.integers(0, 2**16))
def test_who_takes_no_part_is_in_no_tree(cube: VCube, number: int) -> None:
    root = pick(cube, number)
    for node in cube.absent:
        assert cube.children(node, root) == ()
        assert cube.parent(node, root) is None
        assert cube.depth(node, root) is None


@many
@given(small_cubes())
def test_an_absent_root_sends_to_everybody_and_gets_nothing(cube: VCube) -> None:
    for root in cube.absent:
        reached = list(cube.children(root, root))
        for node in reached:  # grows while we walk it
            assert len(reached) <= cube.nodes, "the message runs in circles"
            reached.extend(cube.children(node, root))
        assert sorted(reached) == participants(cube)


# -- the shape of a tree ----------------------------------------------------------------------------------------------


@many
@given(small_cubes(), st.integers(0, 2**16))
def test_what_a_node_may_serve_shrinks_on_the_way_down(cube: VCube, number: int) -> None:
    """Thesis 2.4.1: one who was found in cluster s has at most s − 1 children, the root at most d."""
    root = pick(cube, number)
    room = {root: cube.dimension}
    for node, children in check_spanning(cube, root).items():
        assert len(children) <= room[node]
        for child in children:
            room[child] = cube.cluster(node, child) - 1
            assert room[child] < room[node]


@pytest.mark.parametrize("d", range(8))
def test_with_everybody_present_the_number_of_children_decreases(d: int) -> None:
    cube = VCube(1 << d)
    for root in range(cube.nodes):
        for node, children in check_spanning(cube, root).items():
            for child in children:
                assert len(cube.children(child, root)) < len(children), (root, node, child)


@many
@given(small_cubes())
def test_trees_that_share_an_edge_share_everything_below_it(cube: VCube) -> None:
    """What lets a node keep a message back on an edge without asking what lies behind."""
    below: dict[tuple[int, int], tuple[int, ...]] = {}
    for root in participants(cube):
        for node, children in check_spanning(cube, root).items():
            for child in children:
                served = cube.children(child, root)
                assert below.setdefault((node, child), served) == served


# -- closed forms -----------------------------------------------------------------------------------------------------


def by_search(nodes: int) -> VCube:
    """A complete cube that searches its participants all the same."""
    cube = VCube(nodes)
    assert cube._present is None, "a complete cube needs no list of participants"
    cube._present = (1 << nodes) - 1
    return cube


@pytest.mark.parametrize("d", range(6))
def test_closed_form_is_the_search_among_participants(d: int) -> None:
    closed, walked = VCube(1 << d), by_search(1 << d)
    for i in range(1 << d):
        for s in range(1, d + 1):
            assert closed.first_child(i, s) == walked.first_child(i, s)
        for root in range(1 << d):
            assert closed.children(i, root) == walked.children(i, root)
            assert closed.parent(i, root) == walked.parent(i, root)
            assert closed.depth(i, root) == walked.depth(i, root) == (i ^ root).bit_count()
            for k in range(1 << d):
                assert closed.is_parent(i, k, root) == walked.is_parent(i, k, root), (i, k, root)


@many
@given(st.integers(1, 16), st.data())
def test_closed_form_is_the_search_among_participants_in_large_cubes(d: int, data: st.DataObject) -> None:
    closed, walked = VCube(1 << d), by_search(1 << min(d, 12))
    node = st.integers(0, walked.nodes - 1)
    i, root = data.draw(node), data.draw(node)
    if d <= 12:
        assert closed.children(i, root) == walked.children(i, root)
        assert closed.parent(i, root) == walked.parent(i, root)
    # The closed form: i is the parent of i ⊕ 2^c in the tree of r exactly when r ≡ i (mod 2^(c+1)).
    for c in range(d):
        assert closed.is_parent(i, i ^ (1 << c), root) == (root % 2 ** (c + 1) == i % 2 ** (c + 1))


@pytest.mark.parametrize("d", range(1, 8))
def test_clusters_are_the_printed_recursion(d: int) -> None:
    for i in range(1 << d):
        for s in range(1, d + 1):
            assert list(VCube.cluster_members(i, s)) == printed_cluster(i, s)


@pytest.mark.parametrize("d", range(1, 8))
def test_clusters_of_a_node_share_out_the_others(d: int) -> None:
    for i in range(1 << d):
        clusters = [list(VCube.cluster_members(i, s)) for s in range(1, d + 1)]
        assert sorted(node for cluster in clusters for node in cluster) == [j for j in range(1 << d) if j != i]
        for s, cluster in enumerate(clusters, 1):
            assert {VCube.cluster(i, j) for j in cluster} == {s}
            assert {VCube.cluster(j, i) for j in cluster} == {s}
        assert VCube.cluster(i, i) == 0


# -- what an answer costs ---------------------------------------------------------------------------------------------


class CountingMask(int):
    """Participants as bits that count how often they are shifted to look at a part of them."""

    looks = 0

    def __rshift__(self, by: int) -> "CountingMask":
        CountingMask.looks += 1
        return CountingMask(super().__rshift__(by))

    def __and__(self, other: int) -> "CountingMask":
        return CountingMask(super().__and__(other))


class Looks:
    """How often the participants of a cube were looked at."""

    def __init__(self, cube: VCube) -> None:
        assert cube._present is not None
        cube._present = CountingMask(cube._present)
        self.reset()

    def reset(self) -> None:
        CountingMask.looks = 0

    @property
    def count(self) -> int:
        return CountingMask.looks


@pytest.mark.parametrize("pair", [(0, 65535), (0, 32768), (12345, 12346), (1, 40000)])
def test_asking_for_a_child_builds_no_list_of_a_cluster(pair: tuple[int, int]) -> None:
    """65,534 of 65,536 nodes absent: a scan for the first participant of the last cluster would take 32,768 looks."""
    near, far = pair
    d = 16
    cube = VCube(1 << d, absent=set(range(1 << d)) - set(pair))
    looks = Looks(cube)
    s = cube.cluster(near, far)

    assert cube.first_child(near, s) == far
    assert looks.count <= s + 1  # is its first node there, is any, then one look a bit

    looks.reset()
    assert cube.children(near, root=near) == (far,)
    assert looks.count <= d * (d + 3) // 2

    looks.reset()
    assert cube.parent(far, root=near) == near
    assert cube.depth(far, root=near) == 1
    assert cube.is_parent(near, far, root=near)
    assert looks.count <= 3 * (d + 1)


@few
@given(large_cubes(), st.integers(0, 2**16), st.integers(0, 2**16))
def test_no_answer_costs_more_than_the_square_of_the_dimension(cube: VCube, number: int, other: int) -> None:
    if cube._present is None:
        return
    root, i, d = pick(cube, number), pick(cube, other), cube.dimension
    looks = Looks(cube)
    for ask in (cube.parent, cube.depth):
        looks.reset()
        ask(i, root)
        assert looks.count <= d * (d + 3) // 2
    looks.reset()
    cube.children(i, root)
    assert looks.count <= d * (d + 3)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [-1, 0, 2**16 + 1])
def test_a_cube_has_a_size(nodes: int) -> None:
    with pytest.raises(UsageError, match="out of range"):
        VCube(nodes)


@pytest.mark.parametrize("absent", [-1, 5, 8])
def test_only_nodes_can_be_absent(absent: int) -> None:
    with pytest.raises(UsageError, match="no such node"):
        VCube(5, absent={absent})


def test_a_tree_needs_a_root_that_takes_part() -> None:
    with pytest.raises(UsageError, match="does not take part"):
        VCube(8, absent={3}).tree(3)
    with pytest.raises(UsageError, match="does not take part"):
        VCube(5).tree(5)


# -- what protocols ask: next_hops, carries, returns ------------------------------------------------------------------


def copies(trees: Trees, source: int, everybody: Iterable[int]) -> tuple[dict[int, int], set[tuple[int, int]]]:
    """How often each node gets a message of `source`, and the edges it took."""
    got = dict.fromkeys(everybody, 0)
    took: set[tuple[int, int]] = set()
    moving = [(source, hop) for hop in trees.next_hops(source, source, None)]
    for sender, node in moving:  # grows while we walk it
        assert len(moving) <= 4 * len(got), "the message runs in circles"
        took.add((sender, node))
        got[node] += 1
        moving.extend((node, hop) for hop in trees.next_hops(node, source, sender))
    return got, took


@many
@given(small_cubes(), st.integers(0, 2**16))
def test_per_source_trees_next_hops_and_carries_agree(cube: VCube, number: int) -> None:
    trees, source = PerSourceTrees(cube), pick(cube, number)
    there = participants(cube)
    got, took = copies(trees, source, there)
    assert got == {node: int(node != source) for node in there}
    for i in range(cube.nodes):
        for k in range(cube.nodes):
            assert trees.carries(i, k, source) == ((i, k) in took), (i, k)
    assert not trees.returns(source)


@many
@given(small_cubes(), st.integers(0, 2**16), st.integers(0, 2**16))
@example(VCube(8), 0, 0)
def test_single_tree_next_hops_and_carries_agree(cube: VCube, number: int, other: int) -> None:
    root, source = pick(cube, number), pick(cube, other)
    trees = SingleTree(cube, root)
    there = participants(cube)
    got, took = copies(trees, source, there)
    # The root passes a copy to everybody else, and gets one from a source that is not itself.
    assert got == {node: int(node != root or source != root) for node in there}
    assert trees.returns(source) == (source != root)
    for i in range(cube.nodes):
        for k in range(cube.nodes):
            assert trees.carries(i, k, source) == ((i, k) in took), (i, k)


def test_single_tree_a_source_outside_the_group_sends_to_the_root_and_gets_nothing_back() -> None:
    trees = SingleTree(VCube(8, absent={5}), root=0)
    assert trees.next_hops(5, 5, None) == (0,)
    assert trees.carries(5, 0, 5)
    assert not trees.returns(5)


@many
@given(small_cubes(), st.integers(0, 2**16))
def test_a_path_of_a_tree_takes_ever_lower_bits(cube: VCube, number: int) -> None:
    """Why two messages that meet on an edge stay together: below it, only lower bits still differ."""
    root = pick(cube, number)
    for node in participants(cube):
        path = [node]
        while (parent := cube.parent(path[-1], root)) is not None:
            path.append(parent)
        assert path[-1] == root
        steps = [cube.cluster(a, b) for a, b in pairwise(path)]
        assert steps == sorted(set(steps))
