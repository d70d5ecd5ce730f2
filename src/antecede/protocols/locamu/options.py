"""Options of LoCaMu: the base graph, the number of faults it tolerates, and its timers."""

from typing import Annotated, Literal

from msgspec import Meta

from antecede.overlay.extended import Extended
from antecede.protocols.locamu.conversations import Timing
from antecede.protocols.locamu.node import LoCaMu
from antecede.protocols.locamu.sizes import Sizes
from antecede.protocols.options import TICKS, Founders, GraphOptions, MakeProcess


class LoCaMuOptions(GraphOptions, frozen=True, kw_only=True):
    """LoCaMu: causal multicast in which a node knows only its neighbourhood."""

    #: How many nodes may be down at once on any path of 2f + 1.
    f: Annotated[int, Meta(ge=0)] = 1
    #: How long an acknowledgement waits for others to travel with it, in units of time.
    ack: Annotated[float, Meta(gt=0)] = 20.0
    #: After how long a packet is retransmitted. Longer than a round trip plus an acknowledgement's wait.
    retry: Annotated[float, Meta(gt=0)] = 1000.0
    #: Send the names of open messages, so that no node waits for a relay that never comes back. Not in the paper.
    records: bool = True
    #: How the bytes of a message's past are counted: what changed, or all counters of the neighbourhood (paper, VI).
    header: Literal["changes", "whole"] = "changes"

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        graph = Extended(self.base_graph(nodes), self.f)
        founding = {topic: graph.base.directions(members) for topic, members in founders.items()}
        timing = Timing(ack_us=round(self.ack * TICKS), ack_every=64, retry_us=round(self.retry * TICKS))
        sizes = Sizes(whole=self.header == "whole")
        return lambda node: LoCaMu(graph.around(node), founding, timing, records=self.records, sizes=sizes)
