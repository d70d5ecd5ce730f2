"""Causal Barriers (Prakash, Raynal and Singhal 1996): direct dependencies, by destination. LoCaMu's reference [6].

A node keeps for every destination the messages that whatever it sends there next depends on directly: a row of the
barrier matrix CB. All rows travel with every message, since what is sent to one may be passed on to another. Sending to
a group empties the rows of its members but for the message itself, which covers all that was there. Delivering a
message brings the rows it carried: for its own destinations they are covered by it, for the others they are added.

A row's entries come from messages to groups, so many rows are alike. They are kept by entry instead: a message with the
set of destinations that still have to wait for it, as a bit mask. That is the same matrix, read along the other side.

Bytes as LoCaMu VI counts them: 8 for each entry of each row (who, which), so 8 MB for 1024 nodes that have each sent
to each.
"""

from antecede.core import Message, Packet
from antecede.core.gate import Need
from antecede.protocols.rivals.flooding import GROUP, HEADER, Carry, Flooding
from antecede.protocols.rivals.routes import Routes

#: Bytes of an entry.
ENTRY = 8


class Barred(Carry, frozen=True, gc=False, tag="rival.barred"):
    """A message with the barrier matrix of its publisher."""

    #: (topic, source, seq, destinations): who has to wait for that message, as a bit mask.
    matrix: tuple[tuple[str, int, int, int], ...] = ()


class CausalBarriers(Flooding):
    """A node that stamps with its barrier matrix."""

    packet = Barred

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node, routes)
        # By topic and source: its last message that somebody may have to wait for, and who. A source's earlier ones to
        # the same topic are covered by its last, for the same destinations.
        self._matrix: dict[tuple[str, int], tuple[int, int]] = {}

    def size(self, packet: Packet) -> int:
        assert isinstance(packet, Barred)
        return HEADER + GROUP + len(packet.message.payload) + self.metadata(packet)

    def metadata(self, packet: Barred) -> int:
        """Bytes of the matrix, and of the message's own number."""
        return ENTRY * (1 + sum([entry[3].bit_count() for entry in packet.matrix]))

    @property
    def state_bytes(self) -> int:
        """The matrix, and how far each source is delivered."""
        waits = sum(destinations.bit_count() for _, destinations in self._matrix.values())
        return ENTRY * (waits + len(self._gate.levels()))

    def _stamp(self, topic: str, seq: int, payload: bytes) -> Barred:
        me = self.node
        matrix = tuple([(*key, count, destinations) for key, (count, destinations) in self._matrix.items()])
        deps = tuple([(source, count) for other, source, count, _ in matrix if other == topic and source != me])
        across = tuple([(other, source, count) for other, source, count, _ in matrix if other != topic])
        covered = self._routes.mask(topic)
        for key, (count, destinations) in list(self._matrix.items()):
            self._set(key, count, destinations & ~covered)
        self._set((topic, me), seq, covered)
        return Barred(Message(topic, me, seq, deps, payload, across), matrix)

    def _needs(self, packet: Carry) -> list[Need]:
        assert isinstance(packet, Barred)
        here = 1 << self.node
        return [((topic, source), seq) for topic, source, seq, destinations in packet.matrix if destinations & here]

    def _observe(self, packet: Carry) -> None:
        assert isinstance(packet, Barred)
        message, matrix = packet.message, self._matrix
        covered = self._routes.mask(message.topic)
        for topic, source, seq, theirs in packet.matrix:
            key = (topic, source)
            known, mine = matrix.get(key, (0, 0))
            if known == seq:
                # Destinations of the message wait for it, and it waits for this. The others must wait for this still.
                self._set(key, seq, (mine | theirs) & ~(theirs & covered))
            elif known < seq:
                self._set(key, seq, theirs & ~covered)
        self._set((message.topic, message.source), message.seq, covered)

    def _set(self, key: tuple[str, int], seq: int, destinations: int) -> None:
        if destinations:
            self._matrix[key] = (seq, destinations)
        else:
            self._matrix.pop(key, None)
