"""A node as a process: runs until a signal asks it to stop."""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Callable
from typing import Final

from antecede.node.config import NodeConfig
from antecede.node.node import Node
from antecede.wire.accepting import raise_descriptor_limit

#: How long a thread may keep the interpreter's lock while others wait for it.
_SWITCH_S: Final = 0.0001

#: Bytes of one allocation from which the C library asks the system for memory of its own, and gives it back at once. It
#: keeps up to twice as much free memory otherwise.
_OWN_MEMORY_BYTES: Final = 8 << 20


def keep_freed_memory() -> None:
    """Let the C library keep what a batch frees, for the next one.

    It would give the end of its memory back after each large batch and take it again for the next. Then the system
    clears and maps each page anew: some microseconds for 4 KiB in a virtual machine. glibc adapts its bounds to the
    largest block that it gave back (mallopt(3), M_MMAP_THRESHOLD). So this takes one, does not touch it, and frees it.
    Other C libraries take no notice.
    """
    bytes(_OWN_MEMORY_BYTES)


async def run_node(config: NodeConfig, ready: Callable[[Node], None], *, leave: bool = False) -> None:
    """Start a node, call `ready`, wait for SIGINT or SIGTERM, then stop it; with `leave`, leave the cluster for good.

    SIGHUP makes it read its certificates and tokens again. Raises the error if the node stops by itself.
    """
    raise_descriptor_limit()
    keep_freed_memory()
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    node = Node(config)
    loop.add_signal_handler(signal.SIGHUP, node.credentials.reload)
    stopping = asyncio.create_task(asked.wait())
    starting = asyncio.create_task(node.start())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return
    starting.result()
    # Objects made so far stay for good, so the garbage collector need not visit them. Messages are no objects of its.
    gc.collect()
    gc.freeze()
    # A collection of the middle generation visits 6 × 1,000 objects at the most: a few milliseconds. The oldest one is
    # collected as often as with fewer and larger ones.
    gc.set_threshold(1_000, 5, 800)
    # A thread that reads pages or compacts gives the interpreter's lock back soon: the event loop asks for it at every
    # call of the system, and would wait for 5 ms each time.
    sys.setswitchinterval(_SWITCH_S)
    ready(node)
    ending = asyncio.create_task(node.stopped())
    await asyncio.wait([ending, stopping], return_when=asyncio.FIRST_COMPLETED)
    try:
        if ending.done():
            ending.result()
    finally:
        stopping.cancel()
        ending.cancel()
        await (node.leave() if leave and not ending.done() else node.stop())
