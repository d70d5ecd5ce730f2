"""A node that fetches old messages: it asks every node for the next one, and decides when that one is gone."""

from collections.abc import Mapping

import pytest

from antecede.core import Message
from antecede.protocols.vcube_ps import Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.catching_up import FETCH
from antecede.protocols.vcube_ps.packets import DIRECT, Ahead, Fetch, Fetched, Pub
from tests.protocols.vcube_ps.test_missing import tick

#: How far the other nodes are with source 1, and messages of one request.
LAST, CHUNK = 100, 8


def make(members: int = 0b1111, **timing: int) -> VCubePs:
    """Node 0 of the topic t, which lacks all messages of source 1."""
    times = Timing(ack_us=100, ack_every=1000, retry_us=1000, slow_us=50_000, attempts_max=4, chunk=CHUNK, **timing)
    process = VCubePs(0, 4, lambda: TopicOrder(0), {"t": members}, times, window=8, logged=True)
    process.start()
    return process


def fetches(process: VCubePs) -> list[tuple[int, Fetch]]:
    return [(to, packet) for to, packet in process.out.sends if isinstance(packet, Fetch)]


def serve(
    process: VCubePs, have: Mapping[int, range], *, had: bool = False, arrive: bool = True
) -> list[tuple[int, int]]:
    """Answer requests in their order until there are none; the node and first message of each.

    `have`: by node, its messages. `had`: it had the others once. `arrive`: messages reach the node that asks.
    """
    answered = []
    while (asked := fetches(process)) and len(answered) < 100:
        process.out.sends.clear()
        for to, packet in asked:
            answered.append((to, packet.first))
            numbers = [seq for seq in range(packet.first, packet.last + 1) if seq in have.get(to, ())]
            if numbers and arrive:
                process.receive(to, Pub(tuple(Message("t", 1, seq, (), b"") for seq in numbers), DIRECT))
            upto, gone = (packet.last, 0) if numbers else (packet.first - 1, packet.last if had else 0)
            process.receive(to, Fetched("t", 1, packet.first, upto, LAST, gone))
    return answered


@pytest.mark.parametrize("arrive", [True, False])
def test_later_messages_say_nothing_about_the_next_one(arrive: bool) -> None:
    """No node has the first range, all have the second: each is asked twice for the first, then it is given up."""
    process = make()
    process.receive(1, Ahead("t", 1, LAST))
    answered = serve(process, dict.fromkeys((1, 2, 3), range(CHUNK + 1, LAST + 1)), had=True, arrive=arrive)
    assert [to for to, first in answered if first == 1] == [1, 2, 3, 1, 2, 3]
    assert process.given_up == 1


def test_a_message_that_only_an_absent_member_may_have_is_waited_for_in_sight_and_not_for_ever() -> None:
    """The nodes that are up joined behind the message and never had it."""
    process = make(absent_attempts_max=30)
    process.peer_down(3)
    process.receive(1, Ahead("t", 1, LAST))
    serve(process, {})
    for _ in range(30):
        tick(process, FETCH)
        serve(process, {})
    assert process.given_up == 0
    (missing,) = process.missing()
    assert missing == ("t", 1, 1, LAST, (1, 2), 30)
    tick(process, FETCH)
    serve(process, {})
    assert process.given_up == 1


def test_a_message_that_only_an_absent_publisher_outside_has_is_waited_for() -> None:
    process = make(members=0b1101)
    process.peer_down(1)
    process.receive(2, Ahead("t", 1, LAST))
    serve(process, {})
    assert process.given_up == 0
    process.peer_up(1)
    tick(process, FETCH)
    serve(process, {1: range(1, LAST + 1)})
    assert process.delivered("t") == {1: LAST}


def test_an_absent_member_comes_back_with_the_message() -> None:
    process = make()
    process.peer_down(3)
    process.receive(1, Ahead("t", 1, LAST))
    for _ in range(10):
        serve(process, {})
        tick(process, FETCH)
    process.peer_up(3)
    serve(process, {3: range(1, LAST + 1)})
    assert process.delivered("t") == {1: LAST}
    assert process.given_up == 0
    assert process.missing() == []


def test_a_message_that_retention_removed_is_given_up_sooner() -> None:
    process = make()
    process.peer_down(3)
    process.receive(1, Ahead("t", 1, LAST))
    for _ in range(3):  # more than half of attempts_max
        serve(process, {}, had=True)
        assert process.given_up == 0
        tick(process, FETCH)
    serve(process, {}, had=True)
    assert process.given_up == 1
