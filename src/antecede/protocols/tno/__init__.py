"""Total notification order over any event service (Baldoni, Bonomi, Platania, Querzoni, MIDLAB 9/2011), completed.

If two subscribers are notified of the same two events, on whatever topics, they are in the same order, or tagged.
`module` is the layer itself, pure and without a service; `process` puts it over another protocol; a program with a
broker drives the module by itself.
"""

from antecede.protocols.tno.clock import SubscriptionClock
from antecede.protocols.tno.event import Event, decode_event, encode_event, topic_id
from antecede.protocols.tno.manager import Manager, Rules
from antecede.protocols.tno.module import OrderingModule, Settings
from antecede.protocols.tno.order import popularity
from antecede.protocols.tno.outbox import EnsCall, ModuleOutbox
from antecede.protocols.tno.packets import PACKETS
from antecede.protocols.tno.process import TotalOrder
from antecede.protocols.tno.publisher import Publisher
from antecede.protocols.tno.records import RECORDS

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
