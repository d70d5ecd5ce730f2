"""Causal broadcast on trees: one message to a packet, or bundled.

broadcast   one message to a packet
process     causal aggregation
riding      the same, with unrelated messages that ride along
timer       packets that wait for further messages, a fixed time or one that follows the load
hybrid      causal aggregation, and timers where it bundles little
"""

from antecede.protocols.aggregation.broadcast import CausalBroadcast
from antecede.protocols.aggregation.hybrid import HybridBundling
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.aggregation.process import CausalAggregation
from antecede.protocols.aggregation.riding import RidingAlong
from antecede.protocols.aggregation.timer import TimerBundling

__all__ = ["Bundle", "CausalAggregation", "CausalBroadcast", "HybridBundling", "RidingAlong", "TimerBundling"]
