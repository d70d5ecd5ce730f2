"""What an ordering asks of a broker: publish, subscribe, be told. Implement this for yours; `nats` is 70 lines."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from antecede.core import AntecedeError

#: Called with the bytes of each event, in the loop's thread.
Take: TypeAlias = Callable[[bytes], None]


class ServiceError(AntecedeError):
    """The broker cannot be reached, or refused."""

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(f"{address}: {problem}")


class EventService(Protocol):
    """A broker as one client sees it.

    It may reorder events and, now and then, lose some. An event should reach everybody subscribed when it was
    published, its publisher too.
    """

    async def open(self) -> None:
        """Connect. Raises `ServiceError`."""
        ...

    def check(self, topic: str) -> None:
        """Raise `UsageError` for what is no topic here."""
        ...

    async def publish(self, topic: str, data: bytes) -> None:
        """Return when the broker has it, or will unless the connection breaks."""
        ...

    async def subscribe(self, topic: str, take: Take) -> None:
        """Return when the subscription is in effect: whatever anybody publishes from now on is given to `take`."""
        ...

    async def unsubscribe(self, topic: str) -> None:
        """No more of it."""
        ...

    async def close(self) -> None: ...
