"""Back-pressure: when publishers of a node must wait, and what wakes them.

They wait while the node's own readers lag and it has no journal to serve them from (`hub`), while the protocol is
behind with numbers or the journal with commits, and while a peer takes packets too slowly.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from antecede.core import Message
from antecede.core.limits import UNCOMMITTED_BYTES_MAX, UNNUMBERED_MAX, UNNUMBERED_TOTAL_MAX

if TYPE_CHECKING:
    from antecede.node.node import Node


class BackPressure:
    """Makes the publishers of one node wait."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        #: Since when publishers have been waiting, by the loop's clock; None: none waits.
        self.since: float | None = None
        self._unstamped = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def busy(self) -> bool:
        """Must publishers wait?"""
        return self._node.hub.jammed or self._behind or self._congested

    @property
    def _behind(self) -> bool:
        """Is the protocol behind with numbers, or the journal with commits?"""
        node = self._node
        most = UNNUMBERED_TOTAL_MAX if node.protocol.live.total_order else UNNUMBERED_MAX
        unnumbered = self._unstamped + node.process.backlog
        return unnumbered >= most or node.driver.uncommitted_bytes > UNCOMMITTED_BYTES_MAX

    @property
    def _congested(self) -> bool:
        """Does a peer take packets too slowly that publishers wait for? Not for one that is down or far behind."""
        slow = self._node.transport.relief.slow
        return bool(slow) and not slow <= self._node.lagging().keys() | self._node.process.down

    def count_until_stamped(self, promise: "asyncio.Future[Message]") -> None:
        """A publication has no number yet: it counts until it has one."""
        self._unstamped += 1
        promise.add_done_callback(self._stamped)

    def _stamped(self, done: "asyncio.Future[Message]") -> None:
        self._unstamped -= 1
        if not done.cancelled():
            done.exception()  # the session asks as well; a session that is gone does not

    def when_free(self, do: Callable[[], None]) -> None:
        """Call `do` when publishers need not wait any more."""
        if self.since is None:
            self._node.tasks.start("wakes waiting publishers", self._free())
            self.since = asyncio.get_running_loop().time()
        self._waiting[do] = None

    def not_when_free(self, do: Callable[[], None]) -> None:
        """Take `when_free` back: the client is gone."""
        self._waiting.pop(do, None)

    async def _free(self) -> None:
        while self.busy:
            await self._node.hub.relieved()
            if self._congested:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._node.transport.relieved(), 0.05)  # or a slow peer is found to be down
            if self._behind:
                await asyncio.sleep(0.005)
        self.since = None
        waiting, self._waiting = self._waiting, {}
        for do in waiting:
            do()
