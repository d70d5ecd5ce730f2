"""Options of DRScribe: those of Scribe, and the filters."""

from functools import partial
from typing import Annotated

from msgspec import Meta

from antecede.overlay.pastry import Pastry
from antecede.protocols.drscribe.filters import FilterShape
from antecede.protocols.drscribe.process import DRScribe, Neighbourhood
from antecede.protocols.options import TICKS, Founders, MakeProcess, taken_by
from antecede.protocols.scribe.options import ScribeOptions
from antecede.protocols.scribe.process import found
from antecede.protocols.sizes import ByteModel


class DRScribeOptions(ScribeOptions, frozen=True, kw_only=True):
    """DRScribe on a Pastry ring."""

    #: Bits of a Bloom filter.
    filter_bits: Annotated[int, Meta(ge=1)] = 1024
    #: Bits of it that a topic sets.
    hashes: Annotated[int, Meta(ge=1)] = 4
    #: Time from a node's unsubscription until it makes its filter anew, in u.t.
    refresh: Annotated[float, Meta(gt=0)] = 1000.0

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        ring = Pastry(nodes, digit_bits=self.digit, leaves=self.leaves)
        shape = FilterShape(self.filter_bits, self.hashes)
        filters = {node: shape.of(topics) for node, topics in taken_by(founders).items()}
        near, sizes = Neighbourhood(ring, shape, filters), ByteModel()
        founded = {topic: found(partial(near.hop, topic=topic), members) for topic, members in founders.items()}
        refresh_us = round(self.refresh * TICKS)
        return lambda node: DRScribe(node, near, sizes, founded, refresh_us)
