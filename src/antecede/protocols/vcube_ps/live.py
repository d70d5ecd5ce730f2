"""VCube-PS as the protocol of a node: the class the simulator runs, with times for a real network."""

from collections.abc import Sequence
from typing import Final, get_args

from antecede.protocols.live import LiveProtocol, LiveSettings
from antecede.protocols.vcube_ps.compaction import compact
from antecede.protocols.vcube_ps.order import TopicOrder
from antecede.protocols.vcube_ps.packets import PACKETS
from antecede.protocols.vcube_ps.pipelined import VCubePs
from antecede.protocols.vcube_ps.records import Kept
from antecede.protocols.vcube_ps.state import Timing


class LiveVCubePs(VCubePs):
    """A node of VCube-PS that can compact what it kept."""

    def __init__(self, node: int, settings: LiveSettings) -> None:
        window = settings.window
        timing = Timing(ack_us=5_000, ack_every=max(1, window // 16), retry_us=250_000, burst=256)
        super().__init__(node, settings.slots, lambda: TopicOrder(node), {}, timing, window=window)

    def compact(self, records: Sequence[object]) -> list[object]:
        return compact(records, self.node)


VCUBE: Final = LiveProtocol("vcube-ps", PACKETS, get_args(Kept), LiveVCubePs, counts_copies=True)
