"""What a feed, and the publications of a client, need of the session that they belong to.

`session.Session` is one for clients of our own protocol; `mqtt` and `http` have others.
"""

from typing import TYPE_CHECKING, Protocol

from antecede.node.shares import Share
from antecede.wire.requests import FromNode
from antecede.wire.security.tokens import Grants

if TYPE_CHECKING:
    from antecede.node.feed import Feed
    from antecede.node.node import Node


class FeedOwner(Protocol):
    """Sends what its feeds give it to a client."""

    node: "Node"
    name: str
    client: object
    feeds: "dict[int, Feed]"
    feeds_share: Share
    window_share: Share

    @property
    def can_write(self) -> bool:
        """Does the client read what it was sent?"""
        ...

    def send(self, record: FromNode) -> None: ...

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        """Send `Items`; `piece` has its columns, encoded."""
        ...

    def flush(self) -> None:
        """Write what has gathered."""
        ...


class FeedClient(FeedOwner, Protocol):
    """A client that opens feeds by its grants (`feed_opening`)."""

    grant: Grants


class PublicationsOwner(Protocol):
    """Sends the answers to publications to a client."""

    node: "Node"
    client: object
    grant: Grants

    def send(self, record: FromNode) -> None: ...

    def touch(self) -> None:
        """There are acknowledgements."""
        ...
