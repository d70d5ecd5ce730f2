"""A node that publishes through sequencing atoms, hosts some of them, and delivers by their numbers.

A publisher sends its message to the first atom of its group. The message passes the chain of atoms up to the last one
of its group. The first atom gives it its number within the group. Each atom of an overlap of its group gives it a
further number, which it shares with the messages of the other group. The host of the last atom sends the message to all
members. A member delivers a message when it has delivered the one before it in its group, and the one before it in each
overlap that the member belongs to. All members of an overlap so deliver the messages of both groups in one order.

The order is causal within a group. Across groups it is not: a publisher does not wait until its message has passed the
atoms, and groups that share one member have no atom.

Assumed, as in the paper: FIFO links between publisher and atoms, and from atom to atom; links lose nothing and nodes do
not crash. Groups do not change: the network would have to be built anew. Assumed beyond that: the host of the last atom
sends to each member directly; the paper has a tree for that.

Bytes: 8 for a message's name, 4 for a number of a group or a link, 8 for an atom and its number.
"""

from typing import Annotated

from msgspec import Meta

from antecede.core import Gate, Message, MessagePacket, Packet, ProtocolError
from antecede.core.gate import FULL, Need
from antecede.core.message import Seq
from antecede.protocols.fifo_links import NUMBER, FifoLinks, Linked
from antecede.protocols.fixed_members import FixedMembers
from antecede.protocols.sequencing_atoms.network import SequencingNetwork

#: Bytes as for the other rivals: a packet's header, a group, the name of a message, an atom with its number.
HEADER, GROUP, NAME, ENTRY = 20, 2, 8, 8

#: Most atoms of a group.
ATOMS_MAX = 65_536

AtomIndex = Annotated[int, Meta(ge=0)]
Numbers = Annotated[tuple[tuple[AtomIndex, Seq], ...], Meta(max_length=ATOMS_MAX)]


class Passing(Linked, frozen=True, gc=False, tag="atoms.passing"):
    """A message on its way to atom `at`, with its numbers so far. `place` is its number in the group; 0: none yet."""

    message: Message
    at: AtomIndex
    place: Annotated[int, Meta(ge=0)]
    numbers: Numbers

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Sequenced(MessagePacket, frozen=True, gc=False, tag="atoms.sequenced"):
    """A message with all its numbers, on its way to a member."""

    place: Seq
    numbers: Numbers


class SequencingAtoms(FixedMembers):
    """A member of some groups, and the host of some atoms."""

    def __init__(self, node: int, network: SequencingNetwork) -> None:
        self._network = network
        super().__init__(node, [topic for topic, members in network.groups.items() if node in members])
        self._links: FifoLinks[Passing] = FifoLinks()
        self._seq: dict[str, int] = {}
        #: At a host: the last number of each group that begins here, and of each atom.
        self._places: dict[str, int] = {}
        self._counts: dict[int, int] = {}
        self._gate: Gate[Message] = Gate()

    # -- publisher -----------------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        """Publish. This node delivers the message, too, when it comes back with its numbers."""
        self._check_member(topic)
        seq = self._seq[topic] = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        first, _ = self._network.spans[topic]
        self._pass_on(message, first, 0, ())
        return message

    # -- packets -------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Passing() if packet.message.topic in self._network.spans:
                for ready in self._links.take(sender, packet):
                    self._pass_on(ready.message, ready.at, ready.place, ready.numbers)
            case Sequenced() if packet.message.topic in self._taken:
                self._take(packet)
            case _:
                self._refuse(sender, packet)

    def size(self, packet: Packet) -> int:
        size = HEADER + GROUP + NAME + NUMBER + sum([len(message.payload) for message in packet.messages])
        if isinstance(packet, Passing):
            return size + NUMBER + NUMBER + ENTRY * len(packet.numbers)
        return size + (ENTRY * len(packet.numbers) if isinstance(packet, Sequenced) else 0)

    @property
    def held(self) -> int:
        return self._gate.held + self._links.held

    # -- atoms ---------------------------------------------------------------------------------------------------------

    def _pass_on(self, message: Message, at: int, place: int, numbers: tuple[tuple[int, int], ...]) -> None:
        """Number the message at the atoms that this node hosts, and send it to the next one or to the members."""
        topic = message.topic
        first, last = self._network.spans[topic]
        while at <= last:
            atom = self._network.atoms[at]
            if atom.host != self.node:
                self.out.send(atom.host, Passing(self._links.next(atom.host), message, at, place, numbers))
                return
            if at == first:
                place = self._places[topic] = self._places.get(topic, 0) + 1
            if topic in atom.groups and len(atom.groups) > 1:
                number = self._counts[at] = self._counts.get(at, 0) + 1
                numbers = (*numbers, (at, number))
            at = self._after(topic, at)
        packet = Sequenced(message, place, numbers)
        for member in self._network.groups[topic]:
            if member != self.node:
                self.out.send(member, packet)
        if topic in self._taken:
            self._take(packet)

    def _after(self, topic: str, at: int) -> int:
        """The atom that a message passes after this one: the next of the chain, also if it is of other groups."""
        return at + 1

    # -- receiver ------------------------------------------------------------------------------------------------------

    def _take(self, packet: Sequenced) -> None:
        message = packet.message
        position: list[Need] = [(message.topic, packet.place)]
        position += [(at, number) for at, number in packet.numbers if self.node in self._network.atoms[at].members]
        if self._gate.offer(message, position) is FULL:
            raise ProtocolError(f"node {self.node} holds {self._gate.held} messages and cannot take {message.id}")
        for ready in self._gate.drain():
            self.out.deliver(ready)
