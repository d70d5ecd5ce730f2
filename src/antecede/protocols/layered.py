"""A process above another one: it answers questions about nodes and links as the one below does."""

from antecede.core import Process
from antecede.core.native import mypyc_attr
from antecede.core.process import Missing


@mypyc_attr(allow_interpreted_subclasses=True)
class Layered(Process):
    """Base of a process that runs `inner` below it and adds something of its own."""

    inner: Process

    def follow(self, topic: str, source: int, seq: int, clock: int) -> None:
        self.inner.follow(topic, source, seq, clock)

    def members(self, topic: str) -> frozenset[int]:
        return self.inner.members(topic)

    def children(self, topic: str) -> tuple[int, ...]:
        return self.inner.children(topic)

    @property
    def down(self) -> frozenset[int]:
        return self.inner.down

    def lagging(self, topic: str) -> dict[int, int]:
        return self.inner.lagging(topic)

    def missing(self) -> list[Missing]:
        return self.inner.missing()

    @property
    def held_bytes(self) -> int:
        """What the process below holds. A layer that holds messages of its own has a bound of its own for them."""
        return self.inner.held_bytes
