"""A chat room: nobody reads a reply before what it replies to.

python examples/chat.py                                    three people in one process
python examples/chat.py antecede://127.0.0.1:7400          the same, through a node
python examples/chat.py antecede://127.0.0.1:7400 carol    as carol, from the keyboard
"""

import asyncio
import sys
from contextlib import AsyncExitStack

import antecede

ROOM = "rooms/garden/chat"

SCRIPT = {
    "alice": {None: "has anybody watered the tomatoes?"},
    "bob": {"has anybody watered the tomatoes?": "not me"},
    "carol": {"not me": "then I will", "then I will": "done"},
}


async def talk(url: str, name: str, heard: list[str]) -> None:
    """Say what the script has this person say: some things at once, others when something is heard."""
    lines = SCRIPT[name]
    async with antecede.connect(url, name=name) as bus, bus.subscribe(ROOM, since="0") as room:
        if None in lines:
            await bus.publish(ROOM, lines[None].encode(), headers={"from": name})
        async for message in room:
            text = message.payload.decode()
            heard.append(f"{message.headers['from']}: {text}")
            if text in lines:
                await bus.publish(ROOM, lines[text].encode(), headers={"from": name})
            if text == "done":
                return


async def scripted(url: str) -> dict[str, list[str]]:
    """Everybody's view of the room."""
    heard: dict[str, list[str]] = {name: [] for name in SCRIPT}
    async with AsyncExitStack() as stack:
        if url.startswith("memory://"):  # keep the embedded node while people come and go
            await stack.enter_async_context(antecede.connect(url))
        await asyncio.gather(*[talk(url, name, heard[name]) for name in SCRIPT])
    return heard


async def from_keyboard(url: str, name: str) -> None:
    async with antecede.connect(url, name=name) as bus, bus.subscribe(ROOM, since="0") as room:

        async def read() -> None:
            async for message in room:
                print(f"{message.headers.get('from', '?')}: {message.payload.decode()}")

        reading = asyncio.create_task(read())
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            await bus.publish(ROOM, line.strip().encode(), headers={"from": name})
        reading.cancel()


def main(arguments: list[str]) -> None:
    url = arguments[0] if arguments else "memory://chat"
    if len(arguments) > 1:
        asyncio.run(from_keyboard(url, arguments[1]))
        return
    for name, heard in asyncio.run(scripted(url)).items():
        print(f"what {name} read")
        for line in heard:
            print(f"  {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
