"""Causal Barriers (Prakash, Raynal and Singhal 1996): direct dependencies by destination. LoCaMu's reference [6].

A node keeps, for every destination, the messages on which its next message there directly depends: a row of the barrier
matrix CB. All rows travel with every message, since a receiver may forward dependencies to other destinations. Sending
to a group empties the rows of its members except for the message itself, which covers what was there. Delivering a
message merges the rows it carried: its own destinations are covered by it, the others' entries are added.

Entries come from messages to groups, so many rows are alike. The matrix is therefore stored by entry: a message, with
the bit mask of the destinations that must still wait for it.

Bytes as in LoCaMu VI: 8 for each entry of each row (source, number), so 8 MB for 1024 nodes that have each sent to
each.
"""

from antecede.core import Message, Packet
from antecede.core.gate import Need
from antecede.protocols.flooding.process import Carry, Flooding
from antecede.protocols.flooding.routes import Routes

#: Bytes of an entry.
ENTRY = 8


class Barred(Carry, frozen=True, gc=False, tag="rival.barred"):
    """A message with the barrier matrix of its publisher."""

    #: (topic, source, seq, destinations): the destinations that must wait for that message, as a bit mask.
    matrix: tuple[tuple[str, int, int, int], ...] = ()


class CausalBarriers(Flooding):
    """A node that stamps with its barrier matrix."""

    packet = Barred

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node, routes)
        # By topic and source: its last message that a destination may have to wait for, and these destinations. The
        # last message covers the source's earlier ones on the topic, which have the same destinations.
        self._matrix: dict[tuple[str, int], tuple[int, int]] = {}

    def metadata(self, packet: Packet) -> int:
        """Bytes of the matrix, and of the message's own number."""
        assert isinstance(packet, Barred)
        return ENTRY * (1 + sum([entry[3].bit_count() for entry in packet.matrix]))

    @property
    def state_bytes(self) -> int:
        """The matrix, and how far each source was delivered."""
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
                # The message's destinations wait for it, and it waits for this entry. Others must still wait for this.
                self._set(key, seq, (mine | theirs) & ~(theirs & covered))
            elif known < seq:
                self._set(key, seq, theirs & ~covered)
        self._set((message.topic, message.source), message.seq, covered)

    def _set(self, key: tuple[str, int], seq: int, destinations: int) -> None:
        if destinations:
            self._matrix[key] = (seq, destinations)
        else:
            self._matrix.pop(key, None)
