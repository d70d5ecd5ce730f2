"""The parts of an ordering module, one at a time."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, ProtocolError, UsageError
from antecede.protocols.tno import (
    PACKETS,
    Manager,
    OrderingModule,
    Rules,
    Settings,
    decode_event,
    encode_event,
    popularity,
    topic_id,
)
from antecede.protocols.tno.event import ENTRY_BYTES
from antecede.protocols.tno.leases import Gone, Lease
from antecede.protocols.tno.packets import Append, Create, Expire, Fill, FillSub, Published, Stamp, SubDone, UpdateSub
from antecede.protocols.tno.replica import Kept
from antecede.sim.run import RunSpec, simulate
from antecede.wire.codec import PacketCodec

NUMBER = st.integers(1, (1 << 63) - 1)
ENTRIES = st.lists(st.tuples(st.text(min_size=1, max_size=20), NUMBER), max_size=5).map(tuple)


def module(node: int = 0, **values: object) -> OrderingModule:
    alone = {"managers": lambda topic: (0,), "retry_us": 100, "ack_us": 10, "founders": {0: frozenset({"a"})}}
    return OrderingModule(node, Settings(**alone | values))  # type: ignore[arg-type]


def manager(*subscriptions: tuple[str, ...], topic: str = "b", order: tuple[str, ...] = ("a", "b", "c")) -> Manager:
    taken = {node: (0, topics) for node, topics in enumerate(subscriptions) if topic in topics}
    return Manager(topic, order, Rules(), taken)


# -- events -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 1 << 40), NUMBER, ENTRIES, ENTRIES, st.binary(max_size=50), st.integers(0, 65535), NUMBER)
def test_an_event_comes_back_as_it_went(
    epoch: int,
    number: int,
    above: tuple[tuple[str, int], ...],
    below: tuple[tuple[str, int], ...],
    payload: bytes,
    source: int,
    seq: int,
) -> None:
    message = Message("t", source, seq, (), payload)
    data = encode_event(message, epoch, number, above, below)
    assert len(data) == ENTRY_BYTES * (2 + len(above) + len(below)) + len(payload)
    event = decode_event("t", data)
    assert (event.message, event.epoch, event.number) == (message, epoch, number)
    assert event.above == tuple((topic_id(topic), n) for topic, n in above)
    assert event.below == tuple((topic_id(topic), n) for topic, n in below)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_what_no_module_made_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_event("t", data)


def test_an_event_of_another_topic_is_refused() -> None:
    data = encode_event(Message("t", 0, 1), 0, 1, (), ())
    with pytest.raises(ProtocolError, match="stamped for another topic"):
        decode_event("u", data)


# -- packets ----------------------------------------------------------------------------------------------------------


def test_every_packet_crosses_a_wire() -> None:
    codec = PacketCodec("tno", PACKETS)
    fill = Fill("b", "a", 1, "b", 3, 1, 0, 1, (("a", True),), (), (("c", 4),))
    packets = [
        fill,
        Stamp("b", 3, 1, 0, 1, (("a", 0),), ()),
        Append("a", 0, 1, fill),
        FillSub(1, 1, ("a",), 0, ("a",), ()),
    ]
    frame = codec.frame(*packets)
    assert codec.decode(frame[4:]) == packets


def test_a_stranger_does_not_speak_for_a_managers_clock() -> None:
    with pytest.raises(ProtocolError, match="only a manager sends itself"):
        module().receive(1, Expire("a", 1, 1, 1))


def test_a_request_for_another_manager_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"node 1 does not manage 'a', nodes \(0,\) do"):
        module(1).receive(2, Create("a", 2, 1))


# -- the application --------------------------------------------------------------------------------------------------


def test_publishing_where_one_does_not_subscribe() -> None:
    with pytest.raises(UsageError, match="does not subscribe"):
        module().publish("b", b"")
    module(publishers_subscribe=False).publish("b", b"")


def test_the_layers_own_topic_is_not_for_applications() -> None:
    with pytest.raises(UsageError, match="is reserved for total order"):
        module(publishers_subscribe=False).publish("$order", b"")


def test_a_lone_node_stamps_publishes_and_notifies() -> None:
    node = module()
    message = node.publish("a", b"hello")
    assert node.out.deliveries == []
    (call,) = node.out.ens
    assert (call.what, call.topic) == ("publish", "a")
    node.ens_published("a")
    node.ens_notified("a", call.data)
    node.ens_notified("a", call.data)  # a service that repeats itself
    assert node.out.deliveries == [message]
    assert node.out.out_of_order == []


def test_numbers_of_a_publisher_rise_though_its_manager_lost_patience() -> None:
    """The second has its first timestamp already when the first is numbered anew: that one would stand before it."""
    node = module(managers=lambda topic: (1,))
    for _ in range(2):
        node.publish("a", b"")
    node.receive(1, Stamp("a", 0, 2, 0, 2, (), ()))
    node.out.clear()
    node.receive(1, Stamp("a", 0, 1, 0, 3, (), ()))
    assert [decode_event("a", call.data).number for call in node.out.ens] == [3]
    assert [packet for _, packet in node.out.sends] == [Create("a", 0, 2)]
    node.receive(1, Stamp("a", 0, 2, 0, 2, (), ()))
    assert len(node.out.sends) == 1  # the manager would answer the same: the next tick asks
    node.receive(1, Stamp("a", 0, 2, 0, 4, (), ()))
    events = [decode_event("a", call.data) for call in node.out.ens]
    assert [(event.message.seq, event.number) for event in events] == [(1, 3), (2, 4)]


def test_replicas_must_be_there() -> None:
    with pytest.raises(UsageError, match="replicas 5: 4 of 4 nodes manage topics"):
        simulate(RunSpec(protocol="tno", nodes=4, options={"replicas": 5}, workload="overlapping"))


# -- managers ---------------------------------------------------------------------------------------------------------


def test_the_sequencing_group_is_what_somebody_takes_together() -> None:
    """One subscription is enough; the own number is always there. Topics below are not asked."""
    (out,) = manager(("a", "b", "c"), ("b",)).apply(Create("b", 7, 1))
    assert isinstance(out[1], Fill)
    assert (out[0], out[1].route, out[1].number) == ("a", (("a", True),), 1)
    (out,) = manager(("b",), ("b", "c")).apply(Create("b", 7, 1))
    assert out == (7, Stamp("b", 7, 1, 0, 1, (), ()))


def test_a_subscription_takes_no_number_and_an_older_one_changes_nothing() -> None:
    here = manager(("b",))
    (out,) = here.apply(FillSub(5, 2, ("a", "b"), 0, ("b",), ()))
    assert out == (5, SubDone(2, (("b", 0),)))
    assert here.judge(UpdateSub("b", 5, 1, ())) == "old"
    assert here.apply(Create("b", 7, 1))[0][0] == "a"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=60))
def test_each_publisher_is_numbered_in_its_order_once(asked: list[tuple[int, int]]) -> None:
    """Requests come in any order and again."""
    here, early, given_ = manager(("b",)), set[tuple[int, int]](), dict[tuple[int, int], int]()
    for name in asked:
        early.add(name)
        while due := [one for one in sorted(early) if here.judge(Create("b", *one)) == "now"]:
            early.discard(due[0])
            (out,) = here.apply(Create("b", *due[0]))
            assert isinstance(out[1], Stamp)
            given_[due[0]] = out[1].number
    assert sorted(given_.values()) == list(range(1, len(given_) + 1))
    for source, seq in given_:
        assert seq == 1 or given_[source, seq - 1] < given_[source, seq]
        assert here.again(Create("b", source, seq))[0][1].number == given_[source, seq]  # type: ignore[attr-defined]


def test_what_is_published_is_not_numbered_again() -> None:
    here = manager(("b",))
    here.apply(Create("b", 7, 1))
    here.apply(Published("b", 7, ((1, 1),)))
    assert here.judge(Create("b", 7, 1)) == "old"
    assert here.again(Create("b", 7, 1)) == []


def test_a_state_saved_and_loaded_goes_on() -> None:
    here, there = manager(("a", "b")), manager()
    here.apply(Create("b", 7, 1))
    here.apply(FillSub(5, 2, ("b", "c"), 0, ("b",), ()))
    there.load(here.save())
    assert there.unfinished() == here.unfinished() != []
    assert there.apply(Create("b", 7, 2)) == here.apply(Create("b", 7, 2))
    assert there.save() == here.save()


def test_who_is_suspected_again_has_its_time_again() -> None:
    """A timer of an earlier suspicion does not shorten what is left to others to pass on what it had published."""
    node = module(lease_us=10_000)
    node.receive(5, Create("a", 5, 1))
    for call in (node.peer_down, node.peer_up, node.peer_down):
        call(5)
    timers = [timer for _, timer in node.out.timers if isinstance(timer, Gone)]
    assert [delay for delay, timer in node.out.timers if isinstance(timer, Gone)] == [200, 200]
    node.out.clear()
    node.wake(timers[0])
    assert node.out.kept == []
    node.wake(timers[1])
    assert node.out.kept[0] == Kept("a", 0, 2, Expire("a", 5, 1, 1))


def test_a_lease_that_was_too_short_becomes_longer_until_it_is_not() -> None:
    """Else timestamps that take longer than a lease would be void before they are there, for ever (seed 50151)."""
    node = module(lease_us=1000)

    def lease() -> list[int]:
        delays = [delay for delay, timer in node.out.timers if isinstance(timer, Lease)]
        node.out.clear()
        return delays

    node.receive(5, Create("a", 5, 1))
    assert lease() == [1000]
    node.wake(Lease("a"))
    assert lease() == [1000], "it has not waited for a whole one"
    node.wake(Lease("a"))
    assert lease() == []
    node.receive(5, Create("a", 5, 1))
    assert lease() == [2000]
    node.receive(5, Published("a", 5, ((1, 2),)))
    node.wake(Lease("a"))
    node.out.clear()
    node.receive(5, Create("a", 5, 2))
    assert lease() == [1000]


def test_popularity_rises_ever_more_slowly() -> None:
    values = [popularity(events, 1.0) for events in range(50)]
    rises = [later - earlier for earlier, later in pairwise(values)]
    assert all(rise > 0 for rise in rises)
    assert rises == sorted(rises, reverse=True)
    assert values[-1] < 1


def test_what_a_silent_publisher_asked_for_later_is_void_too_and_numbered_anew_in_its_order() -> None:
    """It crashed before it had its numbers. If the second kept the old one, it would be notified before the first."""
    managing = manager(("b",))
    for seq in (1, 2):
        managing.apply(Create("b", 5, seq))
    managing.apply(Expire("b", 5, 1, 1))
    assert managing.waiting() == []
    assert managing.judge(Create("b", 5, 2)) == "early"
    stamps = [packet for seq in (1, 2) for _, packet in managing.apply(Create("b", 5, seq))]
    assert [packet.number for packet in stamps if isinstance(packet, Stamp)] == [3, 4]
