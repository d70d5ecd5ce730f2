"""Options of the fixed sequencer."""

from typing import Annotated

from msgspec import Meta

from antecede.core import UsageError
from antecede.protocols.options import TICKS, Founders, MakeProcess, TotalOrderOptions, taken_by
from antecede.protocols.sequencer.process import Sequencer


class SequencerOptions(TotalOrderOptions, frozen=True, kw_only=True):
    """A fixed sequencer: all topics are one group."""

    #: The node that numbers every message.
    sequencer: Annotated[int, Meta(ge=0)] = 0
    #: After how long a packet is retransmitted. Longer than a round trip to the sequencer.
    retry: Annotated[float, Meta(gt=0)] = 4000.0

    @property
    def across_topics(self) -> bool:
        return True

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        if self.sequencer >= nodes:
            raise UsageError("sequencer", self.sequencer, "there is no such node", f"choose 0 … {nodes - 1}")
        taken = taken_by(founders)
        retry_us = round(self.retry * TICKS)
        return lambda node: Sequencer(node, nodes, self.sequencer, taken.get(node, frozenset()), retry_us=retry_us)
