"""Options of SRPT, with subscribers or with brokers in the trees."""

from typing import Annotated
from zlib import crc32

from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.overlay.shared_tree import BrokerTree, SharedTree, SubscriberTree
from antecede.overlay.vcube import VCube
from antecede.protocols.options import EDGES_ONCE, PROMISES, Founders, GroupOptions, MakeProcess
from antecede.protocols.sizes import ByteModel
from antecede.protocols.srpt.process import Srpt, founders_below


class SrptOptions(GroupOptions, frozen=True, kw_only=True):
    """One tree for each topic, over all nodes."""

    #: Root of every topic; −1: each topic has its own, chosen by its name.
    root: Annotated[int, Meta(ge=-1)] = -1

    @property
    def promises(self) -> tuple[str, ...]:
        return (*PROMISES, EDGES_ONCE)

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        candidates, sizes = self._candidates(nodes), ByteModel()
        if self.root >= candidates:
            raise UsageError("root", self.root, "cannot be a root", f"choose −1 … {candidates - 1}")
        trees: dict[int, SharedTree] = {}

        def tree_of(topic: str) -> SharedTree:
            root = self.root if self.root >= 0 else crc32(topic.encode()) % candidates
            if root not in trees:
                trees[root] = self._tree(nodes, root)
            return trees[root]

        members = {topic: frozenset(nodes) for topic, nodes in founders.items()}
        below = {topic: founders_below(tree_of(topic), nodes) for topic, nodes in members.items()}

        def make(node: int) -> Process:
            return Srpt(node, tree_of, sizes, members, {topic: found.get(node, {}) for topic, found in below.items()})

        return make

    def _candidates(self, nodes: int) -> int:
        """How many nodes, from 0 on, can be a root."""
        return nodes

    def _tree(self, nodes: int, root: int) -> SharedTree:
        return SubscriberTree(VCube(nodes), root)


class BrokerOptions(SrptOptions, frozen=True, kw_only=True):
    """One tree of brokers for each topic; every other node is attached to a broker."""

    #: How many nodes, from 0 on, are brokers.
    brokers: Annotated[int, Meta(ge=1)] = 32

    def _candidates(self, nodes: int) -> int:
        return self.brokers

    def _tree(self, nodes: int, root: int) -> SharedTree:
        return BrokerTree(nodes, self.brokers, root)
