"""Options of Magnet: those of Scribe, and the sample of the membership service."""

from typing import Annotated

from msgspec import Meta

from antecede.overlay.pastry import Pastry
from antecede.protocols.magnet.positions import positions
from antecede.protocols.options import Founders, MakeProcess, taken_by
from antecede.protocols.scribe.options import ScribeOptions, scribe_on


class MagnetOptions(ScribeOptions, frozen=True, kw_only=True):
    """Magnet on a Pastry ring."""

    #: Subscribers that the membership service looks at to place a node.
    sample: Annotated[int, Meta(ge=1)] = 16

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        placed = positions(nodes, taken_by(founders), self.sample)
        ring = Pastry(nodes, digit_bits=self.digit, leaves=self.leaves, names=placed.nodes, keys=placed.topics)
        return scribe_on(ring, founders)
