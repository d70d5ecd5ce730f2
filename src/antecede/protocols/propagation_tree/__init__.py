"""Total order by trees down which messages of overlapping groups come (Garcia-Molina & Spauster 1991).

forest     which node is below which, and the primary destination of each group
process    a node: publisher, primary destination, and receiver
options    the registry's entry
"""

from antecede.protocols.propagation_tree.process import PropagationTree

__all__ = ["PropagationTree"]
