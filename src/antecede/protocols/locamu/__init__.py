"""LoCaMu: localized reliable causal multicast on an acyclic overlay (Santos), completed and corrected.

identifiers    links, and the numbers messages have on them
packets        what neighbours send each other; `conversations` bring it in order, each thing once
column         what was processed here, and the copies that wait for more
log            what this node still answers for, and names of what it has not
routing        who takes what, and in which direction that is
state          how each event changes all that; `records` keep the events
relay          what a node does for others
node           the process: what comes in
"""

from antecede.protocols.locamu.conversations import Timing
from antecede.protocols.locamu.node import LoCaMu
from antecede.protocols.locamu.packets import PACKETS
from antecede.protocols.locamu.records import Kept
from antecede.protocols.locamu.sizes import Sizes

__all__ = ["PACKETS", "Kept", "LoCaMu", "Sizes", "Timing"]
