"""Bounds what one client may add to a batch: a batch is committed and delivered as a whole, and others wait for it.

The driver gathers publications of all clients into one batch while the batch before it is committed. A client that
publishes faster than the journal commits would fill every batch, and the others would wait for its bytes. So its
publications beyond its share wait for the next batch.
"""

from collections import Counter
from collections.abc import Callable

from antecede.core.limits import BATCH_BYTES_MAX, BATCH_MESSAGE_BYTES


class BatchShares:
    """The shares of the batch that gathers, by client. As in `turns`, all connections of one token are one client."""

    def __init__(self) -> None:
        self._used: Counter[object] = Counter()
        self._waiting: dict[Callable[[], None], None] = {}

    def add(self, client: object, count: int, size: int) -> None:
        """The client has added so many messages, of so many bytes."""
        self._used[client] += count * BATCH_MESSAGE_BYTES + size

    def full(self, client: object) -> bool:
        """Has the client used up its share?"""
        return self._used[client] >= BATCH_BYTES_MAX

    def wait(self, do: Callable[[], None]) -> None:
        """Call `do` when the next batch begins."""
        self._waiting[do] = None

    def withdraw(self, do: Callable[[], None]) -> None:
        """Take `wait` back."""
        self._waiting.pop(do, None)

    def begin(self) -> None:
        """The next batch begins."""
        self._used.clear()
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for do in waiting:
                do()
