"""The gateway over a broker that fails or whose managers are not there: an error that says so, never silence."""

import asyncio
from typing import Any

import pytest

from antecede.core import ProtocolError
from antecede.core.errors import PublishError
from antecede.gateway import OrderedBus, ServiceError
from tests.client.running import awaited, until
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


@awaited
async def test_without_a_manager_a_subscription_fails_in_time_and_takes_effect_later() -> None:
    broker = Broker()
    async with OrderedBus(BrokerService(broker), number=1, beat_s=0.02, retry_s=0.05) as bus:
        with pytest.raises(
            ServiceError,
            match=r"topic t: no answer within 0\.3 s: managers of this topic: 0; silent: 0; start `antecede",
        ):
            await bus.subscribe("t", timeout_s=0.3)
        async with OrderedBus(BrokerService(broker), number=0, beat_s=0.02):
            await bus.subscribe("t")
            await bus.publish("t", b"x")
            assert (await anext(bus)).payload == b"x"


@awaited
async def test_without_a_manager_publications_fail_in_time() -> None:
    broker = Broker()
    async with OrderedBus(BrokerService(broker), number=1, beat_s=0.02, retry_s=0.05) as bus:
        await bus.publish("t", b"x")  # it waits for a manager
        await asyncio.sleep(0.3)
        with pytest.raises(PublishError, match=r"earlier events have not been numbered .* silent: 0") as failed:
            await bus.publish("t", b"y", timeout_s=0.2)
        assert not failed.value.may_arrive
        async with OrderedBus(BrokerService(broker), number=0, beat_s=0.02):
            await until(lambda: not bus._module.backlog)
            await bus.publish("t", b"z")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"managers": 3}, "managers is '1' .* '3'"),
        ({"managers": 2, "replicas": 2}, "managers is '1' .* '2'"),
        ({"order": ("a", "b")}, "order is '' .* 'a b'"),
    ],
)
@awaited
async def test_a_participant_with_other_settings_ends_and_leaves_the_others_alone(
    settings: dict[str, Any], named: str
) -> None:
    """Before, it asked managers that are none, or took another order, and nobody was told."""
    broker = Broker()
    async with (
        OrderedBus(BrokerService(broker), number=0, beat_s=0.02) as manager,
        OrderedBus(BrokerService(broker), number=1, beat_s=0.02) as bus,
    ):
        await bus.subscribe("t")
        await until(lambda: bus._agreed and manager._agreed)
        async with OrderedBus(BrokerService(broker), number=2, beat_s=0.02, **settings) as other:
            with pytest.raises(ProtocolError, match=named):
                await anext(other)
            with pytest.raises(ProtocolError, match="give both the same value"):
                await other.publish("t", b"lost")
        await bus.publish("t", b"x")
        assert (await anext(bus)).payload == b"x"
