"""pbcast, bimodal multicast (Birman et al., TOCS 1999; Kim & Ahn compare with it).

A message is first sent to all members, unreliably. Then, in rounds, each node that has it tells a few members, drawn
from all, what it has (a *digest* of names, not messages), and a member that lacks a message asks for it. Almost all
members get it, or almost none. A source's messages are delivered in order. A message that has not come when no node
tells of it any more is given up. Messages of different sources are not ordered.
"""

from antecede.core import Gate, Message, MessagePacket, Packet
from antecede.core.rng import Rng
from antecede.protocols.gossip.epidemic import Epidemic, Names, Rounds
from antecede.protocols.options import Founders


class Multicast(MessagePacket, frozen=True, gc=False, tag="pbcast.multicast"):
    """A message, sent once to all members."""


class Have(Packet, frozen=True, gc=False, tag="pbcast.have"):
    """The messages that the sender can be asked for."""

    names: Names


class Pbcast(Epidemic):
    """A member that knows all members."""

    def __init__(self, node: int, rounds: Rounds, rng: Rng, members: Founders, *, multicast: bool) -> None:
        """`multicast`: if false, a message spreads by gossip alone."""
        super().__init__(node, rounds, rng, members)
        self._multicast = multicast
        self._gate: Gate[Message] = Gate()
        #: Messages that wait for an earlier one of their source, and the round in which each came.
        self._waiting: dict[tuple[str, int, int], int] = {}

    @property
    def held(self) -> int:
        return self._gate.held

    def publish(self, topic: str, payload: bytes) -> Message:
        message = super().publish(topic, payload)
        if self._multicast:
            packet = Multicast(message)
            for member in self._members[topic]:
                if member != self.node and member not in self._down:
                    self.out.send(member, packet)
        return message

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Multicast():
                self._take([packet.message])
            case Have():
                self._ask_for_the_unseen(sender, packet.names)
            case _:
                super().receive(sender, packet)

    def size(self, packet: Packet) -> int:
        return self._sizes.packet((), len(packet.names)) if isinstance(packet, Have) else super().size(packet)

    def _tell(self) -> None:
        for topic in sorted({name[0] for name in self._store}):
            packet = Have(tuple([name for name in self._store if name[0] == topic]))
            for member in self._draw(self._members[topic]):
                self.out.send(member, packet)
        self._give_up()

    def _new(self, message: Message) -> None:
        stream = (message.topic, message.source)
        self._gate.offer(message, ((stream, message.seq),))
        self._waiting[message.id] = self._round
        self._deliver()

    def _deliver(self) -> None:
        for message in self._gate.drain():
            self._waiting.pop(message.id, None)
            self.out.deliver(message)

    def _give_up(self) -> None:
        """Give up the messages before one that has waited for as long as any node tells of them."""
        for (topic, source, seq), since in sorted(self._waiting.items()):
            if self._round - since >= self._rounds.young:
                self._gate.skip((topic, source), seq - 1)
        self._deliver()
