"""Types and rules that every protocol, the simulator and the live system share.

No module here touches a clock, a socket, a thread, a file or the global random generator. Time and randomness come in
as arguments, so a failure can be replayed from its seed.
"""

from antecede.core.clocks import Frontier, VectorClock
from antecede.core.errors import AntecedeError, LimitError, ProtocolError, UsageError
from antecede.core.gate import Counters, Gate, Verdict
from antecede.core.message import Dependency, Message, TopicMessageId
from antecede.core.packet import MessagePacket, Packet
from antecede.core.process import Outbox, Process
from antecede.core.record import Record

__all__ = [
    "AntecedeError",
    "Counters",
    "Dependency",
    "Frontier",
    "Gate",
    "LimitError",
    "Message",
    "MessagePacket",
    "Outbox",
    "Packet",
    "Process",
    "ProtocolError",
    "Record",
    "TopicMessageId",
    "UsageError",
    "VectorClock",
    "Verdict",
]
