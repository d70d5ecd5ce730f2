"""Messages that wait for one that does not come: bounded, in sight, and asked for without end."""

from antecede.core import Message
from antecede.protocols.vcube_ps import Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.packets import DIRECT, ONCE, Fetch, Pub, Pull, Sub, SubAck
from antecede.search.vcube_ps import search

RETRY_US, SLOW_US = 1000, 50_000


def make(members: int = 0b1111, *, logged: bool = True, **timing: int) -> VCubePs:
    """Node 0 of four, by default all members of the topic t."""
    times = Timing(ack_us=100, ack_every=1000, retry_us=RETRY_US, slow_us=SLOW_US, attempts_max=3, **timing)
    process = VCubePs(0, 4, lambda: TopicOrder(0), {"t": members}, times, window=8, logged=logged)
    process.start()
    return process


def message(seq: int, payload: bytes = b"") -> Message:
    return Message("t", 1, seq, (), payload)


def tick(process: VCubePs, kind: str) -> int:
    """Let the timer of that kind go off that was armed last; its delay."""
    delay, timer = next(one for one in reversed(process.out.timers) if isinstance(one[1], tuple) and one[1][0] == kind)
    process.out.clear()
    process.wake(timer)
    return delay


def test_what_is_missing_is_asked_for_without_end_and_in_sight() -> None:
    process = make()
    process.receive(1, Pub((message(2),), ONCE))
    assert process.held == 1
    pauses, asked = [], set()
    for _ in range(12):
        pauses.append(tick(process, "request"))
        asked |= {to for to, packet in process.out.sends if isinstance(packet, Pull) and packet.numbers == (1,)}
    assert asked == {1, 2, 3}
    assert pauses[-1] == SLOW_US // 4
    (missing,) = process.missing()
    assert missing[:5] == ("t", 1, 1, 1, (1, 2, 3))
    assert missing.attempts >= 8
    process.receive(3, Pub((message(1),), DIRECT))
    assert process.missing() == []
    assert process.held == 0


def pulled_from(process: VCubePs) -> list[int]:
    return [to for to, packet in process.out.sends if isinstance(packet, Pull)]


def test_a_node_that_is_no_member_is_asked_too_after_the_members() -> None:
    """Node 2 may have delivered the message and left. Perhaps no other node has it (seed 9792)."""
    process = make(members=0b1011)
    process.receive(1, Pub((message(2),), ONCE))
    process.peer_down(1)
    asked = []
    for _ in range(6):
        tick(process, "request")
        asked += pulled_from(process)
    assert asked[0] == 3
    assert set(asked) == {2, 3}


def test_a_joiner_pulls_from_every_node_after_a_few_tries_in_vain() -> None:
    """Node 2 alone has the message. Asked in turn, with other nodes, all six pulls to it were lost (seed 9792)."""
    process = make(members=0b1010, logged=False)
    process.subscribe("t")
    (register,) = {packet.register for _, packet in process.out.sends if isinstance(packet, Sub)}
    process.receive(1, SubAck("t", 0, register, counts=((1, 1),)))
    process.receive(2, SubAck("t", 0, register))
    asked = [pulled_from(process)]
    for _ in range(6):
        tick(process, "roll")
        asked.append(pulled_from(process))
    assert asked[0] == [1]
    assert asked[-1] == [1, 2, 3]
    process.receive(2, Pub((message(1),), DIRECT))
    assert process.takes("t")


def test_a_message_that_only_a_node_that_left_has_reaches_all_over_links_that_lose_two_packets_in_five() -> None:
    verdict = search(9792)
    assert verdict.ok, verdict.words


def test_a_node_that_knows_nobody_to_ask_says_so() -> None:
    process = make()
    for node in (1, 2, 3):
        process.peer_down(node)
    process.receive(1, Pub((message(2),), ONCE))
    for _ in range(3):
        tick(process, "request")
    (missing,) = process.missing()
    assert missing.asked == ()


def test_held_messages_are_bounded_in_bytes_and_refused_ones_are_fetched() -> None:
    process = make(held_bytes_max=20_000, retain=1000)
    for seq in range(2, 202):
        process.receive(1, Pub((message(seq, b"x" * 744),), ONCE))  # 1000 bytes each
    assert 20_000 <= process.held_bytes < 22_000
    assert len(process.holding()) == process.held < 25
    delivered = len(process.out.deliveries)
    process.receive(1, Pub((message(1),), DIRECT))
    assert len(process.out.deliveries) - delivered == process.delivered("t")[1]
    assert process.held_bytes == 0
    fetches = [packet for _, packet in process.out.sends if isinstance(packet, Fetch)]
    for _ in range(3):
        tick(process, "fetch")
        fetches += [packet for _, packet in process.out.sends if isinstance(packet, Fetch)]
    assert any(packet.first <= process.delivered("t")[1] + 1 <= packet.last for packet in fetches)


def test_messages_far_ahead_are_refused() -> None:
    process = make(retain=10)
    process.receive(1, Pub((message(1000),), ONCE))
    assert process.held == 0
    assert [packet for _, packet in process.out.sends if isinstance(packet, Fetch)]
