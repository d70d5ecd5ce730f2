"""A member of a group whose clock has R entries, of which each process uses K (Mostéfaoui & Weiss, PaCT 2017).

A process counts messages in a vector of R entries. To publish, it increments its K entries, and sends the vector with
the message. A message of a process with the entries F is deliverable when the receiver's vector has reached the
message's: V[x] ≥ m.V[x] − 1 for x in F, and V[x] ≥ m.V[x] for all others. On delivery the receiver increments the
entries in F.

Several processes share an entry. A message that ought to wait for one process may be let through because others have
incremented the same entries, so causal order, and even the order of one source, may be violated. The protocol promises
neither; the audit counts the violations (`experiments/rivals`). With K = 1 and an entry for each process the vector is
a vector clock, and nothing is violated. No message waits for ever: those published before it fill its entries.

As published, a process draws its K entries at random, knows no membership, and trusts a reliable broadcast below.
Assumed here: that broadcast sends each message directly to every member; links lose nothing and nodes do not crash.
Copies are recognised by their sequence numbers. Membership is fixed. Not built: the paper's alert on deliveries that
may be wrong, and the repair that an application may do then.

Bytes: 4 for each entry of the vector and 4 for the number of the set F, which names its K entries.
"""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from msgspec import Meta

from antecede.core import Counters, Message, MessagePacket, Packet
from antecede.core.numbers import NumberSet
from antecede.protocols.fixed_members import FixedMembers
from antecede.protocols.options import Founders

#: Bytes as for the other rivals: a packet's header, the name of a message (group, source, number), an entry.
HEADER, NAME, ENTRY = 20, 10, 4

#: Most entries of a vector.
ENTRIES_MAX = 4096

Entry: TypeAlias = Annotated[int, Meta(ge=0, lt=ENTRIES_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]


class Stamped(MessagePacket, frozen=True, gc=False, tag="probabilistic.stamped"):
    """A message with the vector of its publisher, and the entries that the publisher uses."""

    keys: Annotated[tuple[Entry, ...], Meta(max_length=ENTRIES_MAX)]
    vector: Annotated[tuple[Count, ...], Meta(max_length=ENTRIES_MAX)]


class ProbabilisticClocks(FixedMembers):
    """A member that counts messages in `entries` counters, of which it uses `keys` itself."""

    def __init__(self, node: int, members: Founders, *, entries: int, keys: Sequence[int]) -> None:
        self._members = {topic: sorted(nodes) for topic, nodes in members.items() if node in nodes}
        super().__init__(node, self._members)
        self._entries = entries
        self._keys = tuple(keys)
        self._seq: dict[str, int] = {}
        self._seen: dict[tuple[str, int], NumberSet] = {}
        #: By topic: the vector, and the messages that wait for it.
        self._vectors: dict[str, Counters[Stamped]] = {topic: Counters() for topic in self._members}

    # -- the application -----------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        self._check_member(topic)
        seq = self._seq[topic] = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        self._seen_of(message).add(seq)
        ready = self._count(topic, self._keys)
        level = self._vectors[topic].level
        packet = Stamped(message, self._keys, tuple([level.get(entry, 0) for entry in range(self._entries)]))
        self.out.deliver(message)
        for member in self._members[topic]:
            if member != self.node:
                self.out.send(member, packet)
        self._deliver(ready)
        return message

    # -- packets -------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Stamped):
            self._refuse(sender, packet)
        message = packet.message
        vector = self._vectors.get(message.topic)
        if vector is None or len(packet.vector) != self._entries or not set(packet.keys) <= set(range(self._entries)):
            self._refuse(sender, packet)
        if not self._seen_of(message).add(message.seq):
            return  # a copy
        needs = [(entry, count - (entry in packet.keys)) for entry, count in enumerate(packet.vector)]
        if vector.wait(packet, needs):
            self._deliver([packet])

    def size(self, packet: Packet) -> int:
        payload = sum([len(message.payload) for message in packet.messages])
        return HEADER + NAME + ENTRY * (self._entries + 1) + payload

    @property
    def held(self) -> int:
        return sum([vector.waiting for vector in self._vectors.values()])

    # -- inside --------------------------------------------------------------------------------------------------------

    def _deliver(self, ready: list[Stamped]) -> None:
        for packet in ready:  # grows during the loop
            self.out.deliver(packet.message)
            ready += self._count(packet.message.topic, packet.keys)

    def _count(self, topic: str, keys: Sequence[int]) -> list[Stamped]:
        """Increment these entries. Returns the messages that became deliverable."""
        vector = self._vectors[topic]
        return [free for entry in keys for free in vector.raise_to(entry, vector.level.get(entry, 0) + 1)]

    def _seen_of(self, message: Message) -> NumberSet:
        return self._seen.setdefault((message.topic, message.source), NumberSet())
