"""Causal order through MQTT: devices at three nodes of a cluster with bad links, questions and answers."""

import asyncio

from antecede.wire.mqtt.packets import Publish
from tests.client.running import awaited
from tests.node.clusters import cluster
from tests.node.mqtt.conversation import Conversation
from tests.node.mqtt.devices import Device
from tests.node.mqtt.test_libraries import port_of

QUESTIONS = 60
#: Most packets are quick and some take a while, and the latter must not be overtaken by what follows them.
BAD_LINKS = ("heavy-tailed:mean=0.02,shape=1.2,t_pc=0,t_t=0",)


async def answer(device: Device) -> None:
    """Answer every question on another topic, as soon as it was read."""
    for number in range(QUESTIONS):
        question: Publish = await device.find(Publish)
        device.write(Publish(topic="answers/1", payload=b"re " + question.payload, qos=1, packet_id=number + 1))


@awaited
async def test_no_device_is_given_an_answer_before_its_question() -> None:
    async with (
        cluster(3, mqtt_port=0, fault_injection=BAD_LINKS) as nodes,
        Device.open(nodes[0], "asks", 4) as asks,
        Device.open(nodes[1], "answers", 5) as answers,
        Device.open(nodes[2], "reads", 5) as reads,
    ):
        await answers.subscribe("questions/#")
        await reads.subscribe("answers/#")
        await reads.subscribe("questions/+")
        replies = asyncio.ensure_future(answer(answers))
        for number in range(QUESTIONS):
            await asks.publish(f"questions/{number % 7}", b"%d" % number, 1)
        await replies
        found = [(await reads.message()).payload for _ in range(2 * QUESTIONS)]
        for number in range(QUESTIONS):
            assert found.index(b"%d" % number) < found.index(b"re %d" % number)


@awaited
async def test_three_devices_are_in_order_by_the_audit() -> None:
    """With real clients at all nodes: nothing out of order, nothing lost."""
    async with cluster(3, mqtt_port=0, fault_injection=BAD_LINKS) as nodes:
        talk = Conversation([port_of(node) for node in nodes], 20)
        report = await talk.run()
        assert report.ok, report
        assert not talk.twice
