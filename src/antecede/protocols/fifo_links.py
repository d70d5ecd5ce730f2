"""Links that keep the order of their packets over a network that does not.

The sender numbers the packets of each link. The receiver holds a packet until those before it have come, and drops
copies. Links lose nothing: there is no retransmission. Protocols whose papers assume reliable FIFO channels use this.
"""

from typing import Generic, TypeVar

from antecede.core import Packet
from antecede.core.message import Seq

#: Bytes of a packet's number on its link.
NUMBER = 4


class Linked(Packet, frozen=True, gc=False, tag="fifo.linked"):
    """A packet with its number on its link."""

    number: Seq


P = TypeVar("P", bound=Linked)


class FifoLinks(Generic[P]):
    """Both ends of the links of one node."""

    __slots__ = ("_early", "_got", "_sent")

    def __init__(self) -> None:
        #: By neighbour: the number of the last packet sent, and of the last one received in order, with later ones.
        self._sent: dict[int, int] = {}
        self._got: dict[int, int] = {}
        self._early: dict[int, dict[int, P]] = {}

    def next(self, to: int) -> int:
        """The number of the next packet to `to`."""
        number = self._sent[to] = self._sent.get(to, 0) + 1
        return number

    def take(self, sender: int, packet: P) -> list[P]:
        """The packets of this link that are next in order, now that `packet` has come."""
        got = self._got.get(sender, 0)
        if packet.number <= got:
            return []  # a copy
        early = self._early.setdefault(sender, {})
        early[packet.number] = packet
        ready: list[P] = []
        while (following := early.pop(got + 1, None)) is not None:
            got += 1
            ready.append(following)
        self._got[sender] = got
        return ready

    @property
    def held(self) -> int:
        """Packets that wait for an earlier one of their link."""
        return sum([len(early) for early in self._early.values()])
