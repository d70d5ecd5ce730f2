"""Options of Scribe: the ring it stands on."""

from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from antecede.overlay.pastry import Pastry
from antecede.protocols.options import Founders, GroupOptions, MakeProcess
from antecede.protocols.scribe.process import Scribe, found
from antecede.protocols.sizes import ByteModel


class ScribeOptions(GroupOptions, frozen=True, kw_only=True):
    """Scribe on a Pastry ring."""

    #: Bits of a digit of a name on the ring: Pastry's b.
    digit: Literal[1, 2, 4, 8] = 4
    #: Neighbours on the ring that a node knows.
    leaves: Annotated[int, Meta(ge=2)] = 16

    @property
    def promises(self) -> tuple[str, ...]:
        """Scribe orders nothing. It recognises a message that comes twice, and never retransmits a lost one."""
        return ("exactly-once", "no-invention", "complete", "agreement")

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        return scribe_on(Pastry(nodes, digit_bits=self.digit, leaves=self.leaves), founders)


def scribe_on(ring: Pastry, founders: Founders) -> MakeProcess:
    """Scribe's processes on a given ring."""
    sizes = ByteModel()
    founded = {
        topic: found(partial(ring.next_hop, key=ring.key_of(topic)), members) for topic, members in founders.items()
    }
    return lambda node: Scribe(node, ring, sizes, founded)
