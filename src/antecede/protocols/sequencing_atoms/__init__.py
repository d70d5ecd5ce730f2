"""Total order by sequencers on overlaps of groups (Lumezanu, Spring & Bhattacharjee 2006).

network    the atoms: for which groups, on which nodes, in which chain
process    a node: publisher, host of atoms, and receiver
options    the registry's entry
"""

from antecede.protocols.sequencing_atoms.process import SequencingAtoms

__all__ = ["SequencingAtoms"]
