"""Total notification order over another protocol, which is its event service.

The two do not know each other. The layer's events are the service's payloads; the service's deliveries go to the layer,
and what the layer notifies is delivered to the application. An event has one name in both, so a trace shows its way.
"""

from collections.abc import Hashable, Iterable
from typing import ClassVar

from antecede.core import Message, Packet, Process, TopicMessageId
from antecede.core.native import mypyc_attr
from antecede.core.process import Change
from antecede.protocols.layered import Layered
from antecede.protocols.tno.module import TIMERS, OrderingModule
from antecede.protocols.tno.outbox import ModuleOutbox
from antecede.protocols.tno.packets import PACKETS
from antecede.protocols.tno.records import RECORDS
from antecede.protocols.tno.sizes import control_bytes


@mypyc_attr(allow_interpreted_subclasses=True)
class TotalOrder(Layered):
    """A node: an ordering module, and the process of the event service below it."""

    reports_membership: ClassVar[bool] = True

    def __init__(self, module: OrderingModule, inner: Process) -> None:
        super().__init__(inner.node)
        self.module = module
        self.inner = inner
        self._ours: ModuleOutbox = module.out
        self.out = module.out
        # Both share the lists of kept records, sends and timers, which keep the order of asking. Deliveries and changes
        # of the service are inputs of the layer.
        inner.out.kept, inner.out.sends, inner.out.timers = self.out.kept, self.out.sends, self.out.timers
        inner.out.acknowledgements = self.out.acknowledgements
        self._restored = False

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        message = self.module.publish(topic, payload)
        self._settle()
        return message

    def subscribe(self, topic: str) -> None:
        self.module.subscribe(topic)
        self._settle()

    def unsubscribe(self, topic: str) -> None:
        self.module.unsubscribe(topic)
        self._settle()

    # -- packets, timers, suspicions ----------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        (self.module if isinstance(packet, PACKETS) else self.inner).receive(sender, packet)
        self._settle()

    def wake(self, timer: Hashable) -> None:
        (self.module if isinstance(timer, TIMERS) else self.inner).wake(timer)
        self._settle()

    def peer_down(self, node: int) -> None:
        self.inner.peer_down(node)
        self.module.peer_down(node)
        self._settle()

    def peer_up(self, node: int) -> None:
        self.inner.peer_up(node)
        self.module.peer_up(node)
        self._settle()

    def size(self, packet: Packet) -> int:
        return control_bytes(packet) if isinstance(packet, PACKETS) else self.inner.size(packet)

    @property
    def held(self) -> int:
        return self.module.held + self.inner.held

    # -- crashes ------------------------------------------------------------------------------------------------

    def restore(self, records: Iterable[object]) -> None:
        kept = list(records)
        self._restored = True
        others = [record for record in kept if not isinstance(record, RECORDS)]
        if others:
            self.inner.restore(others)
        self.module.restore(kept)

    def start(self) -> None:
        self.inner.start()
        if self._restored:
            self.module.restart(self.inner.takes)
        self._settle()

    # -- questions ----------------------------------------------------------------------------------------------

    def wants(self, topic: str) -> bool:
        return self.module.wants(topic)

    def takes(self, topic: str) -> bool:
        return self.module.takes(topic)

    def leaving(self, topic: str) -> bool:
        return not self.module.wants(topic) and (self.inner.wants(topic) or self.inner.takes(topic))

    def last_published(self, topic: str) -> int:
        return self.module.published(topic)

    @property
    def backlog(self) -> int:
        return self.module.backlog

    def holding(self) -> list[TopicMessageId]:
        return [*(message.id for message in self.module.waiting()), *self.inner.holding()]

    @property
    def epoch(self) -> int:
        """The latest epoch of an event that was notified in order here."""
        return self.module.epoch

    def unfinished(self) -> list[str]:
        return [*self.module.unfinished(), *self.inner.unfinished()]

    # -- between the two ----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Exchange calls and reports until neither has any left."""
        inner = self.inner.out
        while self._ours.ens or inner.deliveries or inner.changes:
            self._call()
            self._hear()

    def _call(self) -> None:
        """Make the calls that the layer asks for."""
        calls = self._ours.ens.copy()
        self._ours.ens.clear()
        for what, topic, data in calls:
            if what == "publish":
                if self.inner.publish(topic, data) is not None:
                    self._hear()  # a publisher's own event reaches itself first
                    self.module.ens_published(topic)
            elif what == "subscribe":
                self.inner.subscribe(topic)
                if not self.inner.reports_membership:
                    self.module.ens_joined(topic)
            else:
                self.inner.unsubscribe(topic)
                if not self.inner.reports_membership:
                    self.module.ens_left(topic)

    def _hear(self) -> None:
        """Give the layer what the service delivers and reports, in order."""
        inner = self.inner.out
        deliveries, changes = inner.deliveries.copy(), inner.changes.copy()
        inner.deliveries.clear()
        inner.changes.clear()
        place = 0
        for change in changes:
            self._notify(deliveries[place : change.after])
            place = change.after
            self._changed(change)
        self._notify(deliveries[place:])

    def _notify(self, deliveries: list[Message]) -> None:
        for message in deliveries:
            self.module.ens_notified(message.topic, message.payload)

    def _changed(self, change: Change) -> None:
        if change.what == "publish":
            self.module.ens_published(change.topic)
        elif change.what == "subscribe":
            self.module.ens_joined(change.topic)
        else:
            self.module.ens_left(change.topic)
