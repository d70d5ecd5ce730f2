"""Options of the protocols that LoCaMu is compared with."""

from antecede.protocols.options import PROMISES, Founders, GraphOptions, MakeProcess
from antecede.protocols.rivals.causal_barriers import CausalBarriers
from antecede.protocols.rivals.cbcast import Cbcast
from antecede.protocols.rivals.delta_neighbourhood import DeltaNeighbourhood
from antecede.protocols.rivals.routes import Routes


class CbcastOptions(GraphOptions, frozen=True, kw_only=True):
    """CBCAST."""

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        routes = Routes(self.base_graph(nodes), founders)
        return lambda node: Cbcast(node, routes)


class BarriersOptions(GraphOptions, frozen=True, kw_only=True):
    """Causal Barriers."""

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        routes = Routes(self.base_graph(nodes), founders)
        return lambda node: CausalBarriers(node, routes)


class DeltaOptions(GraphOptions, frozen=True, kw_only=True):
    """Delta-Neighbourhood."""

    @property
    def promises(self) -> tuple[str, ...]:
        return tuple(rule for rule in PROMISES if rule != "causal")

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        routes = Routes(self.base_graph(nodes), founders)
        return lambda node: DeltaNeighbourhood(node, routes)
