"""Options of causal aggregation and timer bundling."""

from typing import Annotated, Literal

from msgspec import Meta

from antecede.core import UsageError
from antecede.core.limits import PACKET_BYTES_MAX
from antecede.overlay.trees import PerSourceTrees, SingleTree, Trees
from antecede.overlay.vcube import VCube
from antecede.protocols.aggregation.broadcast import CausalBroadcast
from antecede.protocols.aggregation.hybrid import HybridBundling
from antecede.protocols.aggregation.process import CausalAggregation
from antecede.protocols.aggregation.riding import RidingAlong
from antecede.protocols.aggregation.timer import TimerBundling
from antecede.protocols.options import EDGES_ONCE, PROMISES, TICKS, MakeProcess, ProtocolOptions
from antecede.protocols.sizes import ByteModel


class TreeOptions(ProtocolOptions, frozen=True, kw_only=True):
    """The trees to use, and how large a packet may become."""

    #: One tree for each source, or one for all.
    trees: Literal["per-source", "single"] = "per-source"
    #: Root of the single tree.
    root: Annotated[int, Meta(ge=0)] = 0
    #: Bytes of a packet at most.
    mtu: Annotated[int, Meta(ge=64)] = PACKET_BYTES_MAX

    @property
    def promises(self) -> tuple[str, ...]:
        return (*PROMISES, EDGES_ONCE)

    def _trees(self, nodes: int) -> Trees:
        cube = VCube(nodes)
        if self.trees == "per-source":
            return PerSourceTrees(cube)
        if self.root >= nodes:
            raise UsageError("root", self.root, "there is no such node", f"choose 0 … {nodes - 1}")
        return SingleTree(cube, self.root)

    def _sizes(self) -> ByteModel:
        return ByteModel(mtu=self.mtu)


class AggregationOptions(TreeOptions, frozen=True, kw_only=True):
    """Causal aggregation broadcast."""

    #: Bundle causally related messages; otherwise one message to a packet.
    aggregate: bool = True
    #: Stamp immediate predecessors instead of changed clock entries. Not with aggregation, which needs indirect ones.
    barrier: bool = False
    #: While a message is kept back from a child, others for that child wait for it and leave in the same packet.
    ride_along: bool = False

    def build(self, nodes: int) -> MakeProcess:
        trees, sizes = self._trees(nodes), self._sizes()
        if not self.aggregate:
            if self.ride_along:
                raise UsageError("ride_along", True, "messages ride in bundles", "leave aggregate at true")
            return lambda node: CausalBroadcast(node, trees, sizes, barrier=self.barrier)
        if self.barrier:
            raise UsageError(
                "barrier", True, "hides the indirect dependencies aggregation needs", "set aggregate=false"
            )
        make = RidingAlong if self.ride_along else CausalAggregation
        return lambda node: make(node, trees, sizes)


class TimerOptions(TreeOptions, frozen=True, kw_only=True):
    """Timer-based bundling."""

    #: How long a packet waits for further messages, in units of time.
    wait: Annotated[float, Meta(gt=0)] = 10.0
    #: The wait follows the load, up to that.
    adaptive: bool = False

    def build(self, nodes: int) -> MakeProcess:
        trees, sizes, wait_us = self._trees(nodes), self._sizes(), round(self.wait * TICKS)
        return lambda node: TimerBundling(node, trees, sizes, wait_us=wait_us, adaptive=self.adaptive)


class HybridOptions(TreeOptions, frozen=True, kw_only=True):
    """Causal aggregation, and timers where it bundles little."""

    #: How long a packet waits for further messages at most, in units of time.
    wait: Annotated[float, Meta(gt=0)] = 10.0
    #: Packets wait at nodes where less than this share of them are bundles by causal aggregation.
    few: Annotated[float, Meta(ge=0, le=1)] = 0.1

    def build(self, nodes: int) -> MakeProcess:
        trees, sizes, wait_us = self._trees(nodes), self._sizes(), round(self.wait * TICKS)
        return lambda node: HybridBundling(node, trees, sizes, wait_us=wait_us, few=self.few)
