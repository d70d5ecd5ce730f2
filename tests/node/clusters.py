"""Clusters within one process, over real sockets, for tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from antecede import Node
from antecede.node.local_cluster import free_ports

#: Rounds short enough for tests; long enough for a loaded machine not to suspect the living all the time.
QUICK: dict[str, Any] = {"round_s": 0.4, "timeout_s": 0.35}


def make(number: int, seeds: tuple[str, ...], base: Path | None, *, slots: int = 8, port: int = 0, **more: Any) -> Node:
    directory = None if base is None else base / f"n{number}"
    if "tls" in more:
        more = {"certificate": f"n{number}"} | more
    if not port:  # one that no outgoing connection takes while the node restarts
        (port,) = free_ports([0])
    return Node(port=port, slots=slots, seeds=seeds, name=f"n{number}", directory=directory, **(QUICK | more))


@asynccontextmanager
async def cluster(count: int, base: Path | None = None, **more: Any) -> AsyncIterator[list[Node]]:
    """Nodes by their places, the founder first. Those still running are stopped at the end."""
    async with AsyncExitStack() as stack:
        founder = make(0, (), base, **more)
        await stack.enter_async_context(founder)
        nodes = [founder]
        for number in range(1, count):
            node = make(number, (founder.address,), base, **more)
            await stack.enter_async_context(node)
            nodes.append(node)
        yield nodes


async def restart(node: Node, base: Path, founder: Node, **more: Any) -> Node:
    """The same node again: its directory, its port."""
    port = node.listener.address[1]
    number = int(node.name.removeprefix("n"))
    seeds = () if number == 0 else (founder.address,)
    again = make(number, seeds, base, port=port, **({"slots": node.config.slots} | more))
    await again.start()
    return again


async def until_all_have(nodes: list[Node], count: int, within_s: float = 40.0) -> None:
    """Every node has delivered `count` messages."""
    try:
        async with asyncio.timeout(within_s):
            while any(node.hub.position < count for node in nodes):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"delivered {[node.hub.delivered for node in nodes]} of {count}") from None
