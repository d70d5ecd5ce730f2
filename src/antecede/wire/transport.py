"""What carries packets between nodes, as its users see it.

A transport promises little, and protocols ask for no more: a packet handed to `send` arrives at most once, unchanged,
under the sender's true number; or it does not arrive. Packets may overtake each other. Nothing blocks and nothing is
raised for a peer that cannot be reached: what is not carried is counted (`counts`), and protocols repair.

Every queue has a bound. A peer that takes packets more slowly than they come makes the transport `congested`: whoever
produces new work (publishes) should await `relieved` first; forwarding goes on. When a peer's queue is full all the
same, the *newest* packet for that peer is dropped and counted in `overflow`: what is queued already is the older part
of what the peer needs, and protocols ask for the rest by number.

Whoever adds a transport runs `antecede.testing` against it.
"""

import enum
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from antecede.core import Packet
from antecede.wire.waiters import Waiters


class Handler(Protocol):
    """Whom a transport tells. Called on the event loop; must not block."""

    def received(self, sender: int, packets: list[Packet]) -> None:
        """Packets arrived from `sender`, in the order in which they came off that link. The list is the handler's.

        May raise `ProtocolError` for a packet that makes no sense: it is counted, and a link is broken for it.
        """
        ...

    def link_up(self, node: int, incarnation: int) -> None:
        """Packets can flow. A link is not an opinion on whether the peer is well: failure detection is elsewhere."""
        ...

    def link_down(self, node: int) -> None: ...


class Reason(enum.StrEnum):
    """Why a connection was refused or closed. Counted, sent to the other side, logged once for each host."""

    SELF = "self"  # a node dialled itself, or somebody claims our number
    DUPLICATE = "duplicate"  # there is a link between the two already, and it has precedence
    STALE = "stale"  # an earlier life of a node that has restarted since
    TWIN = "twin"  # another process claims the same start of the same node, and has precedence
    CLUSTER = "cluster"
    VERSION = "version"
    PACKETS = "packets"  # another protocol, or other packets under its name
    SETTINGS = "settings"  # a setting on which both ends must agree
    ROLE = "role"
    UNTRUSTED = "untrusted"  # certificate or token
    BUSY = "busy"  # too many connections
    MALFORMED = "malformed"
    RATE = "rate"  # too much that was malformed, from there, lately
    SILENT = "silent"  # no handshake, or no sign of life, in time
    TLS = "tls"
    CLOSING = "closing"


@dataclass(slots=True)
class Counts:
    """What a transport did, since it was made. Read by metrics; never reset."""

    packets_sent: int = 0
    packets_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    #: Packets dropped because the peer's queue was full.
    overflow: int = 0
    #: Packets for nodes nobody told us how to reach, or that were removed while packets were queued.
    unreachable: int = 0
    links_up: int = 0
    links_down: int = 0
    #: Connections refused or closed by us, by reason.
    refused: Counter[str] = field(default_factory=Counter)


class Relief:
    """The congestion of a transport: who is behind, and who waits until nobody is."""

    __slots__ = ("_behind", "_waiters")

    def __init__(self) -> None:
        self._behind: set[int] = set()
        self._waiters = Waiters()

    @property
    def congested(self) -> bool:
        return bool(self._behind)

    @property
    def slow(self) -> frozenset[int]:
        """The peers that are behind."""
        return frozenset(self._behind)

    def set(self, node: int, behind: bool) -> None:
        if behind:
            self._behind.add(node)
        elif node in self._behind:
            self._behind.discard(node)
            if not self._behind:
                self.release()

    def release(self) -> None:
        self._waiters.release()

    async def wait(self) -> None:
        while self._behind:
            await self._waiters.wait()


class Transport(ABC):
    """One node's end of the network."""

    def __init__(self, node: int, counts: Counts | None = None) -> None:
        self.node = node
        self.counts = counts or Counts()
        self.relief = Relief()

    @abstractmethod
    async def start(self, handler: Handler) -> None:
        """Begin to carry packets. `handler` is told of everything from here on."""

    def forget(self, node: int) -> None:  # noqa: B027 - some have no links
        """Close the link to `node` and drop the packets queued for it."""

    def set_peer(self, node: int, host: str, port: int) -> None:  # noqa: B027 - some need no addresses
        """Note where `node` listens. Called whenever the roster has news of it, also before `start`."""

    @abstractmethod
    def send(self, to: int, packet: Packet) -> None:
        """Queue `packet` for `to`. `flush` follows within the same turn of the event loop."""

    @abstractmethod
    def flush(self) -> None:
        """Hand on what is queued: the sender has nothing to add for now."""

    @abstractmethod
    async def close(self) -> None:
        """Hand on what is queued, as far as that goes within a few seconds, and stop."""

    @abstractmethod
    def abort(self) -> None:
        """Stop at once, as a crash would: what is queued is lost, and the handler hears nothing more."""

    @abstractmethod
    def pause(self) -> None:
        """Take nothing from peers until `resume`: for a node whose own readers lag. Peers then see congestion."""

    @abstractmethod
    def resume(self) -> None: ...

    @property
    def congested(self) -> bool:
        return self.relief.congested

    async def relieved(self) -> None:
        """Return when no peer is behind. At once, when none is."""
        if self.relief.congested:
            await self.relief.wait()
