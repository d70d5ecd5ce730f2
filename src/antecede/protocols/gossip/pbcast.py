"""pbcast, bimodal multicast (Birman, Hayden, Ozkasap, Xiao, Budiu, Minsky; TOCS 1999): Kim & Ahn's [4].

A message is first sent to everybody, unreliably. Then, in rounds, whoever has it tells a few members drawn from all of
them what it has (a *digest* of names, not the messages), and who lacks something asks for it. Almost everybody gets it,
or almost nobody. A source's messages are delivered in their order; one that has not come when all who could have it
stopped telling of it is given up. Across sources nothing is ordered.
"""

from collections.abc import Collection, Mapping

from antecede.core import Gate, Message, Packet
from antecede.core.rng import Rng
from antecede.protocols.gossip.epidemic import Epidemic, Names, Rounds


class Multicast(Packet, frozen=True, gc=False, tag="pbcast.multicast"):
    """A message, to everybody, once."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Have(Packet, frozen=True, gc=False, tag="pbcast.have"):
    """What the sender can be asked for."""

    names: Names


class Pbcast(Epidemic):
    """A member. It knows all members."""

    def __init__(
        self, node: int, rounds: Rounds, chance: Rng, members: Mapping[str, Collection[int]], *, multicast: bool
    ) -> None:
        """`multicast`: without it a message spreads by gossip alone."""
        super().__init__(node, rounds, chance, members)
        self._multicast = multicast
        self._gate: Gate[Message] = Gate()
        #: What waits for an earlier one of its source: the round in which it came.
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
        """What is before a message that has waited as long as anybody tells of it does not come any more."""
        for (topic, source, seq), since in sorted(self._waiting.items()):
            if self._round - since >= self._rounds.young:
                self._gate.skip((topic, source), seq - 1)
        self._deliver()
