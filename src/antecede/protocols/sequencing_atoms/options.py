"""Options of sequencing atoms: none."""

from antecede.protocols.options import Founders, MakeProcess, TotalOrderOptions
from antecede.protocols.sequencing_atoms.network import SequencingNetwork
from antecede.protocols.sequencing_atoms.process import SequencingAtoms


class AtomsOptions(TotalOrderOptions, frozen=True, kw_only=True):
    """Sequencing atoms."""

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        network = SequencingNetwork(founders)
        return lambda node: SequencingAtoms(node, network)
