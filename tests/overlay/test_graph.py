"""Base graphs and their extension against the definitions, on random trees; and what is refused, with its reason."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.overlay.extended import Extended, Surroundings
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree, from_text, line, random_tree, star

many = settings(max_examples=120, deadline=None, derandomize=True)


@st.composite
def trees(draw: st.DrawFn, least: int = 1) -> BaseGraph:
    nodes = draw(st.integers(least, 24))
    shape = draw(st.sampled_from(["line", "star", "binary", "random"]))
    if shape == "random":
        return random_tree(nodes, random.Random(draw(st.integers(0, 2**32))).randrange)
    return {"line": line, "star": star, "binary": complete_tree}[shape](nodes)


@st.composite
def extended(draw: st.DrawFn) -> tuple[Extended, Surroundings]:
    base = draw(trees(least=4))
    graph = Extended(base, draw(st.integers(0, 2)))
    return graph, graph.around(draw(st.integers(0, base.nodes - 1)))


def by_flooding(graph: BaseGraph, node: int) -> dict[int, int]:
    """Distances, the plain way: round after round over all edges."""
    found = {node: 0}
    for far in range(1, graph.nodes):
        for a, b in graph.edges:
            for one, other in ((a, b), (b, a)):
                if found.get(one) == far - 1 and other not in found:
                    found[other] = far
    return found


# -- the base graph ---------------------------------------------------------------------------------------------------


@many
@given(trees())
def test_a_base_graph_is_a_tree(graph: BaseGraph) -> None:
    assert len(graph.edges) == graph.nodes - 1
    assert graph.degree == max((len(graph.neighbours(node)) for node in range(graph.nodes)), default=0)
    for a, b in graph.edges:
        assert b in graph.neighbours(a)
        assert a in graph.neighbours(b)


@many
@given(trees(), st.integers(0, 100), st.integers(0, 100), st.integers(0, 8))
def test_paths_and_distances(graph: BaseGraph, one: int, other: int, radius: int) -> None:
    a, b = one % graph.nodes, other % graph.nodes
    path = graph.path(a, b)
    assert (path[0], path[-1]) == (a, b)
    assert len(set(path)) == len(path)
    assert all(y in graph.neighbours(x) for x, y in pairwise(path))
    flood = by_flooding(graph, a)
    assert graph.distance(a, b) == len(path) - 1 == flood[b]
    assert graph.path(b, a) == tuple(reversed(path))
    assert graph.distances(a, radius) == {node: far for node, far in flood.items() if far <= radius}
    if a != b:
        assert graph.next_hop(a, b) == path[1]
    assert graph.diameter == max(max(by_flooding(graph, node).values()) for node in range(graph.nodes))


@pytest.mark.parametrize(("nodes", "degree", "diameter"), [(511, 3, 16), (63, 3, 10), (40, 4, 6), (10, 2, 9)])
def test_complete_trees_have_their_degree(nodes: int, degree: int, diameter: int) -> None:
    tree = complete_tree(nodes, degree)
    assert tree.degree == degree
    assert tree.diameter == diameter
    assert {len(tree.neighbours(node)) for node in range(1, nodes)} == {1, degree}


def test_edges_from_a_text() -> None:
    text = "0-1, 0-2  # the root\n\n2 3; 3-4\n"
    assert from_text(text).edges == ((0, 1), (0, 2), (2, 3), (3, 4))
    assert from_text("", 1).nodes == 1


@many
@given(trees(least=2))
def test_a_graph_written_down_is_read_again(graph: BaseGraph) -> None:
    text = "\n".join(f"{b} {a}" for a, b in graph.edges)
    assert from_text(text).edges == graph.edges


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nodes", "why"),
    [
        ("0-1,1-2,2-0", None, "closes the cycle 2-1-0-2"),
        ("0-1,1-2,2-3,3-4,4-1", None, "closes the cycle 4-3-2-1-4"),
        ("0-1,1-0", None, "closes the cycle 1-0-1"),
        ("0-1,2-3", None, "node 2 is not connected with node 0"),
        ("0-1", 3, "node 2 is not connected with node 0"),
        ("1-1", None, "joins a node to itself"),
        ("0-1,1-7", 4, "there is no node 7"),
        ("0-1\n1-2-3", None, "line 2 is not an edge"),
        ("0-x", None, "line 1 is not an edge"),
        ("0-99999999999999999999", None, "line 1 is not an edge"),
        ("# nothing", None, "lists no edge"),
    ],
)
def test_what_is_not_a_tree_is_refused(text: str, nodes: int | None, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        from_text(text, nodes)


@many
@given(trees(least=3), st.integers(0, 100), st.integers(0, 100))
def test_any_further_edge_closes_a_cycle(graph: BaseGraph, one: int, other: int) -> None:
    a, b = one % graph.nodes, other % graph.nodes
    if a != b:
        with pytest.raises(UsageError, match="closes the cycle"):
            BaseGraph(graph.nodes, [*graph.edges, (a, b)])


@many
@given(trees(least=2), st.integers(0, 100))
def test_any_edge_less_disconnects(graph: BaseGraph, number: int) -> None:
    edges = list(graph.edges)
    del edges[number % len(edges)]
    with pytest.raises(UsageError, match="is not connected with"):
        BaseGraph(graph.nodes, edges)


def test_f_larger_than_the_graph_can_bear() -> None:
    with pytest.raises(UsageError, match="would leave fewer than two"):
        Extended(line(4), 3)
    with pytest.raises(UsageError, match=r"the neighbourhood of node 0 has .* links"):
        Extended(star(1000), 1)
    with pytest.raises(UsageError, match="negative"):
        Extended(line(4), -1)
    with pytest.raises(UsageError, match="choose 2 or more"):
        complete_tree(4, 1)
    assert Extended(line(4), 2).hop == 3
    assert Extended(star(100), 1).window == 3


# -- the extended graph -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("f", "radii"), [(0, (1, 1, 1)), (1, (2, 2, 3)), (2, (3, 4, 5)), (3, (4, 6, 7))])
def test_radii(f: int, radii: tuple[int, int, int]) -> None:
    graph = Extended(line(20), f)
    assert (graph.hop, graph.number, graph.window) == radii


@many
@given(extended())
def test_surroundings_are_the_graph_nearby(pair: tuple[Extended, Surroundings]) -> None:
    graph, around = pair
    me, base = around.me, graph.base
    everybody = by_flooding(base, me)
    assert around.distance == {node: far for node, far in everybody.items() if far <= graph.window + graph.hop}
    assert set(around.linked) == {node for node, far in everybody.items() if 0 < far <= graph.hop}
    assert set(around.numbered) == {node for node, far in everybody.items() if 0 < far <= graph.number}
    assert around.safe == {node for node, far in everybody.items() if far <= graph.window}
    for a in around.distance:
        for b in around.distance:
            assert around.path(a, b) == base.path(a, b)
            assert around.apart(a, b) == base.distance(a, b)
        if a != me:
            assert around.first_step(a) == base.next_hop(me, a)
        if around.distance[a] <= graph.number:
            assert set(around.behind(a)) == {n for n in base.neighbours(a) if everybody[n] > everybody[a]}
    # Everybody agrees who is linked, and who numbers for whom.
    assert all(me in graph.around(node).linked for node in around.linked)
    assert all(me in graph.around(node).numbered for node in around.numbered)


@many
@given(extended(), st.sets(st.integers(0, 23)))
def test_active_connections(pair: tuple[Extended, Surroundings], suspected: set[int]) -> None:
    """III-C: the first non-faulted hop on the path to everybody in reach."""
    graph, around = pair
    active = around.active(suspected)
    assert len(set(active)) == len(active)
    assert not suspected.intersection(active)
    assert around.active(()) == graph.base.neighbours(around.me)
    for node in active:  # everybody between us is suspected: there is nobody nearer to send to
        assert node in around.linked
        assert suspected.issuperset(graph.base.path(around.me, node)[1:-1])
    for node in around.linked:
        if node not in suspected:
            assert set(active).intersection(graph.base.path(around.me, node))


@many
@given(extended(), st.integers(0, 100))
def test_targets_are_away_from_where_a_message_comes_from(pair: tuple[Extended, Surroundings], number: int) -> None:
    graph, around = pair
    upstream = around.neighbours[number % len(around.neighbours)]
    targets = around.targets(graph.hop, upstream, lambda node: True)
    for node in around.linked:
        assert (node in targets) == (graph.base.next_hop(around.me, node) != upstream)
    assert set(around.targets(graph.hop, None, lambda node: node % 2 == 0)) == {n for n in around.linked if n % 2 == 0}


# -- safe paths -------------------------------------------------------------------------------------------------------


@many
@given(trees(least=4), st.integers(1, 2), st.data())
def test_two_safe_copies_share_a_node(base: BaseGraph, f: int, data: st.DataObject) -> None:
    """What the whole algorithm rests on (III-G): two safe ways have a node in common that numbered both."""
    graph = Extended(base, f) if f <= base.nodes - 2 else Extended(base, 1)
    source = data.draw(st.integers(0, base.nodes - 1))
    to = data.draw(st.integers(0, base.nodes - 1).filter(lambda node: node != source))
    way = base.path(source, to)
    copies = []
    for _ in range(2):
        sender = data.draw(st.sampled_from([node for node in way[:-1] if base.distance(node, to) <= graph.hop]))
        numbered = data.draw(st.sets(st.sampled_from(way[:-1])))
        around = graph.around(sender)
        origin = next(node for node in way if node in around.distance)
        copies.append((around.is_safe(origin, origin == source, to, numbered), numbered))
    (safe_one, one), (safe_other, other) = copies
    if safe_one and safe_other:
        assert one.intersection(other).intersection(way[-graph.window - 1 : -1])


def test_the_line_of_figure_3() -> None:
    """f = 1, nodes 0 … 6 in a line: 0 publishes, and its number is good for nodes up to 3."""
    around = Extended(line(7), 1).around(2)
    assert around.is_safe(0, True, 3, [0])  # the source is in the window: its number is enough …
    assert not around.is_safe(0, True, 3, [1, 2])  # … and nothing else is
    assert around.is_safe(0, True, 4, [1, 2])  # beyond it, two of the three before the receiver
    assert not around.is_safe(0, True, 4, [0, 2])
    assert around.before(0, 4) == (0, 1, 2, 3)


def test_a_way_back_beyond_what_is_known_is_not_safe() -> None:
    around = Extended(line(12), 1).around(6)
    assert around.is_safe(2, False, 5, [3, 4])
    assert not around.is_safe(5, False, 4, [3, 4])
