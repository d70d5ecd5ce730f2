"""Total notification order over any event service (Baldoni, Bonomi, Platania, Querzoni; MIDLAB 9/2011), completed.

Two subscribers that are notified of the same two events, on whatever topics, get them in the same order, or get one
tagged as out of order. `module` is the layer itself, without a service; `process` runs it over another protocol; a
program with a broker can drive the module directly.
"""

from antecede.protocols.tno.clock import SubscriptionClock
from antecede.protocols.tno.event import Event, decode_event, encode_event, topic_id
from antecede.protocols.tno.manager import Manager, Rules
from antecede.protocols.tno.module import OrderingModule
from antecede.protocols.tno.order import popularity
from antecede.protocols.tno.outbox import EnsCall, ModuleOutbox
from antecede.protocols.tno.packets import PACKETS
from antecede.protocols.tno.process import TotalOrder
from antecede.protocols.tno.publisher import Publisher
from antecede.protocols.tno.records import RECORDS
from antecede.protocols.tno.settings import Settings

__all__ = [
    "PACKETS",
    "RECORDS",
    "EnsCall",
    "Event",
    "Manager",
    "ModuleOutbox",
    "OrderingModule",
    "Publisher",
    "Rules",
    "Settings",
    "SubscriptionClock",
    "TotalOrder",
    "decode_event",
    "encode_event",
    "popularity",
    "topic_id",
]
