"""Options of the protocols that flood a base graph. They differ in the process alone."""

from typing import ClassVar

from antecede.protocols.flooding.causal_barriers import CausalBarriers
from antecede.protocols.flooding.cbcast import Cbcast
from antecede.protocols.flooding.delta_neighbourhood import DeltaNeighbourhood
from antecede.protocols.flooding.process import FixedGroups
from antecede.protocols.flooding.routes import Routes
from antecede.protocols.options import PROMISES, Founders, GraphOptions, MakeProcess


class CbcastOptions(GraphOptions, frozen=True, kw_only=True):
    """CBCAST."""

    process: ClassVar[type[FixedGroups]] = Cbcast

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        routes = Routes(self.base_graph(nodes), founders)
        return lambda node: self.process(node, routes)


class BarriersOptions(CbcastOptions, frozen=True, kw_only=True):
    """Causal Barriers."""

    process: ClassVar[type[FixedGroups]] = CausalBarriers


class DeltaOptions(CbcastOptions, frozen=True, kw_only=True):
    """Delta-Neighbourhood."""

    process: ClassVar[type[FixedGroups]] = DeltaNeighbourhood

    @property
    def promises(self) -> tuple[str, ...]:
        return tuple(rule for rule in PROMISES if rule != "causal")
