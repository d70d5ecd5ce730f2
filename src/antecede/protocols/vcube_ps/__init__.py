"""VCube-PS: causal publish/subscribe on per-publisher trees (thesis chapter 5), repaired and completed.

`faithful` is the thesis's algorithm with the errors of SPEC part 2 put right, for systems in which nothing fails.
"""

from antecede.protocols.vcube_ps.faithful import FaithfulVCubePs
from antecede.protocols.vcube_ps.order import Domain, Order, TopicOrder
from antecede.protocols.vcube_ps.sizes import Sizes
from antecede.protocols.vcube_ps.view import View, mask_of, nodes_of

__all__ = ["Domain", "FaithfulVCubePs", "Order", "Sizes", "TopicOrder", "View", "mask_of", "nodes_of"]
