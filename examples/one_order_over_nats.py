"""Two readers of the same NATS subjects, two publishers: how often do the readers disagree about what came first?

    nats-server &                                  # any NATS server
    python examples/one_order_over_nats.py [nats://127.0.0.1:4222] [events of each publisher]

First with plain NATS, which orders what one publisher says and nothing else; then with antecede's total notification
order over the same server. Traders who must agree on which quote came before which trade want the second.
"""

import asyncio
import sys

import nats

from antecede.gateway import NatsService, OrderedBus

SUBJECTS = ("trades", "quotes")
READERS, PUBLISHERS = (1, 2), (3, 4)


def event(publisher: int, number: int) -> tuple[str, bytes]:
    return SUBJECTS[number % 2], b"%d.%d" % (publisher, number)


async def plain(url: str, events: int) -> list[list[bytes]]:
    """What each reader saw, by NATS alone."""
    seen: list[list[bytes]] = [[] for _ in READERS]
    readers = [await nats.connect(url) for _ in READERS]
    for reader, taken in zip(readers, seen, strict=True):
        for subject in SUBJECTS:

            async def take(message, taken=taken):
                taken.append(message.data)

            await reader.subscribe(f"plain.{subject}", cb=take)
        await reader.flush()

    async def publish(number: int) -> None:
        connection = await nats.connect(url)
        for place in range(events):
            subject, payload = event(number, place)
            await connection.publish(f"plain.{subject}", payload)
            await asyncio.sleep(0)
        await connection.drain()

    await asyncio.gather(*[publish(number) for number in PUBLISHERS])
    while min(map(len, seen)) < events * len(PUBLISHERS):
        await asyncio.sleep(0.01)
    for reader in readers:
        await reader.close()
    return seen


async def ordered(url: str, events: int) -> list[list[bytes]]:
    """The same with an order. Participant 0 manages the subjects; in earnest that is `antecede manager`, or three."""

    def bus(number: int) -> OrderedBus:
        return OrderedBus(NatsService(url), number=number, system="example")

    async with bus(0), bus(1) as left, bus(2) as right, bus(3) as one, bus(4) as other:
        for reader in (left, right):
            await reader.subscribe(*SUBJECTS)

        async def publish(publisher: OrderedBus) -> None:
            for place in range(events):
                await publisher.publish(*event(publisher.number, place))
                await asyncio.sleep(0)

        async def read(reader: OrderedBus) -> list[bytes]:
            found = [await anext(reader) for _ in range(events * len(PUBLISHERS))]
            assert not any(notification.out_of_order for notification in found)
            return [notification.payload for notification in found]

        *_, seen_left, seen_right = await asyncio.gather(publish(one), publish(other), read(left), read(right))
        return [seen_left, seen_right]


def disagreements(one: list[bytes], other: list[bytes]) -> int:
    """Pairs of events the two saw in different orders."""
    place = {seen: index for index, seen in enumerate(one)}
    sequence = [place[seen] for seen in other]
    return sum(sum(earlier > later for earlier in sequence[:index]) for index, later in enumerate(sequence))


async def main(url: str = "nats://127.0.0.1:4222", events: str = "1000") -> None:
    for name, run in (("plain NATS", plain), ("total notification order over it", ordered)):
        one, other = await run(url, int(events))
        print(f"{name}: {len(one)} events, {disagreements(one, other)} pairs in different orders")


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (OSError, nats.errors.Error) as error:
        sys.exit(f"no NATS server: {error}; start one (nats-server), or name yours")
