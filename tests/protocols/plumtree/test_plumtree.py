"""HyParView's views and Plumtree's tree, rule by rule, without a driver."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, Packet, ProtocolError, UsageError
from antecede.protocols.plumtree.options import PlumtreeOptions, links_of
from antecede.protocols.plumtree.packets import (
    Disconnect,
    ForwardJoin,
    Gossip,
    Graft,
    IHave,
    Join,
    Neighbour,
    Prune,
    Refuse,
    Shuffle,
    ShuffleReply,
    Welcome,
)
from antecede.protocols.plumtree.process import PlumtreeNode
from antecede.protocols.plumtree.tree import Plumtree
from antecede.sim import RunSpec, simulate

TOPIC = "t"


def member(linked: list[int], known: tuple[int, ...] = (), *, order: str = "none", **options: object) -> PlumtreeNode:
    """Node 0 with these views. Nodes 0 … 19 are founders."""
    chosen = PlumtreeOptions(order=order, active=3, announce=0.0, **options)  # type: ignore[arg-type]
    node = chosen.build_with_rng(20, {TOPIC: range(20)}, random.Random)(0)
    assert isinstance(node, PlumtreeNode)
    node.start()
    tree_of(node).active, tree_of(node).passive = list(linked), list(known)
    node.out.clear()
    return node


def tree_of(node: PlumtreeNode) -> Plumtree:
    return node._trees[TOPIC]


def sent(node: PlumtreeNode) -> list[tuple[int, Packet]]:
    found = node.out.sends.copy()
    node.out.clear()
    return found


def message(source: int = 5, seq: int = 1, deps: tuple[tuple[int, int], ...] = (), clock: int = 1) -> Message:
    return Message(TOPIC, source, seq, deps, b"", clock=clock)


# -- Plumtree ---------------------------------------------------------------------------------------------------------


def test_a_message_goes_in_full_over_eager_links_and_by_name_over_lazy_ones() -> None:
    node = member([1, 2, 3])
    node.receive(2, Prune(TOPIC))
    node.receive(1, Gossip(TOPIC, message(), 1))
    assert sent(node) == [(3, Gossip(TOPIC, message(), 2)), (2, IHave(TOPIC, ((5, 1, 1),)))]


def test_a_second_copy_prunes_its_link_but_not_a_repetition_of_the_first() -> None:
    node = member([1, 2, 3])
    node.receive(1, Gossip(TOPIC, message(), 1))
    sent(node)
    node.receive(1, Gossip(TOPIC, message(), 1))
    assert sent(node) == []
    node.receive(2, Gossip(TOPIC, message(), 1))
    assert sent(node) == [(2, Prune(TOPIC))]
    assert tree_of(node).lazy == {2}
    assert node.children(TOPIC) == (1, 3)


def test_an_announced_message_that_does_not_come_is_asked_for_at_each_announcer() -> None:
    node = member([1, 2, 3])
    tree_of(node).lazy |= {1, 2}
    node.receive(1, IHave(TOPIC, ((5, 1, 1),)))
    node.receive(2, IHave(TOPIC, ((5, 1, 1),)))
    ((_, timer),) = node.out.timers
    node.wake(timer)
    assert sent(node) == [(1, Graft(TOPIC, (5, 1)))]
    assert tree_of(node).lazy == {2}, "the link is part of the tree now"
    node.wake(timer)
    assert sent(node) == [(2, Graft(TOPIC, (5, 1)))]
    node.wake(timer)
    assert (sent(node), node.unfinished()) == ([], []), "no node has announced it any more"


def test_a_graft_is_answered_with_the_message_and_makes_the_link_eager() -> None:
    node = member([1, 2, 3])
    node.receive(1, Gossip(TOPIC, message(), 1))
    tree_of(node).lazy.add(2)
    sent(node)
    node.receive(2, Graft(TOPIC, (5, 1)))
    assert sent(node) == [(2, Gossip(TOPIC, message(), 2))]
    assert tree_of(node).lazy == set()


def test_a_much_shorter_way_replaces_a_link_of_the_tree() -> None:
    node = member([1, 2, 3], threshold=3)
    tree_of(node).lazy.add(2)
    node.receive(2, IHave(TOPIC, ((5, 1, 1),)))
    sent(node)
    node.receive(1, Gossip(TOPIC, message(), 5))
    assert [one for one in sent(node) if isinstance(one[1], Graft | Prune)] == [
        (2, Graft(TOPIC, None)),
        (1, Prune(TOPIC)),
    ]
    assert tree_of(node).lazy == {1}


def test_what_a_held_message_misses_is_asked_for_and_given_up_in_the_end() -> None:
    node = member([1], order="causal", attempts=2)
    late = message(6, 1, ((5, 1),), clock=2)
    node.receive(1, Gossip(TOPIC, late, 1))
    assert (node.out.deliveries, node.held) == ([], 1)
    timer = ("missing", TOPIC, 5, 1)
    assert timer in [armed for _, armed in node.out.timers]
    sent(node)
    for _ in range(3):
        node.wake(timer)
        assert sent(node) == [(1, Graft(TOPIC, (5, 1)))]
    node.wake(timer)
    assert node.out.deliveries == [late]
    node.out.clear()
    node.receive(1, Gossip(TOPIC, message(5, 1, clock=1), 1))
    assert node.out.deliveries == [], "it is late now"
    assert node.given_up == 1


# -- HyParView --------------------------------------------------------------------------------------------------------


def test_a_contact_links_to_a_joiner_and_sends_it_on_walks() -> None:
    node = member([1, 2])
    node.receive(9, Join(TOPIC))
    assert sent(node) == [(9, Welcome(TOPIC)), (1, ForwardJoin(TOPIC, 9, 6)), (2, ForwardJoin(TOPIC, 9, 6))]
    assert tree_of(node).active == [1, 2, 9]


def test_a_full_view_drops_a_member_for_a_joiner_and_tells_it() -> None:
    node = member([1, 2, 3])
    node.receive(9, Join(TOPIC))
    ((dropped, _),) = [one for one in sent(node) if one[1] == Disconnect(TOPIC, False)]
    assert dropped in tree_of(node).passive
    assert sorted([dropped, *tree_of(node).active]) == [1, 2, 3, 9]


def test_a_walk_is_remembered_half_way_and_ends_with_a_request() -> None:
    node = member([1, 2])
    node.receive(1, ForwardJoin(TOPIC, 9, 3))
    assert sent(node) == [(2, ForwardJoin(TOPIC, 9, 2))]
    assert tree_of(node).passive == [9]
    node.receive(1, ForwardJoin(TOPIC, 9, 0))
    assert sent(node) == [(9, Neighbour(TOPIC, False))]


def test_a_request_of_high_priority_is_never_refused() -> None:
    node = member([1, 2, 3])
    node.receive(9, Neighbour(TOPIC, False))
    assert sent(node) == [(9, Refuse(TOPIC, True))]
    node.receive(9, Neighbour(TOPIC, True))
    assert (9, Welcome(TOPIC)) in sent(node)
    assert 9 in tree_of(node).active


def test_a_lost_link_is_mended_from_the_passive_view() -> None:
    node = member([1, 2, 3], (7, 8))
    node.peer_down(2)
    ((first, request),) = sent(node)
    assert request == Neighbour(TOPIC, False)
    node.receive(first, Refuse(TOPIC, True))
    ((second, _),) = sent(node)
    assert {first, second} == {7, 8}
    node.receive(second, Welcome(TOPIC))
    assert tree_of(node).active == [1, 3, second]
    assert sent(node) == []


def test_a_node_without_links_asks_with_high_priority_and_then_a_contact() -> None:
    node = member([1], (7,))
    node.peer_down(1)
    assert sent(node) == [(7, Neighbour(TOPIC, True))]
    assert node.publish(TOPIC, b"") is None, "it would go nowhere"
    node.wake(("neighbour", TOPIC, 7))
    ((contact, packet),) = sent(node)
    assert packet == Join(TOPIC)
    node.receive(contact, Welcome(TOPIC))
    assert [change.what for change in node.out.changes] == ["publish"]
    assert [to for to, packet in sent(node) if isinstance(packet, Gossip)] == [contact]


def test_a_shuffle_is_answered_at_the_end_of_its_walk_with_as_many_nodes() -> None:
    node = member([1, 2], (7, 8), passive=2)
    node.receive(1, Shuffle(TOPIC, 9, 2, (9, 10)))
    assert sent(node) == [(2, Shuffle(TOPIC, 9, 1, (9, 10)))]
    node.receive(1, Shuffle(TOPIC, 9, 0, (9, 10)))
    ((to, reply),) = sent(node)
    assert to == 9
    assert isinstance(reply, ShuffleReply)
    assert sorted(reply.nodes) == [7, 8]
    assert sorted(tree_of(node).passive) == [9, 10], "what was sent makes room"


def test_a_message_over_a_link_that_is_not_there_is_taken_and_the_link_refused() -> None:
    node = member([1])
    node.receive(9, Gossip(TOPIC, message(), 1))
    assert (9, Disconnect(TOPIC, False)) in node.out.sends
    assert len(node.out.deliveries) == 1


def test_a_node_that_has_left_says_so_and_names_others() -> None:
    node = member([1], (7,))
    node.unsubscribe(TOPIC)
    assert sent(node) == [(1, Disconnect(TOPIC, True))]
    node.receive(9, Join(TOPIC))
    assert sent(node) == [(9, Refuse(TOPIC, False, (7, 1)))]
    node.receive(9, Gossip(TOPIC, message(), 1))
    assert sent(node) == [(9, Disconnect(TOPIC, True))]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(3, 6), st.integers(0, 999))
def test_first_views_are_symmetric_connected_and_small(count: int, degree: int, seed: int) -> None:
    links = links_of(range(count), degree, random.Random(seed))
    for node, others in links.items():
        assert len(others) == len(set(others)) <= max(2, degree - 1)
        assert node not in others
        assert all(node in links[other] for other in others)
    reached = {0}
    while more := {other for node in reached for other in links[node]} - reached:
        reached |= more
    assert len(reached) == count


# -- the whole --------------------------------------------------------------------------------------------------------


def test_the_tree_carries_a_message_about_once_to_each_node() -> None:
    spec = RunSpec(protocol="plumtree", nodes=32, seed=1, workload="one:messages=20,interval=1000")
    metrics = simulate(spec).metrics
    assert metrics["deliveries"] == 20 * 31
    copies = 1 + metrics["duplicates"] / metrics["receptions"]  # type: ignore[operator]
    assert copies < 1.25, "nearly all duplicates are the first message's"


def test_mistakes() -> None:
    node = member([1])
    with pytest.raises(UsageError, match="not a member"):
        node.publish("other", b"")
    with pytest.raises(UsageError, match="no members to join"):
        node.subscribe("other")
    with pytest.raises(ProtocolError, match="not one of its protocol"):
        node.receive(1, Packet())
