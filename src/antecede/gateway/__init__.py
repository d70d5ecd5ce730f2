"""antecede's orderings over services that already run: for those who keep their broker.

from antecede.gateway import NatsService, OrderedBus

async with OrderedBus(NatsService("nats://127.0.0.1:4222"), number=0, managers=3) as bus:
    await bus.subscribe("trades", "quotes")
    await bus.publish("trades", b"…")
    async for notification in bus:           # in one order, whoever reads
        ...
"""

from antecede.gateway.nats import NatsService
from antecede.gateway.ordered import Notification, OrderedBus
from antecede.gateway.service import EventService, ServiceError

__all__ = ["EventService", "NatsService", "Notification", "OrderedBus", "ServiceError"]
