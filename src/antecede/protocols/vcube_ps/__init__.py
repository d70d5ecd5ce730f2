"""VCube-PS: causal publish/subscribe on per-publisher trees (thesis chapter 5), repaired and completed.

`faithful` is the thesis's algorithm with its errors put right (docs/papers.md), for systems in which nothing fails.
`pipelined` keeps its trees, views and barriers and gives up its stop and wait: many messages in flight, over links that
lose and repeat, among nodes that crash and come back.
"""

from antecede.protocols.vcube_ps.faithful import FaithfulVCubePs
from antecede.protocols.vcube_ps.order import Domain, Order, TopicOrder
from antecede.protocols.vcube_ps.packets import PACKETS
from antecede.protocols.vcube_ps.pipelined import VCubePs
from antecede.protocols.vcube_ps.records import Kept
from antecede.protocols.vcube_ps.sizes import Sizes
from antecede.protocols.vcube_ps.state import Timing
from antecede.protocols.vcube_ps.view import View

__all__ = [
    "PACKETS",
    "Domain",
    "FaithfulVCubePs",
    "Kept",
    "Order",
    "Sizes",
    "Timing",
    "TopicOrder",
    "VCubePs",
    "View",
]
