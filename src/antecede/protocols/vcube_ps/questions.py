"""What a pipelined node answers about itself: the questions of the contract that only read its state."""

from abc import ABC

from antecede.core import Process, TopicMessageId
from antecede.core.epochs import behind_seam, epoch_base
from antecede.core.native import mypyc_attr
from antecede.overlay.members import nodes_of
from antecede.protocols.vcube_ps.edges import Edges
from antecede.protocols.vcube_ps.state import State


@mypyc_attr(allow_interpreted_subclasses=True)
class Questions(Process, ABC):
    """The part of `VCubePs` that changes nothing."""

    _state: State
    _edges: Edges | None

    @property
    def held(self) -> int:
        state = self._state
        return sum([order.held for order in state.orders.values()]) + state.early

    def holding(self) -> list[TopicMessageId]:
        return [
            message.id
            for group in self._state.groups.values()
            if group.takes
            for stream in group.streams.values()
            for seq, message in stream.log.items()
            if seq > group.order.reached(group.name, stream.source)
        ]

    def wants(self, topic: str) -> bool:
        """After a crash: had the subscription begun to take effect?"""
        return self._state.group(topic).wants

    def delivered(self, topic: str) -> dict[int, int]:
        group = self._state.group(topic)
        return {source: done for source in group.streams if (done := group.order.reached(topic, source))}

    def takes(self, topic: str) -> bool:
        return self._state.group(topic).takes

    def last_published(self, topic: str) -> int:
        reached = self._state.group(topic).order.reached(topic, self.node)
        return max(reached, epoch_base(self._state.epochs.get(self.node, 0)))

    def last_before(self, topic: str, source: int, epoch: int) -> int:
        stream = self._state.group(topic).streams.get(source)
        return -1 if stream is None else stream.seams.get(epoch, -1)

    def children(self, topic: str) -> tuple[int, ...]:
        return self._state.group(topic).view.near[self._state.dimension]

    def members(self, topic: str) -> frozenset[int]:
        return frozenset(nodes_of(self._state.group(topic).view.members))

    @property
    def down(self) -> frozenset[int]:
        return frozenset(self._state.down)

    def lagging(self, topic: str) -> dict[int, int]:
        group = self._state.group(topic)
        own = group.streams.get(self.node)
        if own is None:
            return {}
        return {
            node: group.seq
            - behind_seam(group.seq, position.done if (position := own.positions.get(node)) else own.stable)
            for node in self._state.others(group)
            if node in own.behind or node in self._state.down
        }

    @property
    def held_bytes(self) -> int:
        return sum([order.held_bytes for order in self._state.orders.values()])

    def unfinished(self) -> list[str]:
        found = []
        for group in self._state.groups.values():
            if group.queue or group.joining or group.roll:
                waits = sorted(group.roll.waits_for) if group.roll else []
                found.append(f"has {len(group.queue)} things queued on {group.name}, waits for nodes {waits}")
        if self._edges is not None and self._edges.kept:
            found.append(f"keeps {self._edges.kept} messages back")
        return found
