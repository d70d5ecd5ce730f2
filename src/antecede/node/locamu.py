"""LoCaMu as the protocol of a node: the same class the simulator runs, with a base graph from the configuration.

The places of the cluster are the nodes of the graph, and all of them take the domain from the beginning: a node that
has not started yet is one that is down. Nobody leaves a graph while it is in use, for counters and whatever is kept
belong to its links. VCube's diagnosis runs below and says who is down.

Applications may ask what was delivered of each publisher, which LoCaMu itself never counts: that is kept here.
"""

from collections.abc import Iterable
from typing import Final, get_args

from antecede.core import Message, UsageError
from antecede.core.message import Seq, Source
from antecede.node.config import NodeConfig
from antecede.overlay.extended import Extended
from antecede.protocols.diagnosis.records import Life
from antecede.protocols.locamu import Kept, LoCaMu, Timing
from antecede.protocols.locamu.records import Logged, Member, Record, Took


class Reached(Record, frozen=True, gc=False, tag="lcm.reached"):
    """How far messages of each source were delivered when what was kept was written anew."""

    counts: dict[Source, Seq]


#: What the journal keeps for it.
KEPT: Final = (*get_args(Kept), Reached)

#: Acknowledgements wait so long for company; what is not acknowledged is sent again after so long.
_TIMING: Final = Timing(ack_us=5_000, ack_every=256, retry_us=250_000)


class LocamuProcess(LoCaMu):
    """What a node asks of its protocol, beside the protocol."""

    def __init__(self, graph: Extended, node: int, domain: str) -> None:
        everybody = graph.base.directions(range(graph.base.nodes))
        super().__init__(graph.around(node), {domain: everybody}, _TIMING)
        self._domain = domain
        self._places = graph.base.nodes
        self._takes = False
        self._down: set[int] = set()
        self._reached: dict[int, int] = {}

    def start(self) -> None:
        super().start()
        if not self._takes:
            self._takes = True
            self.out.keep(Member(self._domain, "joined"))
            self.out.joined(self._domain)

    def restore(self, records: Iterable[object]) -> None:
        kept = list(records)
        for record in kept:
            match record:
                case Reached():
                    self._reached.update(record.counts)
                case Took():
                    self._note(record.message)
                case Member():
                    self._takes = True
                case Logged():
                    self._note(record.took.message)
        super().restore(record for record in kept if not isinstance(record, Reached))

    def unsubscribe(self, topic: str) -> None:
        raise UsageError("overlay", "locamu", "a node does not leave its graph", "stop it, or start another graph")

    def peer_down(self, node: int) -> None:
        self._down.add(node)
        super().peer_down(node)

    def peer_up(self, node: int) -> None:
        self._down.discard(node)
        super().peer_up(node)

    def snapshot(self) -> list[object]:
        return [Reached(dict(self._reached)), *self.state.snapshot()]

    # -- what a node asks ---------------------------------------------------------------------------------------

    def delivered(self, topic: str) -> dict[int, int]:
        """By source: how far this node had delivered when it started."""
        return dict(self._reached)

    def takes(self, topic: str) -> bool:
        return self._takes

    def members(self, topic: str) -> frozenset[int]:
        return frozenset(range(self._places))

    def children(self, topic: str) -> tuple[int, ...]:
        """Those it sends to now."""
        return tuple(self._active)

    @property
    def down(self) -> frozenset[int]:
        return frozenset(self._down)

    def _note(self, message: Message) -> None:
        self._reached[message.source] = max(message.seq, self._reached.get(message.source, 0))


def make_locamu(node: int, config: NodeConfig, domain: str) -> LocamuProcess:
    return LocamuProcess(config.extended_graph(), node, domain)


def compact(records: Iterable[object], node: int, config: NodeConfig, domain: str) -> list[object]:
    """Fewer records that restore the same node."""
    kept = list(records)
    lives = [record for record in kept if isinstance(record, Life)][-1:]
    others = [record for record in kept if not isinstance(record, Life)]
    if not others or not 0 <= node < config.slots:
        return kept
    process = make_locamu(node, config, domain)
    process.restore(others)
    return [*lives, *process.snapshot()]
