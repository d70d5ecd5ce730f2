"""VCube-PS as the protocol of a node: the class the simulator runs, with times for a real network."""

from collections.abc import Callable
from functools import partial
from typing import Final, get_args

from antecede.protocols.live import LiveProtocol, LiveSettings
from antecede.protocols.vcube_ps.order import Domain, Order, TopicOrder
from antecede.protocols.vcube_ps.packets import PACKETS
from antecede.protocols.vcube_ps.pipelined import VCubePs
from antecede.protocols.vcube_ps.records import Kept
from antecede.protocols.vcube_ps.timing import Timing

#: Without a journal: messages of one source that a node holds in memory for members that are down.
_RETAIN_WITHOUT_LOG: Final = 100_000


class LiveVCubePs(VCubePs):
    """A node of VCube-PS."""

    def __init__(self, node: int, settings: LiveSettings) -> None:
        window = settings.window
        timing = Timing(
            ack_us=5_000,
            ack_every=max(1, window // 16),
            retry_us=250_000,
            slow_us=10_000_000,
            burst=min(256, window),
            # Twice what may be under way, and twice that: members that keep up are served from memory.
            retain=4 * window if settings.logged else _RETAIN_WITHOUT_LOG,
            patience_us=2_000_000,
        )
        make_order: Callable[[], Order]
        if settings.partitions == 1:
            make_order = partial(TopicOrder, node)
        else:
            domain = Domain(node, drops=True, logged=settings.logged)
            make_order = lambda: domain  # noqa: E731 - one order for all partitions
        super().__init__(
            node,
            settings.slots,
            make_order,
            {},
            timing,
            window=window,
            logged=settings.logged,
            epoch=settings.epoch,
        )


VCUBE: Final = LiveProtocol(
    "vcube-ps", PACKETS, get_args(Kept), LiveVCubePs, counts_copies=True, partitioned=True, forgets=True
)
