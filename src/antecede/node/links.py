"""A node's port and its transport: made together, since links between nodes may use the port."""

from antecede.node.config import NodeConfig
from antecede.node.continuity import Continuity
from antecede.node.protocol import NodeProtocol
from antecede.wire.cluster_key import ClusterKey
from antecede.wire.codec import Welcome
from antecede.wire.listener import Listener, Tls
from antecede.wire.transport import Counts, Transport
from antecede.wire.transports import TransportContext, TransportKind


def make_links(
    slot: int,
    continuity: Continuity,
    config: NodeConfig,
    protocol: NodeProtocol,
    kind: TransportKind,
    tls: Tls | None,
    key: ClusterKey | None,
) -> tuple[Listener, Transport]:
    """The port and the transport of a node, neither started."""
    counts = Counts()
    incarnation, life = continuity.incarnation, continuity.life
    listener = Listener(
        lambda: Welcome(node=slot, incarnation=incarnation, life=life),
        cluster=config.cluster,
        host=config.host if kind.by_address else "memory",
        port=config.port,
        tls=tls,
        counts=counts,
        agreement=protocol.agreement,
        key=key,
    )
    context = TransportContext(
        node=slot,
        incarnation=incarnation,
        life=life,
        superseded=continuity.superseded,
        codec=protocol.codec,
        cluster=config.cluster,
        listener=listener,
        tls=tls,
        key=key,
        agreement=protocol.agreement,
        counts=counts,
    )
    return listener, kind.make(context)
