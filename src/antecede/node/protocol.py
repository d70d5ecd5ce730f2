"""The protocol a node runs, with VCube's diagnosis below it: VCube-PS, LoCaMu, gossip, or one order for all.

One place to choose another.

A node asks more of its protocol than the contract says: what it has delivered, whether it takes a topic, to whom it
sends. `Inner` lists that.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, get_args

from antecede.core import Process
from antecede.node import gossip, locamu, total
from antecede.node.compact import compact
from antecede.node.config import NodeConfig
from antecede.protocols.gossip import BROKER_PACKETS
from antecede.protocols.gossip.records import KEPT as GOSSIP_KEPT
from antecede.protocols.locamu import PACKETS as LOCAMU_PACKETS
from antecede.protocols.tno import PACKETS as TOTAL_PACKETS
from antecede.protocols.vcube_diagnosis import Diagnosed, Diagnosis, Life, Reply
from antecede.protocols.vcube_diagnosis import Probe as DiagnosisProbe
from antecede.protocols.vcube_ps import PACKETS, Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.records import Kept
from antecede.wire.codec import PacketCodec

#: The one causal domain. Topics of applications are labels inside it.
DOMAIN: Final = "main"


class Inner(Protocol):
    """What a node asks of its protocol."""

    @property
    def down(self) -> frozenset[int]: ...
    def delivered(self, topic: str) -> dict[int, int]: ...
    def takes(self, topic: str) -> bool: ...
    def wants(self, topic: str) -> bool: ...
    def free(self, topic: str) -> bool: ...
    def unfinished(self) -> list[str]: ...
    def members(self, topic: str) -> int: ...
    def children(self, topic: str) -> tuple[int, ...]: ...
    def peer_down(self, node: int) -> None: ...


class NodeProcess(Diagnosed):
    """The whole of it, with the inside in sight."""

    def __init__(self, process: Process, asked: Inner, config: NodeConfig) -> None:
        super().__init__(
            process,
            lambda tell: Diagnosis(
                process.node,
                config.slots,
                interval_us=int(config.round_s * 1_000_000),
                timeout_us=int(config.timeout_s * 1_000_000),
                tell=tell,
            ),
        )
        self.asked = asked

    @property
    def backlog(self) -> int:
        """Messages this node has published that have no place in the order yet."""
        return 0

    def published(self, delivered: int) -> int:
        """How many messages are this node's own, of which `delivered` were delivered here."""
        return delivered

    @property
    def leaving(self) -> bool:
        """Is there more to do, after the node has left?"""
        return False


class TotalNodeProcess(NodeProcess):
    """Own messages are delivered later than they are published."""

    def __init__(self, process: total.TotalProcess, config: NodeConfig) -> None:
        super().__init__(process, process, config)
        self._total = process

    @property
    def backlog(self) -> int:
        return self._total.module.backlog

    def published(self, delivered: int) -> int:
        return self._total.module.published(DOMAIN)

    @property
    def leaving(self) -> bool:
        return self._total.leaving(DOMAIN)


class Overlay(NamedTuple):
    """A choice of protocol."""

    codec: PacketCodec
    #: What the journal keeps for it.
    kept: tuple[type, ...]
    make: Callable[[int, NodeConfig], NodeProcess]
    #: Fewer records that restore the same node.
    compact: Callable[[Iterable[object], int, NodeConfig], list[object]]
    #: Do nodes say who has what, so that copies can be counted?
    counts_copies: bool
    #: Do all nodes deliver in one order? Then packets carry what is still to be ordered, for nobody to read.
    total: bool = False


def _vcube_ps(node: int, config: NodeConfig) -> VCubePs:
    timing = Timing(ack_us=5_000, ack_every=max(1, config.window // 16), retry_us=250_000, burst=256)
    return VCubePs(node, config.slots, lambda: TopicOrder(node), {}, timing, window=config.window)


def _make_vcube_ps(node: int, config: NodeConfig) -> NodeProcess:
    inner = _vcube_ps(node, config)
    return NodeProcess(inner, inner, config)


def _make_locamu(node: int, config: NodeConfig) -> NodeProcess:
    inner = locamu.make_locamu(node, config, DOMAIN)
    return NodeProcess(inner, inner, config)


def _make_gossip(node: int, config: NodeConfig) -> NodeProcess:
    inner = gossip.GossipProcess(node, config)
    return NodeProcess(inner, inner, config)


def _make_total(node: int, config: NodeConfig) -> NodeProcess:
    return TotalNodeProcess(total.TotalProcess(_vcube_ps(node, config), config), config)


OVERLAYS: Final = {
    "vcube": Overlay(
        PacketCodec("vcube-ps", (*PACKETS, DiagnosisProbe, Reply)),
        (*get_args(Kept), Life),
        _make_vcube_ps,
        lambda records, node, config: compact(records, node),
        True,
    ),
    "locamu": Overlay(
        PacketCodec("locamu", (*LOCAMU_PACKETS, DiagnosisProbe, Reply)),
        (*locamu.KEPT, Life),
        _make_locamu,
        lambda records, node, config: locamu.compact(records, node, config, DOMAIN),
        False,
    ),
    "gossip": Overlay(
        PacketCodec("gossip", (*BROKER_PACKETS, DiagnosisProbe, Reply)),
        (*GOSSIP_KEPT, Life),
        _make_gossip,
        gossip.compact,
        False,
    ),
    "total": Overlay(
        PacketCodec("total", (*PACKETS, *TOTAL_PACKETS, DiagnosisProbe, Reply)),
        (*total.KEPT, Life),
        _make_total,
        lambda records, node, config: total.compact(records, node, config, DOMAIN),
        True,
        True,
    ),
}
