"""Bounds what clients make a node hold in memory, in bytes: for each client and kind, and for all of them together.

A `Share` counts what one client holds of one kind: publications that wait, feeds, messages queued for feeds. It has a
bound of its own. All shares draw on the `Pool` of the node. While the pool is used up a client may hold only a small
part of its share, so clients that ask for little are served beside clients that ask for much.
"""

from antecede.core.limits import FEED_BYTES, FILTER_LEVEL_BYTES, PAIR_BYTES, POOL_BYTES_MAX, SHARE_BYTES_KEPT
from antecede.wire.requests import Subscribe


class Pool:
    """Counts what all clients of a node hold."""

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int = POOL_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0


class Share:
    """Counts what one client holds of one kind."""

    __slots__ = ("_pool", "bytes_max", "used")

    def __init__(self, pool: Pool, bytes_max: int) -> None:
        self._pool = pool
        self.bytes_max = bytes_max
        self.used = 0

    def take(self, size: int) -> bool:
        """Count `size` bytes more. False: that would be too much, and nothing was counted."""
        if self._exceeded(self.used + size, self._pool.used + size):
            return False
        self.add(size)
        return True

    def add(self, size: int) -> None:
        """Count `size` bytes more, also beyond the bound: the caller admitted the request while there was room."""
        self.used += size
        self._pool.used += size

    @property
    def full(self) -> bool:
        return self._exceeded(self.used + 1, self._pool.used + 1)

    def _exceeded(self, used: int, pool_used: int) -> bool:
        return used > self.bytes_max or (pool_used > self._pool.bytes_max and used > SHARE_BYTES_KEPT)

    def give_back(self, size: int) -> None:
        self.used -= size
        self._pool.used -= size
        assert self.used >= 0, "more was given back than taken"

    def clear(self) -> None:
        """The client is gone."""
        self.give_back(self.used)


def feed_bytes(wanted: Subscribe) -> int:
    """The memory that a feed costs, about: what it keeps of its subscription, and its part of the tree of filters."""
    levels = sum([pattern.count("/") + 1 for pattern in wanted.filters])
    text = sum([4 * len(pattern) for pattern in wanted.filters])
    return FEED_BYTES + FILTER_LEVEL_BYTES * levels + text + 2 * PAIR_BYTES * len(wanted.seen)
