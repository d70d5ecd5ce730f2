"""Flooding of an acyclic base graph, for groups that do not change: the protocols LoCaMu is compared with, and JEDI.

One way to forward (`process`, `routes`) and four ways to order. CBCAST and Causal Barriers stamp messages;
Delta-Neighbourhood and JEDI (`one_at_a_time`) wait for acknowledgements.
"""

from antecede.protocols.flooding.causal_barriers import CausalBarriers
from antecede.protocols.flooding.cbcast import Cbcast
from antecede.protocols.flooding.delta_neighbourhood import DeltaNeighbourhood
from antecede.protocols.flooding.jedi import Jedi
from antecede.protocols.flooding.routes import Routes

__all__ = ["CausalBarriers", "Cbcast", "DeltaNeighbourhood", "Jedi", "Routes"]
