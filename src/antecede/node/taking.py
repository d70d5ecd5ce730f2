"""The partitions that a node takes: it joins all of them when it starts, and leaves them when it leaves the cluster.

The protocol reports a membership when it has taken effect (`Process.reports_membership`). A membership that the node
did not ask for is a gap: no node had the messages any more that this one missed, and the protocol joined anew.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from antecede.core.errors import StoppedError
from antecede.journal.batch import Batch

if TYPE_CHECKING:
    from antecede.node.node import Node

#: Within this a node that starts must have heard from every member that is up.
_JOIN_S: Final = 120.0

#: How long a node that leaves waits until the others have its messages.
_LEAVE_S: Final = 30.0


class Taking:
    """The partitions of one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        #: Memberships that the node has asked for, by the change that will be reported and the name of the partition.
        self._asked: dict[tuple[str, str], asyncio.Future[None]] = {}

    def begin(self) -> None:
        """Before the driver starts: expect the memberships that this node has not got yet."""
        process = self._node.process
        self._expect("subscribe", [name for name in self._node.partitions.names if not process.takes(name)])

    async def join(self) -> None:
        """Return when this node is a member of every partition. Raises `StoppedError`."""
        node, process = self._node, self._node.process
        names = [name for _, name in self._asked]
        for name in names:
            if not process.wants(name):
                node.driver.subscribe(name)
        try:
            async with asyncio.timeout(_JOIN_S):
                await self._settled()
        except TimeoutError:
            waits = "; ".join(process.unfinished())
            raise StoppedError(f"node {node.slot} could not join within {_JOIN_S:g} s: it {waits}") from None
        for name in names:
            node.hub.delivered.update(self.reached(name))

    async def leave(self) -> None:
        """Leave every partition. Return when all members have this node's messages, or after a while."""
        node, process = self._node, self._node.process
        names = [name for name in node.partitions.names if process.wants(name)]
        self._expect("unsubscribe", names)
        for name in names:
            node.driver.unsubscribe(name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._settled()
                while any(process.leaving(name) for name in names):
                    await asyncio.sleep(0.01)

    def changed(self, batch: Batch) -> list[tuple[str, int]]:
        """Take note of the memberships in a batch. Returns those not asked for: the partition, and after how many of
        its deliveries."""
        unasked = []
        for change in batch.changes:
            if change.what != "publish" and self._node.partitions.number(change.topic) >= 0:
                asked = self._asked.get((change.what, change.topic))
                if asked is not None and not asked.done():
                    asked.set_result(None)
                elif change.what == "subscribe":
                    unasked.append((change.topic, change.after))
        return unasked

    def reached(self, name: str) -> dict[int, int]:
        """By stream of the partition called `name`: how far this node is."""
        stream = self._node.partitions.stream
        return {stream(name, source): seq for source, seq in self._node.process.delivered(name).items()}

    def _expect(self, what: str, names: list[str]) -> None:
        loop = asyncio.get_running_loop()
        self._asked = {(what, name): loop.create_future() for name in names}

    async def _settled(self) -> None:
        for future in self._asked.values():
            await future
