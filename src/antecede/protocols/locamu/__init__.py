"""LoCaMu: localized reliable causal multicast on an acyclic overlay (Santos), completed and corrected.

identifiers    links, and the numbers that messages have on them
packets        what neighbours send each other; `conversations` carry it in order, each parcel once
column         what was processed here, and the copies that wait for more
log            messages that a neighbour may still lack, and names of messages that this node lacks
routing        which nodes take what, and in which direction they are
state          how each event changes all that; `records` keep the events
relay          what a node does for others
node           the process: its inputs
"""

from antecede.protocols.locamu.conversations import Timing
from antecede.protocols.locamu.node import LoCaMu
from antecede.protocols.locamu.packets import PACKETS
from antecede.protocols.locamu.records import Kept
from antecede.protocols.locamu.sizes import Sizes

__all__ = ["PACKETS", "Kept", "LoCaMu", "Sizes", "Timing"]
