"""Publishing and taking a run is publishing and taking its messages one by one, in fewer packets."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, Packet
from antecede.protocols.vcube_ps import Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.packets import Have, Pub
from antecede.protocols.vcube_ps.records import Delivered, DeliveredRun, Published, PublishedRun, Stable
from antecede.protocols.vcube_ps.runs import records_of, records_of_run
from antecede.protocols.vcube_ps.streams import Stream

TIMING = Timing(ack_us=1_000, ack_every=64, retry_us=100_000, burst=64)
TOPIC = "t"


def make(node: int, members: int, window: int = 4096) -> VCubePs:
    process = VCubePs(node, 4, lambda: TopicOrder(node), {TOPIC: members}, TIMING, window=window)
    process.start()
    return process


def publish(process: VCubePs, payloads: list[bytes], *, together: bool) -> list[Message]:
    if together:
        return process.publish_run(TOPIC, payloads)
    messages = []
    for payload in payloads:
        message = process.publish(TOPIC, payload)
        assert message is not None
        messages.append(message)
    return messages


def said(process: VCubePs) -> list[tuple[int, Message]]:
    """Messages sent, by whom they go to."""
    return sorted([(to, message) for to, packet in process.out.sends for message in packet.messages], key=str)


def kept(process: VCubePs) -> list[object]:
    """Message by message, but for how often it was noted what is stable."""
    found: list[object] = []
    for record in process.out.kept:
        if isinstance(record, PublishedRun):
            found += [Published(message) for message in record.messages]
        elif isinstance(record, DeliveredRun):
            found += [Delivered(message) for message in record.messages]
        elif not isinstance(record, Stable):
            found.append(record)
    return found


@pytest.mark.parametrize("members", [0b0001, 0b0011, 0b1111])
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5), big=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_run_is_its_messages_one_by_one(members: int, sizes: list[int], big: bool) -> None:
    one_by_one, at_once = make(0, members), make(0, members)
    receivers = [make(1, members), make(1, members)]
    for size in sizes:
        payloads = [b"%d" % number + bytes(9_000 * big) for number in range(size)]
        assert publish(at_once, payloads, together=True) == publish(one_by_one, payloads, together=False)
        assert at_once.out.deliveries == one_by_one.out.deliveries
        assert kept(at_once) == kept(one_by_one)
        assert said(at_once) == said(one_by_one)
        for _, packet in at_once.out.sends:
            assert isinstance(packet, Pub)
            assert len(packet.messages) == 1 or sum(len(message.payload) for message in packet.messages) <= 32 * 1024
        for sender, receiver in zip((one_by_one, at_once), receivers, strict=True):
            for to, packet in sender.out.sends:
                if to == 1:
                    receiver.receive(0, packet)
            sender.out.clear()
        assert receivers[0].out.deliveries == receivers[1].out.deliveries
        assert kept(receivers[0]) == kept(receivers[1])
        assert said(receivers[0]) == said(receivers[1])
        for receiver in receivers:
            receiver.out.clear()
    for process in (one_by_one, at_once):
        process.wake(("ack",))
    assert one_by_one.delivered(TOPIC) == at_once.delivered(TOPIC)
    assert receivers[0].delivered(TOPIC) == receivers[1].delivered(TOPIC)


def test_a_node_restored_from_runs_is_where_it_was() -> None:
    before, peer = make(0, 0b11), make(1, 0b11)
    records: list[object] = []
    for count in (1, 7, 3):
        before.publish_run(TOPIC, [b"%d" % number for number in range(count)])
        for _, packet in before.out.sends:
            peer.receive(0, packet)
        before.out.sends.clear()
        peer.publish_run(TOPIC, [b"answer"] * count)
        for _, packet in peer.out.sends:
            if isinstance(packet, Pub):
                before.receive(1, packet)
        peer.out.clear()
    records += before.out.kept
    after = VCubePs(0, 4, lambda: TopicOrder(0), {TOPIC: 0b11}, TIMING, window=4096)
    after.restore(records)
    assert after.delivered(TOPIC) == before.delivered(TOPIC) == {0: 11, 1: 11}
    first = after._state.group(TOPIC).order.stamp(TOPIC, 12, b"next")
    assert first == before._state.group(TOPIC).order.stamp(TOPIC, 12, b"next")
    assert first.deps == ((1, 11),)


def test_a_run_ends_where_the_window_does() -> None:
    process = make(0, 0b11, window=5)
    digest = process._state.group(TOPIC).view.digest
    process.receive(1, Have(TOPIC, 0, 0, 0, digest))
    first = process.publish_run(TOPIC, [b"%d" % number for number in range(8)])
    assert [message.seq for message in first] == [1, 2, 3, 4, 5]
    assert process.publish_run(TOPIC, [b"more"]) == []
    assert process.publish(TOPIC, b"queued") is None
    process.receive(1, Have(TOPIC, 0, 5, 5, digest))
    assert process.publish_run(TOPIC, []) == []
    assert [message.payload for message in process.out.deliveries[5:]] == [b"queued"]


def test_a_node_that_does_not_take_a_topic_publishes_one_by_one_and_delivers_nothing() -> None:
    process = make(0, 0b10)
    assert process.publish_run(TOPIC, [b"x"]) == []
    message = process.publish(TOPIC, b"x")
    assert message is not None
    assert process.out.sends
    assert process.out.deliveries == []


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_runs_among_several_publishers_stay_in_causal_order(seed: int) -> None:
    """Packets overtake each other; what is delivered follows what it depends on, once, and all of it comes."""
    draw = random.Random(seed)
    nodes = [make(node, 0b1111) for node in range(4)]
    flying: list[tuple[int, int, Packet]] = []
    order: list[list[Message]] = [[] for _ in nodes]
    timers: list[tuple[int, object]] = []

    def drain(node: int) -> None:
        out = nodes[node].out
        order[node] += out.deliveries
        flying.extend((node, to, packet) for to, packet in out.sends)
        timers.extend((node, timer) for _, timer in out.timers)
        out.clear()

    published = 0
    for _ in range(60):
        if draw.random() < 0.4:
            node = draw.randrange(4)
            published += len(nodes[node].publish_run(TOPIC, [b"x"] * draw.randint(1, 6)))
            drain(node)
        elif flying:
            sender, to, packet = flying.pop(draw.randrange(len(flying)))
            nodes[to].receive(sender, packet)
            drain(to)
    for _ in range(10_000):
        if flying:
            sender, to, packet = flying.pop(draw.randrange(len(flying)))
            nodes[to].receive(sender, packet)
            drain(to)
        elif any(len(one) < published for one in order) and timers:
            node, timer = timers.pop(0)
            nodes[node].wake(timer)  # type: ignore[arg-type]
            drain(node)
        else:
            break
    for one in order:
        seen: dict[int, int] = {}
        for message in one:
            assert message.seq == seen.get(message.source, 0) + 1
            assert all(seen.get(source, 0) >= seq for source, seq in message.deps)
            seen[message.source] = message.seq
        assert len(one) == published


@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([1, 1, 1, 1, 2])), min_size=1, max_size=8),
    st.booleans(),
)
def test_the_records_of_a_run_are_those_of_its_messages(
    clock: int, parts: list[tuple[bool, bool, int]], lean: bool
) -> None:
    messages = []
    for seq, (depends, crosses, tick) in enumerate(parts, 5):
        deps = ((3, 7),) if depends else ()
        messages.append(Message(TOPIC, 1, seq, deps, b"x", (("other", 2, 1),) if crosses else (), clock))
        clock += tick if clock else 0
    assert records_of_run(messages, lean=lean) == records_of(messages, lean=lean)


@given(st.lists(st.integers(1, 30), max_size=30), st.lists(st.integers(1, 30), max_size=4))
def test_a_stream_forgets_what_is_at_or_below_a_number(taken: list[int], forgotten: list[int]) -> None:
    stream = Stream(0)
    for seq in taken:
        stream.take(Message(TOPIC, 0, seq, (), bytes(seq)))
    for until in forgotten:
        stream.forget(until)
    left = sorted(seq for seq in {*taken} if seq > max(forgotten, default=0))
    assert sorted(stream.log) == left
    assert stream.log_bytes == sum(left)
    assert stream.low == max([1, *[until + 1 for until in forgotten]])
