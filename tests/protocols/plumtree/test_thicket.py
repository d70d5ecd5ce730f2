"""Thicket, rule by rule, and under random schedules."""

import random

import pytest

from antecede.core import Message
from antecede.protocols.plumtree.options import ThicketOptions
from antecede.protocols.plumtree.packets import Gossip, Graft, IHave, Prune
from antecede.protocols.plumtree.process import PlumtreeNode
from antecede.protocols.plumtree.thicket import Thicket
from antecede.search.plumtree import ThicketRun

TOPIC = "t"


def member(links: list[int]) -> tuple[PlumtreeNode, Thicket]:
    """Node 0 with these links, two trees, and up to two links for a tree that it begins."""
    options = ThicketOptions(order="none", active=5, trees=2, fanout=2, announce=0.0)
    node = options.build_with_rng(20, {TOPIC: range(20)}, random.Random)(0)
    assert isinstance(node, PlumtreeNode)
    node.start()
    thicket = node._trees[TOPIC]
    assert isinstance(thicket, Thicket)
    thicket.found(links, ())
    node.out.clear()
    return node, thicket


def gossip(seq: int, source: int = 5) -> Gossip:
    return Gossip(TOPIC, Message(TOPIC, source, seq), 1)


def test_a_node_is_interior_in_the_first_tree_and_a_leaf_in_the_next() -> None:
    node, thicket = member([1, 2, 3, 4])
    node.receive(1, gossip(1))
    forwarded = [to for to, packet in node.out.sends if isinstance(packet, Gossip)]
    assert len(forwarded) == 2
    assert thicket.interior() == (1,)
    node.out.clear()
    node.receive(2, gossip(2))
    assert [type(packet) for _, packet in node.out.sends] == [IHave] * 3
    assert thicket._eager(0) == [2]
    assert {packet.interior for _, packet in node.out.sends if isinstance(packet, IHave)} == {(1,)}


def test_links_are_pruned_and_grafted_in_their_tree_alone() -> None:
    node, thicket = member([1, 2, 3])
    node.receive(1, gossip(1))
    node.receive(2, gossip(2))
    node.out.clear()
    eager = thicket._eager(1)
    other = next(peer for peer in (2, 3) if peer in eager)
    node.receive(other, gossip(1))
    assert node.out.sends == [(other, Prune(TOPIC, 1))]
    assert other not in thicket._eager(1)
    assert thicket._eager(0) == [2]
    node.receive(other, Graft(TOPIC, (5, 1), 1))
    assert other in thicket._eager(1)
    node.receive(other, Prune(TOPIC, 1))
    assert other not in thicket._eager(1)


def test_an_announcer_that_forwards_in_no_other_tree_is_asked_first() -> None:
    node, _ = member([1, 2, 3])
    node.receive(1, IHave(TOPIC, ((5, 2, 0),), (1,)))
    node.receive(2, IHave(TOPIC, ((5, 2, 0),), (0,)))
    node.out.clear()
    node.wake(("missing", TOPIC, 5, 2))
    assert node.out.sends == [(2, Graft(TOPIC, (5, 2), 0))]


def test_a_leaf_that_publishes_uses_one_link() -> None:
    node, thicket = member([1, 2, 3, 4])
    node.publish(TOPIC, b"1")
    assert thicket.interior() == (1,)
    node.out.clear()
    node.publish(TOPIC, b"2")
    assert len([to for to, packet in node.out.sends if isinstance(packet, Gossip)]) == 1
    assert thicket.interior() == (1,)


@pytest.mark.parametrize("seed", range(15))
def test_promises_hold(seed: int) -> None:
    verdict = ThicketRun.search(seed)
    assert verdict.ok, verdict.words


@pytest.mark.slow
def test_promises_hold_in_many_runs() -> None:
    for seed in range(1000):
        verdict = ThicketRun.search(seed)
        assert verdict.ok, f"seed {seed}: {verdict.words}"
