"""Packet sizes in bytes: the model behind the paper's "540 bytes at degree 3 and f = 1" (section VI).

A counter takes 4 bytes and has a fixed index in the list of links of the sender's safe neighbourhood, which both ends
know: 102 links, 408 bytes. Identifiers are one vector for each node that numbered: 4 bytes for the node, 4 for the
length, 4 for each target; three nodes with nine targets each, 132 bytes. Together 540.

Here only counters that changed since the last parcel of the conversation are sent. A changed counter with its index
takes 6 bytes; the whole list is sent where it is shorter.
"""

from antecede.overlay.extended import Surroundings
from antecede.protocols.locamu.identifiers import Ids, sender_of
from antecede.protocols.locamu.packets import Data, Interest, Parcel


class Sizes:
    """The byte model."""

    def __init__(self, *, whole: bool = False) -> None:
        """`whole`: count the whole list with every message, whatever changed: the paper's worst case."""
        #: Kind, conversation and numbers, in every packet.
        self.header = 20
        self.node = 4
        self.length = 4
        self.counter = 4
        #: The index of a link in a list that both ends know.
        self.index = 2
        self.topic = 2
        self.whole = whole

    def parcel(self, parcel: Parcel, links: int) -> int:
        """`links`: how many there are in the sender's safe neighbourhood."""
        size = self.header
        if parcel.data is not None:
            size += self.topic + len(parcel.data.message.payload) + self.metadata(parcel.data, links)
        for _, beyond in parcel.columns.values():
            size += self.index + self.counter * (1 + len(beyond))
        size += sum(map(self.vectors, parcel.records)) + sum(map(self.interest, parcel.interests))
        return size

    def metadata(self, data: Data, links: int) -> int:
        """Bytes for order and duplicates: identifiers, dependencies, origin."""
        past = links * self.counter
        if not self.whole:
            past = min(len(data.past) * (self.index + self.counter), past)
        return self.node + self.vectors(data.path) + self.vectors(data.alias) + past

    def vectors(self, ids: Ids) -> int:
        """Bytes of identifiers, as one vector for each node that numbered."""
        return len({sender_of(link) for link in ids}) * (self.node + self.length) + len(ids) * self.counter

    def interest(self, interest: Interest) -> int:
        pairs = len(interest.towards) + 2 * len(interest.settled)
        return self.node + self.topic + self.counter + self.length + pairs * self.node


def links_around(around: Surroundings) -> int:
    """The number of directed links between nodes of the safe neighbourhood: the counters that a past may have."""
    return 2 * around.pairs(around.safe, around.number)
