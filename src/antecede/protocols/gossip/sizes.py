"""Packet sizes in bytes, counted as for the other protocols (thesis 4.5.3): 20 for a header, 2 for a node or a topic, 4
for a counter with its node, 4 for a clock. Vectors of rounds take their bits (Kim & Ahn 2.2).
"""

from antecede.core import Message, Packet
from antecede.protocols.gossip.packets import (
    Ask,
    Attach,
    Attached,
    Copy,
    Digest,
    Fetch,
    Fetched,
    Floor,
    Notice,
    Peer,
    Pull,
    Rumour,
    Spread,
    Standing,
)
from antecede.protocols.sizes import FieldSizes


class Sizes(FieldSizes):
    """The byte model."""

    def __init__(self, colours: int = 0) -> None:
        """`colours`: those of gossip-rounds; 0: none, and messages carry sequence numbers."""
        super().__init__()
        self.clock = 4
        self.colours = colours

    def packet(self, packet: Packet) -> int:
        match packet:
            case Spread():
                size = sum([self.rumour(rumour) for rumour in packet.rumours]) + self._peers(packet.peers)
            case Notice():
                size = self.topic + self._count() + sum([self.copy(copy) for copy in packet.copies])
            case Standing():
                size = self._levels(len(packet.levels)) + self.clock + self._count()
            case Digest():
                size = self._levels(len(packet.levels)) + self._peers(packet.peers)
            case Pull():
                size = (self.topic + self.node + 2 * self.entry) * len(packet.wants) + self.topic * len(packet.groups)
            case Fetch():
                size = self.topic + self.node + 2 * self.entry
            case Fetched():
                size = self.topic + self.node + 3 * self.entry + self.clock + self._levels(len(packet.levels))
                size += sum([self.rumour(rumour) for rumour in packet.rumours])
            case Ask():
                size = self.topic + self._levels(len(packet.past)) + self._peers((packet.peer,))
            case Floor():
                size = (
                    self.topic + self._levels(len(packet.levels) + len(packet.frontier)) + self._peers((packet.peer,))
                )
            case Attach():
                size = self.topic * (len(packet.groups) + len(packet.fresh)) + self._levels(len(packet.past))
            case Attached():
                size = self._levels(len(packet.floors)) + self.clock + self.node * len(packet.alternates)
            case _:
                size = self.entry
        return self.header + size

    def causal(self, message: Message) -> int:
        """Bytes that ordering costs: the entries of a message's predecessors."""
        return self.entry * len(message.deps) + (self.topic + self.entry) * len(message.across)

    def rumour(self, rumour: Rumour) -> int:
        return self._plain(rumour.message) + self.clock + self.causal(rumour.message)

    def copy(self, copy: Copy) -> int:
        if self.colours:
            return self._plain(copy.message) + self.ages(len(copy.ages))
        return self._plain(copy.message) + self.clock + self.causal(copy.message)

    def ages(self, brokers: int) -> int:
        """Bytes of a round, whose epoch takes a byte, and of the ages."""
        bits = (self.colours - 1).bit_length()
        return 1 + -(-bits * (1 + brokers) // 8)

    def _plain(self, message: Message) -> int:
        return self.topic + self.entry + len(message.payload)

    def _count(self) -> int:
        """With rounds: the broker's count and the difference to the last, and a session."""
        return self.clock if self.colours else 0

    def _levels(self, count: int) -> int:
        return (self.topic + self.entry) * count

    def _peers(self, peers: tuple[Peer, ...]) -> int:
        return sum([self.entry + self.topic * len(peer.groups) for peer in peers])
