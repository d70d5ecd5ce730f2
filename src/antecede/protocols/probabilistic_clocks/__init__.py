"""Probabilistic clocks: vectors with fewer entries than there are processes; most messages are in causal order.

process    a member, its vector, and the delivery condition
options    the size of the vector, and how processes are mapped to its entries
"""

from antecede.protocols.probabilistic_clocks.process import ProbabilisticClocks

__all__ = ["ProbabilisticClocks"]
