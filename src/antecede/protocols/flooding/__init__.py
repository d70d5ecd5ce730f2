"""Flooding of an acyclic base graph, for groups that do not change: the protocols LoCaMu is compared with (IV-A).

One way to forward (`process`, `routes`) and three ways to order: CBCAST, Causal Barriers and Delta-Neighbourhood.
"""

from antecede.protocols.flooding.causal_barriers import CausalBarriers
from antecede.protocols.flooding.cbcast import Cbcast
from antecede.protocols.flooding.delta_neighbourhood import DeltaNeighbourhood
from antecede.protocols.flooding.routes import Routes

__all__ = ["CausalBarriers", "Cbcast", "DeltaNeighbourhood", "Routes"]
