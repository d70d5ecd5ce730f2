"""The protocols that LoCaMu is compared with (LoCaMu IV-A): CBCAST, Causal Barriers, Delta-Neighbourhood."""

from antecede.protocols.rivals.causal_barriers import CausalBarriers
from antecede.protocols.rivals.cbcast import Cbcast
from antecede.protocols.rivals.delta_neighbourhood import DeltaNeighbourhood
from antecede.protocols.rivals.routes import Routes

__all__ = ["CausalBarriers", "Cbcast", "DeltaNeighbourhood", "Routes"]
