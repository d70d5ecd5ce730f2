"""Client and node in one process: `antecede.Node`, and the nodes behind `memory://`.

This is the only module that imports both sides. A client needs no node and a node needs no client; a test, a notebook
or an application that runs a node of its own wants both.
"""

import asyncio

from antecede.client.bus import Bus
from antecede.client.dialler import Dialler
from antecede.node.config import NodeConfig
from antecede.node.node import Node as BareNode
from antecede.wire.frames import FrameConnection
from antecede.wire.memory import MemoryNetwork
from antecede.wire.pipe import pipe
from antecede.wire.transports import memory_transport


class Node(BareNode):
    """A node that clients in the same process can reach without a socket."""

    def connect(self, name: str = "", *, token: str = "") -> Bus:
        """A client of this node, within the process. Use it with `async with`."""

        async def dial(connection: FrameConnection) -> None:
            pipe(connection, self.listener.incoming())

        return Bus(Dialler((("memory", 0),), cluster=self.config.cluster, name=name, token=token, dial=dial))


class _Shared:
    """A node without port or journal, and the number of clients that use it."""

    def __init__(self) -> None:
        alone = memory_transport(MemoryNetwork())
        self.node = BareNode(NodeConfig(name="memory", slots=1, port=0), transport_kind=alone)
        self.users = 0
        self.lock = asyncio.Lock()
        self.running = False


#: By event loop and name. An entry is removed with its last user.
_nodes: dict[tuple[asyncio.AbstractEventLoop, str], _Shared] = {}


def connect_memory(key: str, *, name: str, token: str, timeout_s: float) -> Bus:
    """A client of the node called `key` on this event loop. The first client starts it, the last one stops it."""
    using: _Shared | None = None

    async def dial(connection: FrameConnection) -> None:
        nonlocal using
        if using is None:
            entry = (asyncio.get_running_loop(), key)
            using = _nodes.setdefault(entry, _Shared()) if key else _Shared()
            using.users += 1
        async with using.lock:
            if not using.running:
                await using.node.start()
                using.running = True
        pipe(connection, using.node.listener.incoming())

    async def leave() -> None:
        nonlocal using
        if using is not None:
            left, using = using, None
            left.users -= 1
            if not left.users:
                _nodes.pop((asyncio.get_running_loop(), key), None)
                if left.running:
                    await left.node.stop()

    return Bus(
        Dialler(
            (("memory", 0),),
            cluster="antecede",
            name=name,
            token=token,
            timeout_s=timeout_s,
            patience_s=0.0,
            dial=dial,
            on_close=leave,
        )
    )
