"""The protocol a node runs: VCube-PS, pipelined, with VCube's diagnosis below it. One place to choose another."""

from typing import Final, get_args

from antecede.live.codec import PacketCodec
from antecede.protocols.vcube_diagnosis import Diagnosed, Diagnosis, Life, Reply
from antecede.protocols.vcube_diagnosis import Probe as DiagnosisProbe
from antecede.protocols.vcube_ps import PACKETS, Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.records import Kept

CODEC: Final = PacketCodec("vcube-ps", (*PACKETS, DiagnosisProbe, Reply))

#: What the journal keeps for the protocol.
KEPT: Final = (*get_args(Kept), Life)


class NodeProcess(Diagnosed):
    """The whole of it, with the inside in sight."""

    inner: VCubePs


def make_process(node: int, slots: int, *, window: int, round_s: float, timeout_s: float) -> NodeProcess:
    timing = Timing(ack_us=5_000, ack_every=max(1, window // 16), retry_us=250_000, burst=256)
    inner = VCubePs(node, slots, lambda: TopicOrder(node), {}, timing, window=window)
    return NodeProcess(
        inner,
        lambda tell: Diagnosis(
            node, slots, interval_us=int(round_s * 1_000_000), timeout_us=int(timeout_s * 1_000_000), tell=tell
        ),
    )
