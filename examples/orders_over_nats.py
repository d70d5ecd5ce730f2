"""Orders and shipping notes in two streams of NATS JetStream: a reader of both never sees a note before its order.

    nats-server -js &
    python examples/orders_over_nats.py nats://127.0.0.1:4222

The streams are made here if they are missing. No server of ours runs.
"""

import asyncio
import sys

import nats

import antecede


async def make_streams(server: str) -> None:
    connection = await nats.connect(server)
    for name in ("orders", "shipping"):
        await connection.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
    await connection.close()


async def ship(url: str, start: str) -> None:
    """The warehouse: it answers an order on the other stream."""
    async with antecede.connect(url, name="warehouse") as bus, bus.subscribe("orders/#", since=start) as orders:
        for _ in range(3):
            order = await anext(orders)
            await bus.publish("shipping/notes", b"shipped: " + order.payload)


async def main(server: str) -> None:
    await make_streams(server)
    url = f"{server}?streams=orders,shipping"
    async with antecede.connect(url, name="shop") as shop:
        start = await shop.cut()  # over both streams: what an earlier run left is not read again
        shipping = asyncio.create_task(ship(url, start))
        async with shop.subscribe("#", since=start) as feed:
            for item in (b"a lamp", b"two chairs", b"a table"):
                await shop.publish("orders/new", item)
            for _ in range(6):
                message = await anext(feed)
                print(f"{message.topic}: {message.payload.decode()}")
        await shipping


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
