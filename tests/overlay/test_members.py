"""Sets of nodes as bits, held against sets."""

from hypothesis import given
from hypothesis import strategies as st

from antecede.overlay.members import block_of, mask_of, nearest, nodes_of


@given(st.sets(st.integers(0, 200)))
def test_nodes_and_masks_are_the_same_thing(nodes: set[int]) -> None:
    assert nodes_of(mask_of(nodes)) == sorted(nodes)


@given(st.integers(0, 6), st.data())
def test_nearest_is_the_least_in_xor(width: int, data: st.DataObject) -> None:
    target = data.draw(st.integers(0, 255))
    members = data.draw(st.sets(st.integers(0, 255)))
    near = [node for node in members if node >> width == target >> width]
    assert nearest(mask_of(members), target, width) == min(near, key=lambda node: node ^ target, default=-1)


@given(st.integers(0, 6), st.integers(0, 255), st.sets(st.integers(0, 255)))
def test_a_block_holds_the_nodes_that_agree_above_its_width(width: int, target: int, members: set[int]) -> None:
    first = target >> width << width
    found = [first + node for node in nodes_of(block_of(mask_of(members), target, width))]
    assert found == sorted(node for node in members if node >> width == target >> width)
