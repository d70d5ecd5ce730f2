"""The contract between a protocol and its driver: what a `Process` gets for nothing, and the names of things."""

import pytest

from antecede.core import AntecedeError, LimitError, Message, Outbox, Process, TopicMessageId, UsageError


class Ping(Process):
    """The least a protocol can be."""

    def publish(self, topic: str, payload: bytes) -> Message:
        message = Message(topic, self.node, 1, payload=payload)
        self.out.keep(("published", 1))
        self.out.send(9, message)
        self.out.deliver(message)
        self.out.wake_after(250, "retry")
        return message

    def receive(self, sender: int, packet: object) -> None:
        assert isinstance(packet, Message)
        self.out.deliver(packet)

    def size(self, packet: object) -> int:
        return 42

    def messages(self, packet: object) -> tuple[Message, ...]:
        return (packet,) if isinstance(packet, Message) else ()


def test_an_outbox_keeps_what_was_asked_in_order() -> None:
    ping = Ping(3)
    message = ping.publish("news", b"hello")
    ping.receive(9, Message("news", 9, 1))
    assert ping.out.kept == [("published", 1)]
    assert ping.out.sends == [(9, message)]
    assert ping.out.deliveries == [message, Message("news", 9, 1)]
    assert ping.out.timers == [(250, "retry")]


def test_a_cleared_outbox_is_empty_and_the_same_lists() -> None:
    """A driver may keep the lists: clearing does not replace them."""
    out = Outbox()
    lists = (out.kept, out.sends, out.deliveries, out.timers)
    out.keep(1)
    out.send(1, "packet")
    out.deliver(Message("t", 1, 1))
    out.wake_after(1, "timer")
    assert all(lists)
    out.clear()
    assert not any(lists)
    assert all(
        one is other for one, other in zip(lists, (out.kept, out.sends, out.deliveries, out.timers), strict=True)
    )


def test_each_process_has_its_own_outbox() -> None:
    one, other = Ping(1), Ping(2)
    one.publish("t", b"")
    assert other.out.sends == []


def test_what_a_protocol_need_not_say() -> None:
    ping = Ping(3)
    ping.start()
    ping.wake("stale")
    ping.peer_down(1)
    ping.peer_up(1)
    assert ping.held == 0
    assert ping.out.sends == []


@pytest.mark.parametrize("ask", ["subscribe", "unsubscribe"])
def test_a_broadcast_has_no_subscriptions(ask: str) -> None:
    with pytest.raises(UsageError, match="topic 'news': Ping is a broadcast; every node takes every message"):
        getattr(Ping(3), ask)("news")


def test_a_protocol_without_durable_state_says_so() -> None:
    with pytest.raises(UsageError, match="keeps no state across crashes"):
        Ping(3).restore([])


@pytest.mark.interpreted  # a compiled base class does not look
def test_a_protocol_must_say_what_it_does() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Process(1)  # type: ignore[abstract]


def test_a_message_has_a_name_and_does_not_change() -> None:
    message = Message("rooms/42", 7, 3, ((1, 2),), b"hi")
    assert message.id == TopicMessageId("rooms/42", 7, 3)
    assert str(message.id) == "rooms/42/7.3"
    with pytest.raises(AttributeError):
        message.seq = 4  # type: ignore[misc]


def test_one_except_catches_all() -> None:
    with pytest.raises(AntecedeError, match="frame is 9, the limit is 8; send less"):
        raise LimitError("frame", 9, 8, "send less")
    assert issubclass(UsageError, AntecedeError)
