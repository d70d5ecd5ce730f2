"""The exchanges of QoS 1 and 2 without a node: random runs against the rules, and what a peer must not do."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.wire.mqtt.flows import Incoming, Outgoing
from antecede.wire.mqtt.packets import V5, V311, Puback, Pubcomp, Publish, Pubrec, Pubrel
from antecede.wire.mqtt.reasons import MqttError, Reason


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("nare"), st.integers(0, 5)), max_size=60))
def test_outgoing_identifiers_are_free_and_bounded(steps: list[tuple[str, int]]) -> None:
    """n: a new message; a: an acknowledgement; r: PUBREC; e: PUBREC with an error."""
    flow: Outgoing[int] = Outgoing(4)
    in_use: dict[int, int] = {}
    for number, (what, which) in enumerate(steps):
        if what == "n":
            assert flow.room == (len(in_use) < 4)
            if flow.room:
                flight = flow.begin(number, 1 + which % 2)
                assert flight.packet_id not in in_use
                in_use[flight.packet_id] = flight.qos
            continue
        if not in_use:
            continue
        packet_id = sorted(in_use)[which % len(in_use)]
        flight = next(one for one in flow if one.packet_id == packet_id)
        if flight.qos == 1:
            assert flow.puback(Puback(packet_id=packet_id)) is flight
            del in_use[packet_id]
        elif what == "e" and not flight.released:
            assert flow.pubrec(Pubrec(packet_id=packet_id, reason=Reason.QUOTA_EXCEEDED)) is None
            del in_use[packet_id]
        elif not flight.released:
            assert flow.pubrec(Pubrec(packet_id=packet_id)) == Pubrel(packet_id=packet_id)
        else:
            assert flow.pubcomp(Pubcomp(packet_id=packet_id)) is flight
            del in_use[packet_id]
        assert [one.packet_id for one in flow] == list(in_use)  # in the order of their first PUBLISH


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2), st.booleans()), max_size=30), st.randoms(use_true_random=False))
def test_incoming_acknowledgements_keep_the_order_of_publish(wanted: list[tuple[int, bool]], rng: "object") -> None:
    """[MQTT-4.6.0-2], [MQTT-4.6.0-3], however long each message takes."""
    flow = Incoming(100)
    for packet_id, (qos, _) in enumerate(wanted, 1):
        assert flow.take(Publish(topic="t", qos=qos, packet_id=packet_id), V5)
    order = list(range(1, len(wanted) + 1))
    rng.shuffle(order)  # type: ignore[attr-defined]
    answers = []
    for packet_id in order:
        flow.settle(packet_id, Reason.SUCCESS if wanted[packet_id - 1][1] else Reason.NOT_AUTHORIZED)
        answers += flow.acknowledgements()
    assert [answer.packet_id for answer in answers] == list(range(1, len(wanted) + 1))
    assert Counter(type(answer) for answer in answers) == Counter(Puback if qos == 1 else Pubrec for qos, _ in wanted)


def test_a_qos_2_identifier_is_one_message_until_pubrel() -> None:
    """[MQTT-4.3.3-10]."""
    flow = Incoming(10)
    packet = Publish(topic="t", qos=2, packet_id=7)
    assert flow.take(packet, V311)
    assert not flow.take(packet, V311)  # not safe yet: one acknowledgement is enough
    flow.settle(7, Reason.SUCCESS)
    assert list(flow.acknowledgements()) == [Pubrec(packet_id=7)]
    assert not flow.take(packet, V311)
    assert list(flow.acknowledgements()) == [Pubrec(packet_id=7)]
    flow.disconnected()
    assert not flow.take(packet, V311)
    assert list(flow.acknowledgements()) == [Pubrec(packet_id=7)]
    assert flow.release(Pubrel(packet_id=7)) == Pubcomp(packet_id=7)
    assert flow.take(packet, V311)


def test_a_client_that_is_back_before_its_message_is_safe() -> None:
    """QoS 2: it is acknowledged when it is. QoS 1: the same identifier is a new message."""
    flow = Incoming(10)
    one, two = Publish(topic="t", qos=1, packet_id=6), Publish(topic="t", qos=2, packet_id=7)
    assert flow.take(one, V5)
    assert flow.take(two, V5)
    flow.disconnected()
    assert flow.take(one, V5)
    assert not flow.take(two, V5)
    flow.settle(6, Reason.SUCCESS)
    flow.settle(7, Reason.SUCCESS)
    assert list(flow.acknowledgements()) == [Puback(packet_id=6), Pubrec(packet_id=7)]


def test_a_refused_qos_2_message_frees_its_identifier() -> None:
    flow = Incoming(10)
    packet = Publish(topic="t", qos=2, packet_id=7)
    assert flow.take(packet, V5)
    flow.settle(7, Reason.NOT_AUTHORIZED)
    assert list(flow.acknowledgements()) == [Pubrec(packet_id=7, reason=Reason.NOT_AUTHORIZED)]
    assert flow.take(packet, V5)


def test_what_a_peer_must_not_acknowledge() -> None:
    flow: Outgoing[str] = Outgoing(10)
    one, two = flow.begin("one", 1), flow.begin("two", 2)
    for wrong in (
        lambda: flow.pubrec(Pubrec(packet_id=one.packet_id)),
        lambda: flow.puback(Puback(packet_id=two.packet_id)),
        lambda: flow.pubcomp(Pubcomp(packet_id=two.packet_id)),
    ):
        with pytest.raises(MqttError) as caught:
            wrong()
        assert caught.value.reason is Reason.PROTOCOL_ERROR
    assert flow.puback(Puback(packet_id=99)) is None
    assert flow.pubrec(Pubrec(packet_id=99)) == Pubrel(packet_id=99, reason=Reason.PACKET_ID_NOT_FOUND)
