"""Options of the protocols that flood a base graph. They differ in the process alone."""

from typing import Annotated, ClassVar

from msgspec import Meta

from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree
from antecede.protocols.flooding.causal_barriers import CausalBarriers
from antecede.protocols.flooding.cbcast import Cbcast
from antecede.protocols.flooding.delta_neighbourhood import DeltaNeighbourhood
from antecede.protocols.flooding.jedi import Jedi
from antecede.protocols.flooding.process import FixedGroups
from antecede.protocols.flooding.routes import Routes
from antecede.protocols.options import PROMISES, Founders, GraphOptions, GroupOptions, MakeProcess


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
        return _WITHOUT_CAUSAL


class JediOptions(GroupOptions, frozen=True, kw_only=True):
    """JEDI."""

    #: Clients of each dispatching server, beside its own; 0: every node is a server.
    clients: Annotated[int, Meta(ge=0)] = 7
    #: Neighbours of an inner server; 3 gives a binary tree.
    degree: Annotated[int, Meta(ge=2)] = 3
    #: Links keep the order of their packets; otherwise the order of each publisher is all that holds.
    fifo: bool = True

    @property
    def across_topics(self) -> bool:
        return True

    @property
    def promises(self) -> tuple[str, ...]:
        return PROMISES if self.fifo else _WITHOUT_CAUSAL

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        servers = -(-nodes // (self.clients + 1))
        edges = [*complete_tree(servers, self.degree).edges]
        edges += [(client % servers, client) for client in range(servers, nodes)]
        routes = Routes(BaseGraph(nodes, edges), founders)
        return lambda node: Jedi(node, routes, servers, fifo=self.fifo)


_WITHOUT_CAUSAL = tuple(rule for rule in PROMISES if rule != "causal")
