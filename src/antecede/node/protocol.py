"""The protocol a node runs, with VCube's diagnosis below it: VCube-PS, LoCaMu, gossip, or one order for all.

One place to choose another.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, get_args

from antecede.core import Process
from antecede.node import gossip, locamu, total
from antecede.node.compact import compact
from antecede.node.config import NodeConfig
from antecede.protocols.diagnosis.diagnosed import Diagnosed
from antecede.protocols.diagnosis.packets import Probe as DiagnosisProbe
from antecede.protocols.diagnosis.packets import Reply
from antecede.protocols.diagnosis.process import Diagnosis
from antecede.protocols.diagnosis.records import Life
from antecede.protocols.gossip import BROKER_PACKETS
from antecede.protocols.gossip.records import KEPT as GOSSIP_KEPT
from antecede.protocols.locamu import PACKETS as LOCAMU_PACKETS
from antecede.protocols.tno import PACKETS as TOTAL_PACKETS
from antecede.protocols.vcube_ps import PACKETS, Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.records import Kept
from antecede.wire.codec import PacketCodec

#: The one causal domain. Topics of applications are labels inside it.
DOMAIN: Final = "main"


class Overlay(NamedTuple):
    """A choice of protocol."""

    codec: PacketCodec
    #: What the journal keeps for it.
    kept: tuple[type, ...]
    make: Callable[[int, NodeConfig], Process]
    #: Fewer records that restore the same node.
    compact: Callable[[Iterable[object], int, NodeConfig], list[object]]
    #: Do nodes say who has what, so that copies can be counted?
    counts_copies: bool
    #: Do all nodes deliver in one order? Then packets carry what is still to be ordered, for nobody to read.
    total: bool = False


def _vcube_ps(node: int, config: NodeConfig) -> VCubePs:
    timing = Timing(ack_us=5_000, ack_every=max(1, config.window // 16), retry_us=250_000, burst=256)
    return VCubePs(node, config.slots, lambda: TopicOrder(node), {}, timing, window=config.window)


def diagnosed(process: Process, config: NodeConfig) -> Diagnosed:
    """The process with VCube's diagnosis below it."""
    return Diagnosed(
        process,
        lambda tell: Diagnosis(
            process.node,
            config.slots,
            interval_us=int(config.round_s * 1_000_000),
            timeout_us=int(config.timeout_s * 1_000_000),
            tell=tell,
        ),
    )


OVERLAYS: Final = {
    "vcube": Overlay(
        PacketCodec("vcube-ps", (*PACKETS, DiagnosisProbe, Reply)),
        (*get_args(Kept), Life),
        _vcube_ps,
        lambda records, node, config: compact(records, node),
        True,
    ),
    "locamu": Overlay(
        PacketCodec("locamu", (*LOCAMU_PACKETS, DiagnosisProbe, Reply)),
        (*locamu.KEPT, Life),
        lambda node, config: locamu.make_locamu(node, config, DOMAIN),
        lambda records, node, config: locamu.compact(records, node, config, DOMAIN),
        False,
    ),
    "gossip": Overlay(
        PacketCodec("gossip", (*BROKER_PACKETS, DiagnosisProbe, Reply)),
        (*GOSSIP_KEPT, Life),
        gossip.GossipProcess,
        gossip.compact,
        False,
    ),
    "total": Overlay(
        PacketCodec("total", (*PACKETS, *TOTAL_PACKETS, DiagnosisProbe, Reply)),
        (*total.KEPT, Life),
        lambda node, config: total.TotalProcess(_vcube_ps(node, config), config),
        lambda records, node, config: total.compact(records, node, config, DOMAIN),
        True,
        True,
    ),
}
