"""Total order over a broker that already runs, for programs that keep their broker.

ordered.py  OrderedBus: publish and subscribe in one order
service.py  what a broker must offer: implement it for yours
nats.py     a NATS server as a broker
memory.py   what a manager keeps on disk

from antecede.gateway import NatsService, OrderedBus

async with OrderedBus(NatsService("nats://127.0.0.1:4222"), number=0, managers=3) as bus:
    await bus.subscribe("trades", "quotes")
    await bus.publish("trades", b"…")
    async for notification in bus:           # every reader sees the same order
        ...
"""

from antecede.gateway.nats import NatsService
from antecede.gateway.ordered import Notification, OrderedBus
from antecede.gateway.service import EventService, ServiceError

__all__ = ["EventService", "NatsService", "Notification", "OrderedBus", "ServiceError"]
