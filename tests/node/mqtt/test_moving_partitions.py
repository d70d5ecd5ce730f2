"""Sessions at a node that leaves a partition and takes it again: QoS 1 messages are not lost."""

import pytest

from antecede.wire.mqtt.packets import Publish
from tests.client.running import awaited, until
from tests.node.clusters import restart
from tests.node.mqtt.devices import Device
from tests.node.mqtt.test_moving import KEPT, PARTITIONED, away, home_and_node, until_card


@awaited
async def test_what_a_node_delivered_before_it_left_a_partition_is_given_with_what_it_lacks(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A client is away. Its node delivers a message, for another client, leaves the partition, and takes it again."""
    async with home_and_node(tmp_path_factory.mktemp("c")) as (home, node, topic):
        of = home.partitions.of
        async with Device.open(home, "w") as writer:
            async with Device.open(node, "b") as other:
                await other.subscribe(topic, qos=1)
                async with Device.open(node, "a", properties=KEPT) as device:
                    await device.subscribe(topic, qos=1)
                    await writer.publish(topic, b"0", 1)
                    assert (await device.message()).payload == b"0"
                    await away(device, at=node, known_by=home)
                await writer.publish(topic, b"1", 1)
                assert [(await other.message()).payload for _ in range(2)] == [b"0", b"1"]
            await until(lambda: not node.process.wants(node.partitions.names[of(topic)]))
            await writer.publish(topic, b"2", 1)
        async with Device.open(node, "a", clean_start=False, properties=KEPT) as device:
            assert [(await device.message()).payload for _ in range(2)] == [b"1", b"2"]
            await device.silent()


@awaited
async def test_a_node_that_is_killed_has_told_what_it_lacks_as_not_given(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The node took the partition of a session again before its client was back."""
    base = tmp_path_factory.mktemp("c")
    async with home_and_node(base) as (home, node, topic):
        of = home.partitions.of
        async with Device.open(home, "w") as writer:
            async with Device.open(node, "a", properties=KEPT) as device:
                await device.subscribe(topic, qos=1)
                await writer.publish(topic, b"0", 1)
                assert (await device.message()).payload == b"0"
                await away(device, at=node, known_by=home)
            await until(lambda: not node.process.wants(node.partitions.names[of(topic)]))
            await writer.publish(topic, b"1", 1)
        async with Device.open(node, "b") as other:
            await other.subscribe(topic, qos=1)
        await node.stop()
        again = await restart(node, base, home, **PARTITIONED)
        async with Device.open(again, "a", clean_start=False, properties=KEPT) as device:
            assert (await device.expect(Publish)).payload == b"1"  # and does not acknowledge it
            await until_card(home, lambda card: card.left_s is None)
            again.abort()
        async with Device.open(home, "a", clean_start=False, properties=KEPT) as device:
            assert (await device.message()).payload == b"1"
            await device.silent()
        await again.stop()
