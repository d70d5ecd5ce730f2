"""Every protocol by name, with its options: what the command line, sweeps and the documentation list."""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias
from zlib import crc32

from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.core.choices import Choice, convert
from antecede.core.limits import PACKET_BYTES_MAX
from antecede.overlay.shared_tree import BrokerTree, SharedTree, SubscriberTree
from antecede.overlay.trees import PerSourceTrees, SingleTree, Trees
from antecede.overlay.vcube import VCube
from antecede.protocols.causal_aggregation import CausalAggregation
from antecede.protocols.causal_broadcast import ByteModel, CausalBroadcast
from antecede.protocols.srpt import Srpt, founders_below
from antecede.protocols.timer_bundling import TimerBundling
from antecede.protocols.vcube_diagnosis import Diagnosed, Diagnosis, Tell
from antecede.protocols.vcube_ps import Domain, FaithfulVCubePs, Order, Timing, TopicOrder, VCubePs, mask_of

#: Makes the process of one node; called again when a node recovers.
MakeProcess: TypeAlias = Callable[[int], Process]

#: By topic: its members from the beginning, known to every node without a packet.
Founders: TypeAlias = Mapping[str, Collection[int]]

_MICRO = 1_000_000


class ProtocolOptions(Choice, frozen=True, kw_only=True):
    """Options of a protocol; `build` gives the maker of its processes."""

    #: Does every node take every message, without subscribing?
    broadcast: ClassVar[bool] = True

    def build(self, nodes: int) -> MakeProcess:
        raise NotImplementedError


class GroupOptions(ProtocolOptions, frozen=True, kw_only=True):
    """Options of a protocol with topics to subscribe to. Who subscribes is the workload's choice."""

    broadcast: ClassVar[bool] = False

    def build(self, nodes: int) -> MakeProcess:
        return self.build_groups(nodes, {})

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        """Like `build`, for topics that have members when the run begins."""
        raise NotImplementedError


class TreeOptions(ProtocolOptions, frozen=True, kw_only=True):
    """Over which trees, and how large a packet may become."""

    #: One tree for each source, or one for all.
    trees: Literal["per-source", "single"] = "per-source"
    #: Root of the single tree.
    root: Annotated[int, Meta(ge=0)] = 0
    #: Bytes of a packet, at most.
    mtu: Annotated[int, Meta(ge=64)] = PACKET_BYTES_MAX

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
        trees, sizes, wait_us = self._trees(nodes), self._sizes(), round(self.wait * _MICRO)
        return lambda node: TimerBundling(node, trees, sizes, wait_us=wait_us)


class SrptOptions(GroupOptions, frozen=True, kw_only=True):
    """One tree a topic."""

    #: Root of every topic; −1: each topic has its own, chosen by its name.
    root: Annotated[int, Meta(ge=-1)] = -1

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


class VCubePsOptions(GroupOptions, frozen=True, kw_only=True):
    """VCube-PS: causal publish/subscribe on a tree for each publisher."""

    #: Many messages in flight, or one at a time as in the thesis.
    mode: Literal["pipelined", "faithful"] = "pipelined"
    #: Order over all topics, or within each. Left out: "all" when pipelined, "topic" in the thesis's mode.
    domain: Literal["topic", "all"] | None = None
    #: Keep barriers to immediate predecessors; the thesis's code does not (only where topics are ordered alone).
    prune: bool = True
    #: Pipelined: messages of a publisher that may be unacknowledged.
    window: Annotated[int, Meta(ge=1)] = 64
    #: Pipelined: how long an acknowledgement waits for company, in units of time.
    ack: Annotated[float, Meta(gt=0)] = 50.0
    #: Pipelined: after how long something is sent again or asked for. More than a way down a tree and back.
    retry: Annotated[float, Meta(gt=0)] = 2000.0
    #: Rounds of VCube's own diagnosis to run beneath, `round` u.t. apart; 0: nobody notices who is down.
    diagnosis: Annotated[int, Meta(ge=0)] = 0
    #: A round of diagnosis; a test waits up to 0.4 of it for its answer.
    round: Annotated[float, Meta(gt=0)] = 1000.0

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        members = {topic: mask_of(taken) for topic, taken in founders.items()}
        alone = (self.domain or ("topic" if self.mode == "faithful" else "all")) == "topic"
        if not alone and not self.prune:
            raise UsageError("prune", False, "across topics barriers are always pruned", "set domain=topic")

        timing = Timing(
            ack_us=round(self.ack * _MICRO), ack_every=max(1, self.window // 4), retry_us=round(self.retry * _MICRO)
        )

        def make(node: int) -> Process:
            domain = Domain(node)

            def make_order() -> Order:
                return TopicOrder(node, prune=self.prune) if alone else domain

            if self.mode == "faithful":
                return FaithfulVCubePs(node, nodes, make_order, members)
            process = VCubePs(node, nodes, make_order, members, timing, window=self.window)
            return Diagnosed(process, diagnose(node)) if self.diagnosis else process

        diagnose = _diagnosis(nodes, self.diagnosis, self.round)
        if self.diagnosis and self.mode == "faithful":
            raise UsageError("diagnosis", self.diagnosis, "the faithful mode knows no failures", "set mode=pipelined")
        return make


class DiagnosisOptions(GroupOptions, frozen=True, kw_only=True):
    """VCube's diagnosis alone."""

    #: How many rounds; 0: without end.
    rounds: Annotated[int, Meta(ge=0)] = 20
    #: A round, in units of time; a test waits up to 0.4 of it for its answer.
    round: Annotated[float, Meta(gt=0)] = 1000.0

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        diagnose = _diagnosis(nodes, self.rounds, self.round)
        return lambda node: diagnose(node)(None)


def _diagnosis(nodes: int, rounds: int, round_: float) -> Callable[[int], Callable[[Tell | None], Diagnosis]]:
    """By node, by listener: its diagnosis."""
    interval_us, timeout_us = round(round_ * _MICRO), round(0.4 * round_ * _MICRO)
    return lambda node: (
        lambda tell: Diagnosis(node, nodes, interval_us=interval_us, timeout_us=timeout_us, rounds=rounds, tell=tell)
    )


class Protocol(NamedTuple):
    """What the registry knows of a protocol."""

    summary: str
    paper: str
    options: type[ProtocolOptions]


PROTOCOLS: dict[str, Protocol] = {
    "causal-aggregation": Protocol(
        "causal broadcast on per-source trees that bundles related messages without timers",
        "thesis chapter 4, ICPP'18",
        AggregationOptions,
    ),
    "timer-bundling": Protocol(
        "causal broadcast on the same trees whose packets wait a fixed time for company",
        "thesis 3.4.5",
        TimerOptions,
    ),
    "vcube-ps": Protocol(
        "causal publish/subscribe on a tree of subscribers for each publisher, joins and leaves included",
        "thesis chapter 5",
        VCubePsOptions,
    ),
    "vcube-diagnosis": Protocol(
        "who is up, found by hierarchical tests; carries no messages (workload quiet)",
        "thesis 2.4, 6.2.2.1",
        DiagnosisOptions,
    ),
    "srpt-s": Protocol(
        "publish/subscribe on one tree a topic, of subscribers and the relays between them",
        "thesis 5.3, 5.6",
        SrptOptions,
    ),
    "srpt-b": Protocol(
        "publish/subscribe on one tree of brokers a topic, each with subscribers of its own",
        "thesis 5.6.7",
        BrokerOptions,
    ),
}


def options(name: str, values: dict[str, object]) -> ProtocolOptions:
    """The checked options of protocol `name`."""
    known = PROTOCOLS.get(name)
    if known is None:
        raise UsageError("protocol", name, "is not known", f"choose one of {', '.join(sorted(PROTOCOLS))}")
    return convert("option", ", ".join(f"{k}={v}" for k, v in values.items()) or name, values, name, known.options)
