"""Order on one topic and across topics: the gate's shortcut, floors, and topics that come and go."""

import random

from hypothesis import given
from hypothesis import strategies as st

from antecede.core import Gate, Message
from antecede.core.clocks import DomainFrontier, Frontier, UnprunedFrontier
from antecede.protocols.vcube_ps.order import Domain, TopicOrder


def said(source: int, seq: int, *deps: tuple[int, int], topic: str = "t", across: tuple = ()) -> Message:  # type: ignore[type-arg]
    return Message(topic, source, seq, tuple(deps), b"", across)


@given(st.randoms(use_true_random=False))
def test_the_shortcut_changes_nothing(rng: random.Random) -> None:
    """`admit` before `offer`, or `offer` alone: the same messages come out, in the same order."""
    history = _history(rng)
    arrivals = history + rng.choices(history, k=5)
    rng.shuffle(arrivals)
    order, gate = TopicOrder(99), Gate[Message]()
    for message in arrivals:
        if rng.random() < 0.1:
            source, count = rng.randrange(4), rng.randrange(3)
            gate.floor(source, count)
            assert list(order.floors("t", [(source, count)])) == gate.drain()
        gate.offer(message, ((message.source, message.seq),), message.deps)
        assert list(order.offer(message)) == gate.drain()
        assert order.held == gate.held


def _history(rng: random.Random) -> list[Message]:
    """Four sources that publish and read each other at random."""
    frontiers = [Frontier() for _ in range(4)]
    made: list[Message] = []
    read = [0] * 4
    seqs = [0] * 4
    for _ in range(20):
        node = rng.randrange(4)
        for message in made[read[node] : rng.randint(read[node], len(made))]:
            read[node] += 1
            if message.source != node:
                frontiers[node].observe(message)
        seqs[node] += 1
        made.append(Message("t", node, seqs[node], frontiers[node].stamp()))
    return made


def test_a_leaver_forgets_what_it_held_and_keeps_how_far_it_was() -> None:
    order = TopicOrder(0)
    assert list(order.offer(said(1, 1))) == [said(1, 1)]
    assert list(order.offer(said(2, 1, (3, 1)))) == []
    order.leave("t")
    assert order.held == 0
    assert order.reached("t", 1) == 1
    assert order.reached("t", 2) == 0


def test_unpruned_barriers_name_everyone_heard_since() -> None:
    pruned, whole = Frontier(), UnprunedFrontier()
    for message in (said(1, 1), said(2, 1, (1, 1)), said(3, 1, (2, 1))):
        pruned.observe(message)
        whole.observe(message)
    assert pruned.stamp() == ((3, 1),)
    assert sorted(whole.stamp()) == [(1, 1), (2, 1), (3, 1)]
    assert whole.stamp() == ()


# -- across topics ----------------------------------------------------------------------------------------------------


def test_an_entry_goes_when_its_own_topic_covers_it() -> None:
    """A message on b does not take the entry for a with it; a later one on a does."""
    frontier = DomainFrontier(0)
    never = lambda topic, source, seq: False  # noqa: E731
    frontier.observe(said(1, 1, topic="a"), never)
    assert frontier.stamp("b", 1) == ((), (("a", 1, 1),))
    assert frontier.stamp("b", 2) == ((), (("a", 1, 1),)), "its own last message on b is implied"
    frontier.observe(said(2, 1, (1, 1), topic="a", across=(("b", 0, 2),)), lambda *entry: entry == ("b", 0, 2))
    assert frontier.stamp("b", 3) == ((), (("a", 2, 1),))
    assert frontier.stamp("a", 1) == (((2, 1),), (("b", 0, 3),))


def test_what_a_message_covers_is_carried_until_another_node_has_the_message() -> None:
    """If this node is lost, and its message on a with it, readers of b still wait for what it depended on."""
    frontier = DomainFrontier(0, doubts=True)
    never = lambda topic, source, seq: False  # noqa: E731
    frontier.observe(said(1, 1, topic="a"), never)
    assert frontier.stamp("a", 1) == (((1, 1),), ())
    frontier.observe(said(2, 5, topic="a"), never)
    assert frontier.stamp("a", 2) == (((2, 5),), ())
    assert frontier.stamp("b", 1) == ((), (("a", 0, 2), ("a", 1, 1), ("a", 2, 5)))
    frontier.secured("a", 1)
    assert frontier.stamp("b", 2) == ((), (("a", 0, 2), ("a", 2, 5)))
    frontier.secured("a", 2)
    assert frontier.stamp("b", 3) == ((), (("a", 0, 2),))


def test_entries_of_topics_not_taken_are_passed_on() -> None:
    relay = Domain(5)
    relay.enter("b")
    assert list(relay.offer(said(1, 1, topic="b", across=(("a", 0, 7),)))) == [
        said(1, 1, topic="b", across=(("a", 0, 7),))
    ]
    assert relay.stamp("b", 1, b"").across == (("a", 0, 7),)


def test_who_takes_both_waits_and_who_takes_one_does_not() -> None:
    late = said(1, 1, topic="b", across=(("a", 0, 1),))
    both, one = Domain(5), Domain(6)
    both.enter("a")
    both.enter("b")
    one.enter("b")
    assert list(one.offer(late)) == [late]
    assert list(both.offer(late)) == []
    assert [message.topic for message in both.offer(said(0, 1, topic="a"))] == ["a", "b"]


def test_a_topic_counts_as_taken_while_one_joins_it() -> None:
    """Until the floors are known nobody can say whether the dependency will come."""
    domain = Domain(5)
    domain.enter("b")
    domain.enter("a")
    held = said(1, 1, topic="b", across=(("a", 0, 3),))
    assert list(domain.offer(held)) == []
    assert list(domain.floors("a", [(0, 3)])) == [held]


def test_what_is_held_when_a_join_begins_waits_for_the_topic_too() -> None:
    domain = Domain(5)
    domain.enter("b")
    held = said(1, 1, (2, 1), topic="b", across=(("a", 0, 1),))
    assert list(domain.offer(held)) == []
    domain.enter("a")
    assert list(domain.offer(said(2, 1, topic="b"))) == [said(2, 1, topic="b")]
    assert domain.held == 1
    assert list(domain.offer(said(0, 1, topic="a"))) == [said(0, 1, topic="a"), held]


def test_who_leaves_a_topic_waits_for_nothing_on_it() -> None:
    domain = Domain(5)
    domain.enter("a")
    domain.enter("b")
    first = said(1, 1, topic="b", across=(("a", 0, 1), ("a", 3, 2)))
    assert list(domain.offer(first)) == []
    assert list(domain.offer(said(4, 1, (3, 9), topic="a"))) == []
    assert list(domain.leave("a")) == [first]
    assert domain.held == 0
