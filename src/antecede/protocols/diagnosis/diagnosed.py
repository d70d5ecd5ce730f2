"""Runs a protocol together with VCube's diagnosis, as one process."""

from collections.abc import Callable, Hashable, Iterable, Sequence

from antecede.core import Message, Packet, Process, TopicMessageId
from antecede.protocols.diagnosis.packets import Probe, Reply
from antecede.protocols.diagnosis.process import TIMERS, Diagnosis, Tell
from antecede.protocols.diagnosis.records import Life
from antecede.protocols.layered import Layered


class Diagnosed(Layered):
    """A protocol with its failure detector, as one process. The protocol does not notice the detector."""

    reports_membership = True

    def __init__(self, process: Process, make_diagnosis: Callable[[Tell], Diagnosis]) -> None:
        super().__init__(process.node)
        self.inner = process
        self.reads_log = process.reads_log
        self.diagnosis = make_diagnosis(self._changed)
        # Both share the protocol's outbox, which its parts may hold, so outputs keep the order they were written in.
        self.out = self.diagnosis.out = process.out

    def publish(self, topic: str, payload: bytes) -> Message | None:
        return self.inner.publish(topic, payload)

    def publish_run(self, topic: str, payloads: Sequence[bytes]) -> list[Message]:
        return self.inner.publish_run(topic, payloads)

    def subscribe(self, topic: str) -> None:
        self.inner.subscribe(topic)
        if not self.inner.reports_membership:
            self.out.joined(topic)

    def unsubscribe(self, topic: str) -> None:
        self.inner.unsubscribe(topic)
        if not self.inner.reports_membership:
            self.out.left(topic)

    def receive(self, sender: int, packet: Packet) -> None:
        if isinstance(packet, Probe | Reply):
            self.diagnosis.receive(sender, packet)
        else:
            self.diagnosis.hear(sender)
            self.inner.receive(sender, packet)

    def wake(self, timer: Hashable) -> None:
        (self.diagnosis if isinstance(timer, TIMERS) else self.inner).wake(timer)

    def found(self, topic: str, source: int, first: int, last: int, messages: Sequence[Message]) -> None:
        self.inner.found(topic, source, first, last, messages)

    def size(self, packet: Packet) -> int:
        return (self.diagnosis if isinstance(packet, Probe | Reply) else self.inner).size(packet)

    def start(self) -> None:
        self.inner.start()
        self.diagnosis.start()

    def restore(self, records: Iterable[object]) -> None:
        kept = list(records)
        self.diagnosis.restore(kept)
        others = [record for record in kept if not isinstance(record, Life)]
        if others:
            self.inner.restore(others)

    def vacate(self, node: int) -> None:
        """The diagnosis does not test the number until a node appears."""
        self.diagnosis.vacate(node)
        self.inner.vacate(node)

    def peer_down(self, node: int) -> None:
        """Report a suspicion from outside, beside those of the diagnosis."""
        self.inner.peer_down(node)

    def peer_up(self, node: int) -> None:
        """A node has this number."""
        self.diagnosis.occupy(node)
        self.inner.peer_up(node)

    def forget(self, node: int, epoch: int) -> None:
        self.inner.forget(node, epoch)

    def compact(self, records: Sequence[object]) -> list[object]:
        lives = [record for record in records if isinstance(record, Life)]
        return [*lives[-1:], *self.inner.compact([record for record in records if not isinstance(record, Life)])]

    # -- questions go to the protocol ---------------------------------------------------------------------------

    def check(self, packets: Sequence[Packet]) -> None:
        self.inner.check(packets)

    def takes(self, topic: str) -> bool:
        return self.inner.takes(topic)

    def wants(self, topic: str) -> bool:
        return self.inner.wants(topic)

    def leaving(self, topic: str) -> bool:
        return self.inner.leaving(topic)

    def delivered(self, topic: str) -> dict[int, int]:
        return self.inner.delivered(topic)

    def last_published(self, topic: str) -> int:
        return self.inner.last_published(topic)

    def last_before(self, topic: str, source: int, epoch: int) -> int:
        return self.inner.last_before(topic, source, epoch)

    def stamps_now(self, topic: str) -> bool:
        return self.inner.stamps_now(topic)

    @property
    def backlog(self) -> int:
        return self.inner.backlog

    @property
    def held(self) -> int:
        return self.inner.held

    def holding(self) -> list[TopicMessageId]:
        return self.inner.holding()

    @property
    def given_up(self) -> int:
        return self.inner.given_up

    def unfinished(self) -> list[str]:
        return self.inner.unfinished()

    def _changed(self, node: int, up: bool) -> None:
        if up:
            self.inner.peer_up(node)
        else:
            self.inner.peer_down(node)
