"""VCube-PS: causal publish/subscribe on a tree for each publisher (thesis chapter 5), repaired and completed.

`faithful` is the thesis's algorithm with its errors corrected (docs/errors_in_papers.md), for systems without failures.
`pipelined` keeps its trees, views and barriers, and drops stop-and-wait: a publisher has many messages in flight, links
lose and repeat packets, nodes crash and recover.
"""

from antecede.protocols.vcube_ps.faithful import FaithfulVCubePs
from antecede.protocols.vcube_ps.order import Domain, Order, TopicOrder
from antecede.protocols.vcube_ps.packets import PACKETS
from antecede.protocols.vcube_ps.pipelined import VCubePs
from antecede.protocols.vcube_ps.records import Kept
from antecede.protocols.vcube_ps.sizes import Sizes
from antecede.protocols.vcube_ps.timing import Timing
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
