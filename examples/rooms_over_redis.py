"""Two chat rooms as two Redis streams: a reader of both sees answers after what they answer.

redis-server &
python examples/rooms_over_redis.py redis://127.0.0.1:6379
"""

import asyncio
import sys

import antecede


async def main(server: str) -> None:
    url = f"{server}?streams=lobby,kitchen"
    async with antecede.connect(url) as alice, antecede.connect(url) as bob, antecede.connect(url) as carol:
        async with bob.subscribe("lobby/#") as bobs, carol.subscribe("#") as carols:
            await alice.publish("lobby/alice", b"is there any soup left?")
            question = await anext(bobs)
            await bob.publish("kitchen/bob", b"yes: " + question.payload)
            for _ in range(2):
                message = await anext(carols)
                print(f"{message.topic}: {message.payload.decode()}")
            cursor = message.cursor
        await alice.publish("lobby/alice", b"thank you")
        async with carol.subscribe("#", since=cursor) as carols:  # a cursor covers both streams
            message = await anext(carols)
            print(f"{message.topic}: {message.payload.decode()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "redis://127.0.0.1:6379"))
