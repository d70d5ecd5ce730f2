"""The transports between nodes, by name, and what each is made from. To add one: docs/adding-a-transport.md.

A node whose transport finds peers by address listens on a TCP port for clients and for rosters. The transport gets that
listener: TCP links answer on the same port; another transport may ignore it, or use its port number elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from antecede.core import UsageError
from antecede.wire.cluster_key import ClusterKey
from antecede.wire.codec import PacketCodec
from antecede.wire.listener import Listener, Tls
from antecede.wire.memory import MemoryNetwork
from antecede.wire.tcp import TcpTransport
from antecede.wire.transport import Counts, Transport


def _ignored(reason: str) -> None:
    """For a transport that is made without a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportContext:
    """What a node gives to the transport it makes."""

    #: The node's slot, and which of its lives this is: a later life outranks an earlier one.
    node: int
    incarnation: int
    #: Drawn at random for this life: two processes that claim one incarnation differ in it. 0: not told.
    life: int = 0
    #: To be called, with the reason, when a peer has met another life of this node that has precedence over this one.
    superseded: Callable[[str], None] = _ignored
    #: Encodes and decodes packets.
    codec: PacketCodec
    cluster: str
    #: The node's port. `start` may be awaited by the transport; the node does it after the transport has started.
    listener: Listener
    tls: Tls | None
    #: What nodes without TLS prove to each other; None: nothing.
    key: ClusterKey | None = None
    #: Settings on which all nodes must agree: a transport refuses a peer whose values differ.
    agreement: Mapping[str, str]
    #: The counters to use (`Transport.counts`); the listener counts refusals there, too.
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportKind:
    """A transport that a node can be told to use."""

    make: Callable[[TransportContext], Transport]
    #: Do nodes reach each other by address? They then exchange rosters by TCP, and `Transport.set_peer` names every
    #: peer. If not, transports find each other by themselves; a node takes the slot it is told to and has no port.
    by_address: bool = True

    def around(self, wrap: Callable[[Transport], Transport]) -> "TransportKind":
        """The same transport inside another, for example one that loses packets (`node.fault_injection`)."""
        make = self.make
        return replace(self, make=lambda context: wrap(make(context)))


def memory_transport(network: MemoryNetwork) -> TransportKind:
    """Nodes of this process that share `network`."""

    def make(context: TransportContext) -> Transport:
        return network.transport(context.node, incarnation=context.incarnation)

    return TransportKind(make=make, by_address=False)


def _tcp(context: TransportContext) -> Transport:
    return TcpTransport(
        context.node,
        context.codec,
        cluster=context.cluster,
        incarnation=context.incarnation,
        life=context.life,
        superseded=context.superseded,
        listener=context.listener,
        tls=context.tls,
        key=context.key,
        agreement=context.agreement,
        counts=context.counts,
    )


TRANSPORTS: dict[str, TransportKind] = {"tcp": TransportKind(make=_tcp)}


def transport_kind(name: str) -> TransportKind:
    """The transport called `name`."""
    known = TRANSPORTS.get(name)
    if known is None:
        raise UsageError("transport", name, "is not known", f"use one of {', '.join(TRANSPORTS)}")
    return known
