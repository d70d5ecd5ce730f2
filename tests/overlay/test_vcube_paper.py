"""VCube against the papers, in their order: every table, figure and worked example about clusters and trees.

Section and figure numbers are the thesis' (de Araujo 2019); ICPP'18 repeats most of them (its Figures 3, 4 and 5). The
text of the papers is the source, the drawings are not in it: what a test says is what a sentence there says.
"""

import pytest

from antecede.overlay.trees import PerSourceTrees, SingleTree
from antecede.overlay.vcube import VCube

EVERYBODY = range(8)


def all_but(*participants: int) -> VCube:
    """Eight nodes of which only `participants` take part."""
    return VCube(8, absent=set(EVERYBODY) - set(participants))


def children_up_to(cube: VCube, i: int, height: int) -> set[int]:
    """CHILDREN as thesis 5.5.1 calls it: the first participants of i's clusters 1 … height."""
    found = {cube.first_child(i, s) for s in range(1, height + 1)}
    return {child for child in found if child is not None}


def edges(cube: VCube, root: int) -> dict[int, set[int]]:
    """A tree as the figures draw it: inner nodes and their children."""
    found: dict[int, set[int]] = {}
    reached = [root]
    for node in reached:  # grows while we walk it
        assert len(reached) <= cube.nodes, "this is no tree"
        children = cube.children(node, root)
        reached += children
        if children:
            found[node] = set(children)
    assert cube.tree(root) == {node: cube.children(node, root) for node in reached}
    return found


# -- 2.4 VCube ------------------------------------------------------------------------------------------------------

FIGURE_2_6 = """
s  c(0,s)   c(1,s)   c(2,s)   c(3,s)   c(4,s)   c(5,s)   c(6,s)   c(7,s)
1  1        0        3        2        5        4        7        6
2  2,3      3,2      0,1      1,0      6,7      7,6      4,5      5,4
3  4,5,6,7  5,4,7,6  6,7,4,5  7,6,5,4  0,1,2,3  1,0,3,2  2,3,0,1  3,2,1,0
"""


def test_figure_2_6_table_of_clusters() -> None:
    _, *rows = FIGURE_2_6.strip().splitlines()
    for row in rows:
        s, *cells = row.split()
        for i, cell in enumerate(cells):
            printed = [int(node) for node in cell.split(",")]
            assert list(VCube.cluster_members(i, int(s))) == printed, f"c({i},{s})"


def test_figure_2_6_is_a_cube_of_three_dimensions() -> None:
    assert VCube(8).dimension == 3


def test_section_2_4_node_0_tests_the_first_of_each_cluster() -> None:
    cube = VCube(8)
    assert [cube.first_child(0, s) for s in (1, 2, 3)] == [1, 2, 4]


# -- 2.4.1 Spanning trees over VCube --------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "s"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 3), (7, 3)])
def test_section_2_4_1_cluster(k: int, s: int) -> None:
    assert VCube.cluster(0, k) == s
    assert VCube.cluster(k, 0) == s  # symmetric


@pytest.mark.parametrize(("j", "s", "child"), [(0, 1, 1), (1, 2, 3), (1, 3, 5), (7, 2, 5), (4, 1, 5)])
def test_section_2_4_1_first_child(j: int, s: int, child: int) -> None:
    assert VCube(8).first_child(j, s) == child


@pytest.mark.parametrize(("j", "s", "child"), [(1, 3, 4), (7, 2, 4), (4, 1, None)])
def test_section_2_4_1_first_child_if_node_5_fails(j: int, s: int, child: int | None) -> None:
    assert VCube(8, absent={5}).first_child(j, s) == child


def test_figure_2_7_children_of_node_4_in_the_tree_of_node_2() -> None:
    """CHILDREN(2, 3) → CHILDREN(6, 2) → CHILDREN(4, 1) = {5}: the path is 2, 6, 4."""
    cube = VCube(8)
    assert cube.children(4, root=2) == (5,)
    assert cube.parent(4, root=2) == 6
    assert cube.parent(6, root=2) == 2
    assert cube.depth(4, root=2) == 2


def test_algorithm_1_line_3_includes_the_first_cluster() -> None:
    """Printed `1 < s ≤ h`; the text's own example needs `1 ≤ s ≤ h`."""
    assert VCube.cluster(0, 1) == 1
    assert 1 in VCube(8).children(0, root=0)


def test_figure_2_8_a_tree_of_node_0_without_failures() -> None:
    cube = VCube(8)
    assert edges(cube, root=0) == {0: {1, 2, 4}, 2: {3}, 4: {5, 6}, 6: {7}}
    for leaf in (1, 3, 5, 7):
        assert cube.children(leaf, root=0) == ()


def test_figure_2_8_b_tree_of_node_0_with_2_4_and_6_faulty() -> None:
    cube = VCube(8, absent={2, 4, 6})
    assert edges(cube, root=0) == {0: {1, 3, 5}, 5: {7}}
    assert cube.children(3, root=0) == ()


def test_figure_2_8_c_tree_of_node_2_without_failures() -> None:
    assert edges(VCube(8), root=2) == {2: {3, 0, 6}, 0: {1}, 6: {7, 4}, 4: {5}}


def test_section_2_4_1_a_complete_tree_is_binomial() -> None:
    """Of a binomial tree with 2^d nodes, C(d, k) lie k hops from the root."""
    cube = VCube(16)
    for root in range(16):
        depths = [cube.depth(i, root) for i in range(16)]
        assert [depths.count(k) for k in range(5)] == [1, 4, 6, 4, 1]


# -- 4 Causal aggregation -------------------------------------------------------------------------------------------


def test_figure_4_2_trees_of_nodes_0_2_and_1() -> None:
    cube = VCube(8)
    assert edges(cube, root=0) == {0: {1, 2, 4}, 2: {3}, 4: {5, 6}, 6: {7}}  # (b)
    assert edges(cube, root=2) == {2: {3, 0, 6}, 0: {1}, 6: {7, 4}, 4: {5}}  # (c)
    assert edges(cube, root=1) == {1: {0, 3, 5}, 3: {2}, 5: {4, 7}, 7: {6}}  # (d)


def test_figure_4_2_what_node_4_knows_of_its_edges() -> None:
    cube, node_4 = VCube(8), 4
    assert set(cube.children(node_4, root=0)) == {5, 6}
    # Node 5 is its child in m0's and in m2's trees: m0 waits for m2 on that edge.
    assert cube.is_parent(node_4, 5, root=0)
    assert cube.is_parent(node_4, 5, root=2)
    # Node 6 is not a common child: m0 leaves at once.
    assert not cube.is_parent(node_4, 6, root=1)
    assert not cube.is_parent(node_4, 6, root=2)
    # It does not wait for m1 on the edge to 5; in m1's tree, 5 is the parent of 4.
    assert not cube.is_parent(node_4, 5, root=1)
    assert cube.parent(node_4, root=1) == 5


def test_section_4_3_every_message_crosses_n_minus_1_links() -> None:
    cube = VCube(8)
    for root in EVERYBODY:
        assert sum(map(len, edges(cube, root).values())) == 7


def test_section_4_5_6_a_single_tree_starts_at_node_0() -> None:
    """Whoever publishes, the root sends it down its own tree, which is Figure 2.8(a)."""
    trees = SingleTree(VCube(8), root=0)
    assert trees.next_hops(5, source=5, sender=None) == (0,)
    assert set(trees.next_hops(0, source=5, sender=5)) == {1, 2, 4}
    assert set(trees.next_hops(4, source=5, sender=0)) == {5, 6}
    assert trees.next_hops(5, source=5, sender=4) == ()
    assert trees.returns(5)
    assert not trees.returns(0)


# -- 5 VCube-PS -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", range(1, 13))
def test_section_5_2_two_to_the_d_nodes_make_d_clusters(d: int) -> None:
    cube = VCube(1 << d)
    assert cube.dimension == d
    assert len(cube.children(0, root=0)) == d


SUBSCRIBERS_5_2 = (0, 1, 3, 5, 6)


def test_figure_5_2_a_vcube_ps_uses_subscribers_only() -> None:
    assert edges(all_but(*SUBSCRIBERS_5_2), root=0) == {0: {1, 3, 5}, 5: {6}}


def test_figure_5_2_a_srpt_needs_nodes_2_and_4_as_relays() -> None:
    """On the paths of the whole cube from node 0 to the subscribers lie two that are not subscribers."""
    cube = VCube(8)
    on_a_path = set()
    for subscriber in SUBSCRIBERS_5_2:
        node: int | None = subscriber
        while node is not None:
            on_a_path.add(node)
            node = cube.parent(node, root=0)
    assert on_a_path - set(SUBSCRIBERS_5_2) == {2, 4}


@pytest.mark.parametrize("publisher", SUBSCRIBERS_5_2)
def test_figure_5_2_b_publishing_without_relays_whoever_publishes(publisher: int) -> None:
    trees = PerSourceTrees(all_but(*SUBSCRIBERS_5_2))
    received, level = [], [publisher]
    while level:
        level = [hop for node in level for hop in trees.next_hops(node, publisher, None)]
        received += level
    assert sorted([*received, publisher]) == sorted(SUBSCRIBERS_5_2)


def test_section_5_5_1_children_of_all_nodes() -> None:
    cube = VCube(8)
    assert children_up_to(cube, 0, 3) == {1, 2, 4}
    assert children_up_to(cube, 0, 2) == {1, 2}
    assert children_up_to(cube, 4, 2) == {5, 6}


def test_section_5_5_1_children_of_a_topic_joined_by_0_3_and_4() -> None:
    cube = all_but(0, 3, 4)
    assert children_up_to(cube, 0, 3) == {3, 4}
    assert children_up_to(cube, 4, 2) == set()
    assert edges(cube, root=0) == {0: {3, 4}}


def test_figure_5_4_left_node_0_publishes_to_everybody() -> None:
    cube = VCube(8)
    assert children_up_to(cube, 0, 3) == {1, 2, 4}
    assert children_up_to(cube, 1, 0) == set()
    assert children_up_to(cube, 2, 1) == {3}
    assert children_up_to(cube, 3, 0) == set()
    assert children_up_to(cube, 4, 2) == {5, 6}
    assert edges(cube, root=0) == {0: {1, 2, 4}, 2: {3}, 4: {5, 6}, 6: {7}}


def test_figure_5_4_right_node_2_publishes_to_0_2_3_5_and_7() -> None:
    cube = all_but(0, 2, 3, 5, 7)
    assert children_up_to(cube, 2, 3) == {3, 0, 7}
    assert next(iter(cube.cluster_members(2, 3))) == 6  # the first of the cluster, and not subscribed
    assert list(cube.cluster_members(7, 2)) == [5, 4]
    assert children_up_to(cube, 7, 2) == {5}
    assert list(cube.cluster_members(5, 1)) == [4]
    assert edges(cube, root=2) == {2: {3, 0, 7}, 7: {5}}
    for leaf in (3, 0, 5):
        assert cube.children(leaf, root=2) == ()


def test_figure_5_5_acknowledgements_climb_the_tree_of_all_nodes() -> None:
    """SUB goes to everybody, so its acknowledgements climb the complete tree of the subscriber, node 0."""
    cube = VCube(8)
    assert [cube.parent(node, root=0) for node in EVERYBODY] == [None, 0, 0, 2, 0, 4, 4, 6]
