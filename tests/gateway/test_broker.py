"""The gateway over a broker that fails or whose managers are not there: an error that says so, never silence."""

import asyncio

import pytest

from antecede.core import ProtocolError
from antecede.gateway import OrderedBus
from tests.client.running import awaited
from tests.gateway.broker import Broker, BrokerService


@awaited
async def test_a_manager_and_a_reader() -> None:
    broker = Broker()
    async with OrderedBus(BrokerService(broker), number=0), OrderedBus(BrokerService(broker), number=1) as bus:
        await bus.subscribe("t")
        await bus.publish("t", b"x")
        assert (await anext(bus)).payload == b"x"


@awaited
async def test_a_broker_that_refuses_heartbeats_ends_the_bus() -> None:
    """Before, the task that sends them died without a word, and the other participants suspected this manager."""
    broker = Broker()
    async with OrderedBus(BrokerService(broker), number=0, beat_s=0.01) as bus:
        reading = asyncio.ensure_future(anext(bus))
        broker.trouble = OSError("broken pipe")
        with pytest.raises(ProtocolError, match="the broker refused a heartbeat: broken pipe"):
            await reading
        broker.trouble = None
