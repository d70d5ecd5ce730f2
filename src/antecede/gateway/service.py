"""What a broker must offer: publish, subscribe, unsubscribe. Implement this for yours; `nats` is an example."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from antecede.core import AntecedeError

#: Called with the bytes of each event, in the event loop's thread.
Take: TypeAlias = Callable[[bytes], None]


class ServiceError(AntecedeError):
    """The broker cannot be reached, or refused."""

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(f"{address}: {problem}")


class EventService(Protocol):
    """A broker, as one of its clients sees it.

    It may reorder events and lose some. An event should reach every client that was subscribed when it was published,
    its publisher included.
    """

    async def open(self) -> None:
        """Connect. Raises `ServiceError`."""
        ...

    def check(self, topic: str) -> None:
        """Raise `UsageError` if the broker has no topic of this name."""
        ...

    async def publish(self, topic: str, data: bytes) -> None:
        """Return when the broker has the event, or will have it unless the connection breaks."""
        ...

    async def subscribe(self, topic: str, take: Take) -> None:
        """Return when the subscription is in effect: every event published from now on is given to `take`."""
        ...

    async def unsubscribe(self, topic: str) -> None:
        """Return when no more events of `topic` will come."""
        ...

    async def close(self) -> None: ...
