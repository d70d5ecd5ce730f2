"""Options of VCube-PS."""

from typing import Annotated, Literal

from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.overlay.members import mask_of
from antecede.protocols.diagnosis.options import diagnosed
from antecede.protocols.options import EDGES_ONCE, PROMISES, TICKS, Founders, GroupOptions, MakeProcess
from antecede.protocols.vcube_ps import Domain, FaithfulVCubePs, Order, Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.source_order import FaithfulOrder, SourceOrder


class VCubePsOptions(GroupOptions, frozen=True, kw_only=True):
    """VCube-PS: causal publish/subscribe on a tree for each publisher."""

    #: Many messages in flight, or one at a time as in the thesis.
    mode: Literal["pipelined", "faithful"] = "pipelined"
    #: Order over all topics, or within each. Left out: "all" when pipelined, "topic" in the thesis's mode.
    domain: Literal["topic", "all"] | None = None
    #: Pipelined, across topics: leave entries of other topics out once every member has delivered them (`carrying`).
    drop_stable: bool = False
    #: Keep barriers to immediate predecessors; the thesis's code does not (only where topics are ordered alone).
    prune: bool = True
    #: Pipelined: messages of a publisher that may be unacknowledged.
    window: Annotated[int, Meta(ge=1)] = 64
    #: Pipelined: messages that depend on each other cross an edge in one packet.
    aggregate: bool = False
    #: Pipelined: how long an acknowledgement waits for company, in units of time.
    ack: Annotated[float, Meta(gt=0)] = 50.0
    #: Pipelined: after how long something is sent again or asked for. More than a way down a tree and back.
    retry: Annotated[float, Meta(gt=0)] = 2000.0
    #: Pipelined: nodes have a log of what they delivered, which survives crashes, and serve others from it.
    log: bool = False
    #: Pipelined: messages of one source in memory, pushed at once, and asked for at once by a node that is behind.
    retain: Annotated[int, Meta(ge=1)] = 100_000
    burst: Annotated[int, Meta(ge=1)] = 64
    chunk: Annotated[int, Meta(ge=1)] = 1024
    #: Pipelined: bytes of messages that wait for others, beyond which more are refused and fetched later.
    held_bytes: Annotated[int, Meta(ge=1)] = 64 * 1024 * 1024
    #: Pipelined: how long a member may hold a publisher up, in units of time; 0: as long as it is up.
    patience: Annotated[float, Meta(ge=0)] = 0.0
    #: Rounds of VCube's own diagnosis to run beneath, `round` u.t. apart; 0: no failure detector.
    diagnosis: Annotated[int, Meta(ge=0)] = 0
    #: A round of diagnosis; a test waits up to 0.4 of it for its answer.
    round: Annotated[float, Meta(gt=0)] = 1000.0

    @property
    def across_topics(self) -> bool:
        return (self.domain or ("topic" if self.mode == "faithful" else "all")) == "all"

    @property
    def promises(self) -> tuple[str, ...]:
        return (*PROMISES, EDGES_ONCE) if self.mode == "faithful" else PROMISES

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        members = {topic: mask_of(taken) for topic, taken in founders.items()}
        alone = not self.across_topics
        if not alone and not self.prune:
            raise UsageError("prune", False, "across topics barriers are always pruned", "set domain=topic")

        timing = Timing(
            ack_us=round(self.ack * TICKS),
            ack_every=max(1, self.window // 4),
            retry_us=round(self.retry * TICKS),
            retain=self.retain,
            burst=self.burst,
            chunk=self.chunk,
            held_bytes_max=self.held_bytes,
            patience_us=round(self.patience * TICKS),
        )

        def make(node: int) -> Process:
            domain = Domain(node, drops=self.drop_stable, logged=self.log)

            def make_order() -> Order:
                return TopicOrder(node, prune=self.prune) if alone else domain

            def make_faithful_order() -> FaithfulOrder:
                return SourceOrder(node, prune=self.prune) if alone else domain

            if self.mode == "faithful":
                return FaithfulVCubePs(node, nodes, make_faithful_order, members)
            return VCubePs(
                node,
                nodes,
                make_order,
                members,
                timing,
                window=self.window,
                aggregate=self.aggregate,
                logged=self.log,
            )

        if self.diagnosis and self.mode == "faithful":
            raise UsageError("diagnosis", self.diagnosis, "the faithful mode knows no failures", "set mode=pipelined")
        if self.aggregate and self.mode == "faithful":
            raise UsageError("aggregate", True, "the faithful mode acknowledges each message", "set mode=pipelined")
        return diagnosed(make, nodes, self.diagnosis, self.round) if self.diagnosis else make
