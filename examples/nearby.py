"""Cells of a town as topics: taxis publish where they are, a passenger takes the cells around and sees taxis nearby.

    python examples/nearby.py [URL]

The town is a square of 8 km. Its cells have level 3: a cell is 1 km wide, and its topic is `area/…` with three digits.
The passenger subscribes to the cells within 1.2 km, in as few filters as possible. Taxis in these cells may be farther
away: the passenger looks at the position in the payload and leaves those out.
"""

import asyncio
import math
import sys

import antecede
from antecede.core.areas import cell_of, filters, topic_of

SIDE_KM, LEVEL, NEAR_KM = 8.0, 3, 1.2
PASSENGER = (3.3, 4.4)
TAXIS = {"A": (3.0, 4.0), "B": (4.2, 5.1), "C": (4.9, 5.9), "D": (7.5, 0.5), "E": (2.4, 4.9)}


async def drive(url: str, name: str) -> None:
    x, y = TAXIS[name]
    async with antecede.connect(url, name=f"taxi {name}") as bus:
        topic = topic_of(cell_of(x / SIDE_KM, y / SIDE_KM, LEVEL))
        await bus.publish(topic, f"{name} {x} {y}".encode())


async def run(url: str) -> tuple[list[str], list[str]]:
    """The taxis nearby, and those in the same cells that are farther away."""
    x, y = PASSENGER
    chosen = filters(x / SIDE_KM, y / SIDE_KM, NEAR_KM / SIDE_KM, LEVEL)
    nearby, farther = [], []
    async with antecede.connect(url, name="passenger") as bus, bus.subscribe(*chosen, "end") as feed:
        await asyncio.gather(*[drive(url, name) for name in TAXIS])
        await bus.publish("end", b"")
        async for message in feed:
            if message.topic == "end":
                return sorted(nearby), sorted(farther)
            name, *position = message.payload.decode().split()
            (nearby if math.dist(PASSENGER, map(float, position)) <= NEAR_KM else farther).append(name)
    raise AssertionError("the feed ended")


def main(arguments: list[str]) -> None:
    nearby, farther = asyncio.run(run(arguments[0] if arguments else "memory://nearby"))
    print(f"nearby: {', '.join(nearby)}; in a cell nearby, but farther away: {', '.join(farther)}")
    assert nearby == ["A", "B", "E"]
    assert "D" not in farther


if __name__ == "__main__":
    main(sys.argv[1:])
