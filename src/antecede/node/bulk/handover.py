"""Keeps the order of a producer's batches when the next one is published at another node.

A node that has published a batch tells its last messages (`ends`). The node of the next batch begins when it has
delivered them (`follow`). So everything that it publishes then follows them.
"""

import asyncio
from typing import TYPE_CHECKING

from antecede.core.limits import SLOTS_MAX
from antecede.core.partitions import message_name
from antecede.node.predecessors import After

if TYPE_CHECKING:
    from antecede.node.node import Node


def ends(node: "Node") -> After:
    """The last messages that this node has published and delivered, by stream."""
    return tuple((stream, seq) for stream, seq in node.hub.delivered.items() if stream % SLOTS_MAX == node.slot)


async def follow(node: "Node", after: After, deadline: float) -> str:
    """Return when everything in `after` was delivered here, or will be followed without; "" then.

    At the deadline, by the loop's clock: return the messages that are missing, in words.
    """
    hub, following = node.hub, node.following
    here = node.taking.here(after)
    woken = asyncio.Event()
    withdraw = None if hub.has(here) else hub.when_delivered(here, woken.set)
    try:
        async with asyncio.timeout_at(deadline):
            while not hub.has(here):
                await woken.wait()
                woken.clear()
            while unknown := following.unknown(after):
                following.learn(unknown, woken.set)
                await woken.wait()
                woken.clear()
    except TimeoutError:
        return ", ".join(message_name(*one) for one in after if not hub.has((one,)))
    finally:
        if withdraw is not None:
            withdraw()
    return ""
