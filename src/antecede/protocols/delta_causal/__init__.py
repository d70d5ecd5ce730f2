"""Δ-causal order: a message that is late counts as lost, and no message waits longer than Δ.

process    a member, its clock, and the gate with deadlines
options    Δ, and how the clock is counted
"""

from antecede.protocols.delta_causal.process import DeltaCausal

__all__ = ["DeltaCausal"]
