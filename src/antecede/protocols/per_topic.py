"""Runs a broadcast protocol on several topics: an independent instance for each, made when the topic first occurs.

Messages of different topics are not related, as the thesis assumes (5.4).
"""

from collections.abc import Callable, Hashable

from antecede.core import Message, Packet, Process
from antecede.core.process import Outbox


class PerTopic(Process):
    """One process for each topic; all write to one outbox."""

    def __init__(self, node: int, make_process: Callable[[int], Process]) -> None:
        super().__init__(node)
        self._make_process = make_process
        self._instances: dict[str, Process] = {}
        self._any = make_process(node)

    def publish(self, topic: str, payload: bytes) -> Message | None:
        return self._instance(topic).publish(topic, payload)

    def receive(self, sender: int, packet: Packet) -> None:
        self._instance(packet.messages[0].topic).receive(sender, packet)

    def wake(self, timer: Hashable) -> None:
        assert isinstance(timer, tuple)
        topic, inner = timer
        self._instance(topic).wake(inner)

    def size(self, packet: Packet) -> int:
        return self._any.size(packet)

    @property
    def held(self) -> int:
        return sum(instance.held for instance in self._instances.values())

    def _instance(self, topic: str) -> Process:
        instance = self._instances.get(topic)
        if instance is None:
            instance = self._instances[topic] = self._make_process(self.node)
            instance.out = _TopicOutbox(topic, self.out)
        return instance


class _TopicOutbox(Outbox):
    """Writes to the shared outbox, and adds the topic to timers."""

    __slots__ = ("_topic",)

    def __init__(self, topic: str, shared: Outbox) -> None:
        self._topic = topic
        self.kept = shared.kept
        self.sends = shared.sends
        self.deliveries = shared.deliveries
        self.out_of_order = shared.out_of_order
        self.changes = shared.changes
        self.timers = shared.timers
        self.acknowledgements = shared.acknowledgements

    def wake_after(self, delay_us: int, timer: Hashable) -> None:
        super().wake_after(delay_us, (self._topic, timer))
