"""A member of a group whose packets carry the causal past of their messages (Birman & Joseph 1987; thesis 3.3).

A member keeps each message until it is *stable*: every member has acknowledged it. A packet to a member has the new
message and, in front of it, every kept message that this member has not acknowledged. The receiver delivers what it
lacks, in the order of the packet, and skips the rest. What it lacks of a message's past is in the same packet, so it
never waits for another one, whatever the network reorders. The price is the size of packets: unstable messages travel
again and again.

Acknowledgements are collected and sent to all members. As long as a member has not acknowledged a message, the source
repeats it, with its past, so lost packets delay messages and lose none. Assumed: members send to each other directly,
do not crash, and do not change; the paper's protocol runs on ISIS, which has views for that. A member that has missed
acknowledgements keeps messages for longer than it must.
"""

from collections.abc import Hashable
from typing import Annotated, Final

from msgspec import Meta

from antecede.core import Dependency, Message, Packet, ProtocolError
from antecede.core.message import Topic
from antecede.protocols.fixed_members import FixedMembers
from antecede.protocols.options import Founders

#: Bytes as for the other rivals: a packet's header, a group, the name of a message (source, number).
HEADER, GROUP, NAME = 20, 2, 8

#: Most messages or acknowledgements in a packet.
ITEMS_MAX = 65_536

_ACK: Final = "ack"
_RETRY: Final = "retry"


class History(Packet, frozen=True, gc=False, tag="history.history"):
    """Messages in the order in which the sender delivered them; the new one is the last."""

    bundle: Annotated[tuple[Message, ...], Meta(max_length=ITEMS_MAX)]

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.bundle


class HistoryAck(Packet, frozen=True, gc=False, tag="history.ack"):
    """By source: the sender has delivered its messages up to this number."""

    topic: Topic
    levels: Annotated[tuple[Dependency, ...], Meta(max_length=ITEMS_MAX)]


class _Group:
    """One topic at one member."""

    def __init__(self, node: int, others: list[int]) -> None:
        self.node = node
        self.others = others
        self.levels: dict[int, int] = {}
        #: Messages that some member may lack, in the order of delivery, and how many have not acknowledged each.
        self.kept: dict[Dependency, Message] = {}
        self._lacking: dict[Dependency, int] = {}
        #: By member and source: what it has acknowledged.
        self._acked: dict[int, dict[int, int]] = {other: {} for other in others}
        #: Sources whose messages came since the last acknowledgement.
        self.news: set[int] = set()

    def deliver(self, message: Message) -> None:
        """Count a message as delivered here, and keep it while a member may lack it."""
        source, seq = message.source, message.seq
        self.levels[source] = seq
        if lacking := sum([levels.get(source, 0) < seq for levels in self._acked.values()]):
            self.kept[source, seq] = message
            self._lacking[source, seq] = lacking

    def acknowledged(self, member: int, source: int, seq: int) -> None:
        levels = self._acked[member]
        for number in range(levels.get(source, 0) + 1, seq + 1):
            name = (source, number)
            if name in self._lacking:
                self._lacking[name] -= 1
                if not self._lacking[name]:
                    del self._lacking[name], self.kept[name]
        levels[source] = max(seq, levels.get(source, 0))

    def for_member(self, member: int) -> tuple[Message, ...]:
        """What this member has not acknowledged, in the order of delivery."""
        levels = self._acked[member]
        return tuple([message for (source, seq), message in self.kept.items() if levels.get(source, 0) < seq])

    def owed(self) -> list[int]:
        """The members that have not acknowledged all messages of this node."""
        last = self.levels.get(self.node, 0)
        return [member for member in self.others if self._acked[member].get(self.node, 0) < last]


class MessageHistory(FixedMembers):
    """A member that sends the unstable past of its messages with them."""

    def __init__(self, node: int, members: Founders, *, ack_us: int, retry_us: int) -> None:
        self._groups = {
            topic: _Group(node, sorted(set(nodes) - {node})) for topic, nodes in members.items() if node in nodes
        }
        super().__init__(node, self._groups)
        self._ack_us = ack_us
        self._retry_us = retry_us
        self._acking = self._retrying = False

    # -- the application -----------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        self._check_member(topic)
        group = self._groups[topic]
        message = Message(topic, self.node, group.levels.get(self.node, 0) + 1, (), payload)
        group.deliver(message)
        self.out.deliver(message)
        for member in group.others:
            self.out.send(member, History(group.for_member(member)))
        self._arm_retry()
        return message

    # -- packets and timers --------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case History():
                for message in packet.bundle:
                    self._take(sender, packet, message)
            case HistoryAck() if packet.topic in self._groups and sender in self._groups[packet.topic].others:
                for source, seq in packet.levels:
                    self._groups[packet.topic].acknowledged(sender, source, seq)
            case _:
                self._refuse(sender, packet)

    def wake(self, timer: Hashable) -> None:
        if timer == _ACK:
            self._acking = False
            for topic, group in self._groups.items():
                self._acknowledge(topic, group)
            return
        self._retrying = False
        for group in self._groups.values():
            for member in group.owed():
                self.out.send(member, History(group.for_member(member)))
        self._arm_retry()

    def size(self, packet: Packet) -> int:
        entries = len(packet.levels) if isinstance(packet, HistoryAck) else 0
        carried = sum([NAME + len(message.payload) for message in packet.messages])
        return HEADER + GROUP + NAME * entries + carried

    @property
    def held(self) -> int:
        return 0

    def unfinished(self) -> list[str]:
        return [
            f"waits for {len(owed)} members to acknowledge its messages on {topic}"
            for topic, group in self._groups.items()
            if (owed := group.owed())
        ]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _take(self, sender: int, packet: Packet, message: Message) -> None:
        group = self._groups.get(message.topic)
        if group is None or sender not in group.others:
            self._refuse(sender, packet)
        source, seq = message.source, message.seq
        reached = group.levels.get(source, 0)
        if seq > reached + 1:
            raise ProtocolError(f"node {self.node} got {message.id} from {sender} without {source}.{reached + 1}")
        if seq > reached:
            group.deliver(message)
            self.out.deliver(message)
        group.acknowledged(sender, source, seq)  # it has what it sends
        group.news.add(source)
        if not self._acking:
            self._acking = True
            self.out.wake_after(self._ack_us, _ACK)

    def _acknowledge(self, topic: str, group: _Group) -> None:
        if group.news:
            packet = HistoryAck(topic, tuple([(source, group.levels[source]) for source in sorted(group.news)]))
            group.news.clear()
            for member in group.others:
                self.out.send(member, packet)

    def _arm_retry(self) -> None:
        if not self._retrying and any(group.owed() for group in self._groups.values()):
            self._retrying = True
            self.out.wake_after(self._retry_us, _RETRY)
