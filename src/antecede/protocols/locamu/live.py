"""LoCaMu as the protocol of a node: the class the simulator runs, on a base graph from the node's settings.

The slots of the cluster are the nodes of the graph, and all of them take the domain from the beginning: a node that has
not started yet counts as down. No node leaves the graph while it is in use, because counters and kept messages belong
to its links. VCube's diagnosis runs below and tells which nodes are down.

A node asks how far it has delivered each source, which LoCaMu itself never counts: that is counted here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from antecede.core import Message, UsageError
from antecede.overlay.extended import Extended
from antecede.overlay.graph_shapes import named
from antecede.protocols.live import LiveProtocol, LiveSettings
from antecede.protocols.locamu.conversations import Timing
from antecede.protocols.locamu.node import LoCaMu
from antecede.protocols.locamu.packets import PACKETS
from antecede.protocols.locamu.records import Kept, Logged, Member, Reached, Took

#: How long an acknowledgement waits for company, and after how long something unacknowledged is retransmitted.
_TIMING: Final = Timing(ack_us=5_000, ack_every=256, retry_us=250_000)


class LiveLocamu(LoCaMu):
    """A node of LoCaMu that takes one domain from its start and compacts what it kept."""

    def __init__(self, node: int, settings: LiveSettings) -> None:
        graph = _graph(settings)
        everybody = graph.base.directions(range(graph.base.nodes))
        super().__init__(graph.around(node), {settings.domain: everybody}, _TIMING)
        self._domain = settings.domain
        self._slots = settings.slots
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

    def compact(self, records: Sequence[object]) -> list[object]:
        if not records:
            return []
        self.restore(records)
        return [Reached(dict(self._reached)), *self.state.snapshot()]

    def unsubscribe(self, topic: str) -> None:
        raise UsageError("protocol", "locamu", "a node does not leave its graph", "stop it, or start another graph")

    def peer_down(self, node: int) -> None:
        self._down.add(node)
        super().peer_down(node)

    def peer_up(self, node: int) -> None:
        self._down.discard(node)
        super().peer_up(node)

    # -- questions ----------------------------------------------------------------------------------------------------

    def delivered(self, topic: str) -> dict[int, int]:
        """How far this node had delivered when it started: the node counts on from there."""
        return dict(self._reached)

    def takes(self, topic: str) -> bool:
        return self._takes

    def members(self, topic: str) -> frozenset[int]:
        return frozenset(range(self._slots))

    def children(self, topic: str) -> tuple[int, ...]:
        return tuple(self._active)

    @property
    def down(self) -> frozenset[int]:
        return frozenset(self._down)

    def _note(self, message: Message) -> None:
        self._reached[message.source] = max(message.seq, self._reached.get(message.source, 0))


def _graph(settings: LiveSettings) -> Extended:
    """The graph to run on. Raises `UsageError` for one that is not a tree, or cannot bear so many faults."""
    return Extended(named(settings.graph, settings.slots, settings.degree), settings.f)


def _agreed(settings: LiveSettings) -> Mapping[str, object]:
    edges = sorted(_graph(settings).base.edges)
    return {"graph": ",".join(f"{a}-{b}" for a, b in edges), "f": settings.f}


LOCAMU: Final = LiveProtocol("locamu", PACKETS, (*get_args(Kept), Reached), LiveLocamu, _agreed, slots=16)
