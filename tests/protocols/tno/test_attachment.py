"""A service that takes its time is believed only when it speaks of the last thing it was asked."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message
from antecede.protocols.tno import ModuleOutbox, OrderingModule, Settings, encode_event
from antecede.protocols.tno.attachment import Attachments
from antecede.protocols.tno.packets import SubAck, SubDone


class SlowService:
    """Does what it was asked one after the other, reports each, and may break off and begin anew by itself."""

    def __init__(self) -> None:
        self.out = ModuleOutbox()
        self.layer = Attachments(self.out, ())
        self.asked: deque[str] = deque()
        self.gives = False
        self.wants = False

    def hear(self) -> None:
        for call in self.out.ens:
            if (call.what == "subscribe") != self.wants:  # what was asked already says nothing new
                self.wants = not self.wants
                self.asked.append(call.what)
        self.out.clear()

    def go_on(self) -> None:
        if self.asked:
            self.gives = self.asked.popleft() == "subscribe"
            (self.layer.joined if self.gives else self.layer.left)("t")

    def break_off(self) -> None:
        if self.gives:
            self.gives = False
            self.asked.appendleft("subscribe")
            self.layer.left("t")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["want", "leave", "go on"]), max_size=60))
def test_what_is_given_is_given(steps: list[str]) -> None:
    service, wanted = SlowService(), False
    for step in [*steps, *["go on"] * 10]:
        wanted = wanted if step == "go on" else step == "want"
        if step == "go on":
            service.go_on()
        if wanted:
            service.layer.need("t")
        else:
            for topic in service.layer.besides(set()):
                service.layer.release(topic)
        service.hear()
        assert not service.layer.gives("t") or (service.gives and not service.asked)
    assert service.layer.gives("t") == service.gives == wanted


@settings(deadline=None)
@given(st.lists(st.sampled_from(["want", "leave", "go on", "break off"]), max_size=60))
def test_a_service_that_breaks_off_comes_to_rest_as_wanted(steps: list[str]) -> None:
    service, wanted = SlowService(), False
    for step in [*steps, *["go on"] * 20]:
        wanted = wanted if step not in ("want", "leave") else step == "want"
        if step == "go on":
            service.go_on()
        elif step == "break off":
            service.break_off()
        if wanted:
            service.layer.need("t")
        else:
            for topic in service.layer.besides(set()):
                service.layer.release(topic)
        service.hear()
    assert service.layer.gives("t") == service.gives == wanted


def said(node: OrderingModule) -> list[str]:
    """What it asked of the service and of managers since the last time."""
    calls = [call.what for call in node.out.ens] + [packet.kind for _, packet in node.out.sends]
    node.out.clear()
    return calls


def test_the_report_of_a_subscription_that_was_taken_back_is_not_believed() -> None:
    """Seed 5613 of the search: managers were asked from which number on while the service had still to begin anew."""
    node = OrderingModule(
        0, Settings(managers=lambda topic: (1,), founders={0: frozenset({"a"})}, retry_us=100, ack_us=10)
    )
    node.unsubscribe("a")
    node.subscribe("t")
    node.unsubscribe("t")
    node.receive(1, SubAck("a", 1))
    node.receive(1, SubAck("t", 2))
    assert said(node) == ["subscribe", "unsubscribe", "updatesub", "updatesub"]  # the second is of a
    node.ens_joined("t")
    assert said(node) == ["unsubscribe"]
    node.subscribe("t")
    assert said(node) == ["subscribe"]
    node.ens_left("t")
    assert said(node) == []
    node.ens_joined("t")
    assert said(node) == ["fillsub"]


def test_who_changes_its_mind_twice_takes_the_topic_in_the_end() -> None:
    """The first subscription is answered after it was taken back; the second still has to be."""
    node = OrderingModule(0, Settings(managers=lambda topic: (1,), retry_us=100, ack_us=10))
    node.subscribe("t")
    node.unsubscribe("t")
    node.subscribe("t")
    node.ens_joined("t")
    node.receive(1, SubDone(1, (("t", 7),)))
    assert not node.takes("t")
    event = encode_event(Message("t", 5, 1), 0, 10, (), ())
    node.ens_notified("t", event)
    node.receive(1, SubAck("t", 2))
    node.receive(1, SubDone(3, (("t", 9),)))
    assert node.takes("t")
    assert [message.source for message in node.out.deliveries] == [5]
    assert [change.what for change in node.out.changes] == ["subscribe"]


def test_an_answer_of_before_the_service_broke_off_is_not_believed() -> None:
    """What the service gave till then may be all there was; what it gives from then on begins later."""
    node = OrderingModule(0, Settings(managers=lambda topic: (1,), retry_us=100, ack_us=10))
    node.subscribe("t")
    node.ens_joined("t")
    node.ens_left("t")
    node.receive(1, SubDone(1, (("t", 7),)))
    assert not node.takes("t")
    said(node)
    node.ens_joined("t")
    assert said(node) == ["fillsub"]
    node.receive(1, SubDone(3, (("t", 9),)))
    assert node.takes("t")
