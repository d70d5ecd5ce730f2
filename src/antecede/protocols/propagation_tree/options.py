"""Options of propagation trees: none."""

from antecede.protocols.options import Founders, MakeProcess, TotalOrderOptions
from antecede.protocols.propagation_tree.forest import PropagationForest
from antecede.protocols.propagation_tree.process import PropagationTree


class TreeOptions(TotalOrderOptions, frozen=True, kw_only=True):
    """Propagation trees."""

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        forest = PropagationForest(founders)
        return lambda node: PropagationTree(node, forest)
