"""Options of total notification order, and of the event service below it."""

from collections.abc import Callable
from typing import Annotated, Literal
from zlib import crc32

from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.protocols.diagnosis.options import diagnosed
from antecede.protocols.options import TICKS, Founders, GroupOptions, MakeProcess, TotalOrderOptions, taken_by
from antecede.protocols.scribe.options import ScribeOptions
from antecede.protocols.srpt.options import SrptOptions
from antecede.protocols.tno.manager import Rules
from antecede.protocols.tno.module import OrderingModule
from antecede.protocols.tno.process import TotalOrder
from antecede.protocols.tno.settings import Settings
from antecede.protocols.vcube_ps.options import VCubePsOptions

#: Event services by name, each made with its time before retransmission. They order within a topic at most.
SERVICES: dict[str, Callable[[float], GroupOptions]] = {
    "vcube-ps": lambda retry: VCubePsOptions(domain="topic", retry=retry, ack=retry / 40),
    "srpt-s": lambda retry: SrptOptions(),
    "scribe": lambda retry: ScribeOptions(),
}


class TnoOptions(TotalOrderOptions, frozen=True, kw_only=True):
    """Total notification order."""

    #: The event service below.
    ens: Literal["vcube-ps", "srpt-s", "scribe"] = "vcube-ps"
    #: TNO+ also includes what was stamped before on topics below. "faithful": the paper's rule, with its errors mended.
    mode: Literal["plus", "faithful"] = "plus"
    #: The topics from the highest down, separated by spaces. Other topics are below, by name.
    order: str = ""
    #: Timestamps go straight to the managers they need, or through all in between, so that none overtakes another.
    route: Literal["direct", "through"] = "direct"
    #: How many events a subscriber holds; −1: any number.
    buffer: Annotated[int, Meta(ge=-1)] = -1
    #: How long an event waits for its predecessors, in units of time; 0: without end.
    ttl: Annotated[float, Meta(ge=0)] = 20_000.0
    #: How many timestamps a publisher requests at a time; 1: causal across topics.
    window: Annotated[int, Meta(ge=1)] = 64
    #: After how long a request is repeated. Longer than a round trip along the managers.
    retry: Annotated[float, Meta(gt=0)] = 4000.0
    #: How often a request is repeated before it waits until a node is back; 0: no limit.
    tries: Annotated[int, Meta(ge=0)] = 50
    #: When an event that was numbered and not published is declared void, sooner if its publisher is down; 0: never.
    lease: Annotated[float, Meta(ge=0)] = 0.0
    #: How many nodes manage a topic together; a minority of them may crash.
    replicas: Annotated[int, Meta(ge=1)] = 1
    #: How many nodes, from 0 on, manage topics; 0: all.
    managers: Annotated[int, Meta(ge=0)] = 0
    #: A topic swaps with a higher one when f of their events differs by more than this; 0: never.
    beta: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    #: How soon f approaches 1.
    alpha: Annotated[float, Meta(gt=0)] = 1.0
    #: f counts the last so many events that a manager saw; 0: all there ever were, as in the paper.
    recent: Annotated[int, Meta(ge=0)] = 0
    #: Rounds of VCube's diagnosis to run, `round` u.t. apart; 0: no failure detector.
    diagnosis: Annotated[int, Meta(ge=0)] = 0
    #: The length of a round of diagnosis, in units of time.
    round: Annotated[float, Meta(gt=0)] = 1000.0

    @property
    def across_topics(self) -> bool:
        return self.window == 1 and not self.beta

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        settings = self.settings(nodes, founders)
        service = SERVICES[self.ens](self.retry / 2).build_groups(nodes, founders)
        if self.diagnosis and self.ens != "vcube-ps":
            raise UsageError("diagnosis", self.diagnosis, f"{self.ens} does not handle failures", "set ens=vcube-ps")

        def make(node: int) -> Process:
            return TotalOrder(OrderingModule(node, settings), service(node))

        return diagnosed(make, nodes, self.diagnosis, self.round) if self.diagnosis else make

    def settings(self, nodes: int, founders: Founders) -> Settings:
        candidates = self.managers or nodes
        if candidates > nodes or self.replicas > candidates:
            raise UsageError(
                "replicas", self.replicas, f"{candidates} of {nodes} nodes manage topics", "choose fewer replicas"
            )
        retry_us = round(self.retry * TICKS)
        return Settings(
            managers=lambda topic: managers_of(topic, candidates, self.replicas),
            order=tuple(self.order.split()) or tuple(sorted(founders)),
            founders=taken_by(founders),
            rules=Rules(
                below=self.mode == "plus",
                through=self.route == "through",
                alpha=self.alpha,
                beta=self.beta,
                recent=self.recent,
            ),
            printed=self.mode == "faithful",
            buffer=None if self.buffer < 0 else self.buffer,
            ttl_us=round(self.ttl * TICKS),
            window=self.window,
            retry_us=retry_us,
            tries=self.tries,
            ack_us=retry_us // 4,
            lease_us=round(self.lease * TICKS),
        )


def managers_of(topic: str, candidates: int, replicas: int) -> tuple[int, ...]:
    """The nodes that manage `topic`: the first by a hash of its name, and the next ones."""
    first = crc32(topic.encode()) % candidates
    return tuple([(first + next_) % candidates for next_ in range(replicas)])
