"""Sensors fan in: many publish, one watches, and an alarm never comes before the readings that caused it.

    python examples/sensors.py [URL]

The guard reads all sensors and raises an alarm when one is hot. The board reads alarms and readings in one feed, with a
short queue that drops the oldest when the board is slow: it would rather be up to date, and it is told what it missed.
"""

import asyncio
import sys

import antecede

SENSORS = 8
READINGS = 25
LIMIT = 23


async def sense(url: str, number: int) -> None:
    async with antecede.connect(url, name=f"sensor {number}") as bus:
        for step in range(READINGS):
            celsius = 20 + (step * (number + 1)) % 5
            await bus.publish(f"sensors/{number}/celsius", b"%d" % celsius, durability="memory")


async def guard(url: str, ready: asyncio.Event) -> int:
    alarms = 0
    async with antecede.connect(url, name="guard") as bus, bus.subscribe("sensors/+/celsius") as feed:
        ready.set()
        for _ in range(SENSORS * READINGS):
            reading = await anext(feed)
            if int(reading.payload) > LIMIT:
                alarms += 1
                await bus.publish("alarms/hot", str(reading.id).encode())
    return alarms


async def run(url: str) -> tuple[int, int, int]:
    """Alarms raised, alarms the board saw without their reading (never any), messages the board missed."""
    ready = asyncio.Event()
    async with (
        antecede.connect(url, name="board") as bus,
        bus.subscribe("sensors/#", "alarms/#", "end", queue=4096, policy="drop_oldest") as feed,
    ):
        guarding = asyncio.create_task(guard(url, ready))
        await ready.wait()
        await asyncio.gather(*[sense(url, number) for number in range(SENSORS)])
        raised = await guarding
        await bus.publish("end", b"")
        readings: set[str] = set()
        early = 0
        async for message in feed:
            if message.topic == "end":
                return raised, early, feed.dropped
            if message.topic == "alarms/hot":
                early += message.payload.decode() not in readings
            readings.add(str(message.id))
    raise AssertionError("the feed ended")


def main(arguments: list[str]) -> None:
    raised, early, missed = asyncio.run(run(arguments[0] if arguments else "memory://sensors"))
    print(f"{SENSORS * READINGS} readings, {raised} alarms, {early} of them before their reading, {missed} missed")
    assert not early


if __name__ == "__main__":
    main(sys.argv[1:])
