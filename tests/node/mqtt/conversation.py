"""Three MQTT devices at three brokers ask and answer each other; a trace of it is judged by the audit.

Every device reads all questions and all answers with QoS 1. It asks questions of its own, and answers those of the
others on another topic as soon as it has read them. The clients are those of aiomqtt (paho-mqtt), unmodified.
"""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack

import aiomqtt

from antecede.audit import audit
from antecede.audit.report import Report
from antecede.trace import Event, Recorder

DEVICES = 3
#: A QoS 1 message may come twice by the standard; a device counts it once, as applications do.
RULES = ("causal", "fifo", "no-invention", "complete")


class Conversation:
    """What three devices publish and read."""

    def __init__(self, ports: list[int], questions: int, *, every_s: float = 0.0) -> None:
        """`every_s`: between two questions of a device."""
        self.recorder = Recorder()
        self.twice = 0
        self._ports = ports
        self._questions = questions
        self._every_s = every_s
        #: Messages of each topic. A topic has one publisher.
        self._published: Counter[str] = Counter()
        self._turns = [0] * DEVICES
        self._read: list[set[tuple[str, int]]] = [set() for _ in range(DEVICES)]
        self._probed: list[set[int]] = [set() for _ in range(DEVICES)]

    @property
    def expected(self) -> int:
        """Messages for each device: every question, and its answers from the two others."""
        return DEVICES * self._questions * DEVICES

    async def run(self, within_s: float = 120.0) -> Report:
        """Talk until every device has read everything, or the time is over; the judgement."""
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    aiomqtt.Client("127.0.0.1", port, identifier=f"device{number}", protocol=aiomqtt.ProtocolVersion.V5)
                )
                for number, port in enumerate(self._ports)
            ]
            for client in clients:
                client.pending_calls_threshold = 1 << 20
                await client.subscribe("+/questions/#", qos=1)
                await client.subscribe("+/answers/#", qos=1)
                await client.subscribe("+/probe", qos=1)
            readers = [asyncio.ensure_future(self._listen(number, client)) for number, client in enumerate(clients)]
            try:
                async with asyncio.timeout(within_s):
                    await self._until_linked(clients)
                    await asyncio.gather(*[self._ask(number, client) for number, client in enumerate(clients)])
                    while any(len(read) < self.expected for read in self._read):
                        await asyncio.sleep(0.05)
            except TimeoutError:
                pass  # the audit says what is missing
            finally:
                for reader in readers:
                    reader.cancel()
        return audit(self.recorder.rows(), rules=RULES, broadcast_to=range(DEVICES))

    async def _until_linked(self, clients: list[aiomqtt.Client]) -> None:
        while any(len(seen) < DEVICES for seen in self._probed):
            for number, client in enumerate(clients):
                await client.publish(f"o{number}/probe", b"%d" % number, qos=1)
            await asyncio.sleep(0.2)

    async def _ask(self, number: int, client: aiomqtt.Client) -> None:
        for _ in range(self._questions):
            await self._publish(number, client, "questions")
            await asyncio.sleep(self._every_s)

    async def _publish(self, number: int, client: aiomqtt.Client, kind: str) -> None:
        self._turns[number] += 1
        topic = f"o{number}/{kind}/{self._turns[number] % 5}"
        self._published[topic] += 1
        seq = self._published[topic]
        self.recorder.add(Event.PUBLISH, time.monotonic_ns() // 1000, number, topic=topic, source=number, seq=seq)
        await client.publish(topic, b"%d %d" % (number, seq), qos=1)

    async def _listen(self, number: int, client: aiomqtt.Client) -> None:
        answering = []
        async for message in client.messages:
            topic, payload = str(message.topic), bytes(message.payload)  # type: ignore[arg-type]
            if topic.endswith("/probe"):
                self._probed[number].add(int(payload))
                continue
            source, seq = map(int, payload.split())
            if (topic, seq) in self._read[number]:
                self.twice += 1
                continue
            self._read[number].add((topic, seq))
            self.recorder.add(Event.DELIVER, time.monotonic_ns() // 1000, number, topic=topic, source=source, seq=seq)
            if "/questions/" in topic and source != number:
                # It is sent in this turn; its acknowledgement is awaited beside the reading.
                answering.append(asyncio.ensure_future(self._publish(number, client, "answers")))
