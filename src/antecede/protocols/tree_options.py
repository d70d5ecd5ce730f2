"""Options of the protocols that send along trees without membership packets of their own."""

from typing import Annotated, Literal
from zlib import crc32

from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.core.limits import PACKET_BYTES_MAX
from antecede.overlay.pastry import Pastry
from antecede.overlay.shared_tree import BrokerTree, SharedTree, SubscriberTree
from antecede.overlay.trees import PerSourceTrees, SingleTree, Trees
from antecede.overlay.vcube import VCube
from antecede.protocols.causal_aggregation import CausalAggregation
from antecede.protocols.causal_broadcast import ByteModel, CausalBroadcast
from antecede.protocols.options import EDGES_ONCE, PROMISES, TICKS, Founders, GroupOptions, MakeProcess, ProtocolOptions
from antecede.protocols.scribe import Scribe, found
from antecede.protocols.srpt import Srpt, founders_below
from antecede.protocols.timer_bundling import TimerBundling


class TreeOptions(ProtocolOptions, frozen=True, kw_only=True):
    """Over which trees, and how large a packet may become."""

    #: One tree for each source, or one for all.
    trees: Literal["per-source", "single"] = "per-source"
    #: Root of the single tree.
    root: Annotated[int, Meta(ge=0)] = 0
    #: Bytes of a packet, at most.
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

    #: Bundle causally related messages; without, one message to a packet.
    aggregate: bool = True
    #: Stamp immediate predecessors instead of changed clock entries (only without aggregation, which must see further).
    barrier: bool = False

    def build(self, nodes: int) -> MakeProcess:
        trees, sizes = self._trees(nodes), self._sizes()
        if not self.aggregate:
            return lambda node: CausalBroadcast(node, trees, sizes, barrier=self.barrier)
        if self.barrier:
            raise UsageError(
                "barrier", True, "hides the indirect dependencies aggregation needs", "set aggregate=false"
            )
        return lambda node: CausalAggregation(node, trees, sizes)


class TimerOptions(TreeOptions, frozen=True, kw_only=True):
    """Timer-based bundling."""

    #: How long a packet waits for company, in units of time.
    wait: Annotated[float, Meta(gt=0)] = 10.0

    def build(self, nodes: int) -> MakeProcess:
        trees, sizes, wait_us = self._trees(nodes), self._sizes(), round(self.wait * TICKS)
        return lambda node: TimerBundling(node, trees, sizes, wait_us=wait_us)


class SrptOptions(GroupOptions, frozen=True, kw_only=True):
    """One tree a topic."""

    #: Root of every topic; −1: each topic has its own, chosen by its name.
    root: Annotated[int, Meta(ge=-1)] = -1

    @property
    def promises(self) -> tuple[str, ...]:
        return (*PROMISES, EDGES_ONCE)

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        places, sizes = self._places(nodes), ByteModel()
        if self.root >= places:
            raise UsageError("root", self.root, "is not a place for a root", f"choose −1 … {places - 1}")
        trees: dict[int, SharedTree] = {}

        def tree_of(topic: str) -> SharedTree:
            root = self.root if self.root >= 0 else crc32(topic.encode()) % places
            if root not in trees:
                trees[root] = self._tree(nodes, root)
            return trees[root]

        members = {topic: frozenset(nodes) for topic, nodes in founders.items()}
        below = {topic: founders_below(tree_of(topic), nodes) for topic, nodes in members.items()}

        def make(node: int) -> Process:
            return Srpt(node, tree_of, sizes, members, {topic: found.get(node, {}) for topic, found in below.items()})

        return make

    def _places(self, nodes: int) -> int:
        return nodes

    def _tree(self, nodes: int, root: int) -> SharedTree:
        return SubscriberTree(VCube(nodes), root)


class BrokerOptions(SrptOptions, frozen=True, kw_only=True):
    """One tree of brokers a topic; the other nodes hang on them."""

    #: The first so many nodes are brokers.
    brokers: Annotated[int, Meta(ge=1)] = 32

    def _places(self, nodes: int) -> int:
        return self.brokers

    def _tree(self, nodes: int, root: int) -> SharedTree:
        return BrokerTree(nodes, self.brokers, root)


class ScribeOptions(GroupOptions, frozen=True, kw_only=True):
    """Scribe on a Pastry ring."""

    #: Bits of a digit of a name on the ring: Pastry's b.
    digit: Literal[1, 2, 4, 8] = 4
    #: Neighbours on the ring a node knows.
    leaves: Annotated[int, Meta(ge=2)] = 16

    @property
    def promises(self) -> tuple[str, ...]:
        """No order; a message that comes twice is recognised, one that is lost is not sent again."""
        return ("exactly-once", "no-invention", "complete", "agreement")

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        ring, sizes = Pastry(nodes, digit_bits=self.digit, leaves=self.leaves), ByteModel()
        founded = {topic: found(ring, topic, members) for topic, members in founders.items()}
        return lambda node: Scribe(node, ring, sizes, founded)
