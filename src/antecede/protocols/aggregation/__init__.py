"""Causal broadcast on trees: with causal aggregation, with timer bundling, or one message to a packet."""

from antecede.protocols.aggregation.broadcast import CausalBroadcast
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.aggregation.process import CausalAggregation
from antecede.protocols.aggregation.timer import TimerBundling

__all__ = ["Bundle", "CausalAggregation", "CausalBroadcast", "TimerBundling"]
