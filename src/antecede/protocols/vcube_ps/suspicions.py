"""Nodes that go down, come back, and are forgotten: what a pipelined node does then, with the parts of `pipelined`."""

from abc import ABC, abstractmethod
from collections.abc import Set

from antecede.core.native import mypyc_attr
from antecede.protocols.vcube_ps import outside
from antecede.protocols.vcube_ps.closing import Closing
from antecede.protocols.vcube_ps.custody import Custody
from antecede.protocols.vcube_ps.membership import Membership
from antecede.protocols.vcube_ps.questions import Questions
from antecede.protocols.vcube_ps.records import Forgotten
from antecede.protocols.vcube_ps.state import Group
from antecede.protocols.vcube_ps.view import first_register


@mypyc_attr(allow_interpreted_subclasses=True)
class Suspicions(Questions, ABC):
    """The part of `VCubePs` that hears of other nodes' fate."""

    _membership: Membership
    _custody: Custody
    _closing: Closing

    @abstractmethod
    def _let_go(self) -> None: ...
    @abstractmethod
    def _finish(self) -> None: ...

    def peer_down(self, node: int) -> None:
        state = self._state
        if node == self.node or node in state.down:
            return
        state.down.add(node)
        state.everyone.hide(node)
        for group in list(state.groups.values()):
            fallen = self._looked_after_by(group, node)
            group.view.hide(node)
            self._let_go()
            self._membership.down(group, node)
            self._custody.review(group)
            if group.takes or group.seq > group.inside:
                self._custody.repair_later(group)
            if group.takes:
                self._take_over(group, fallen)
        self._finish()

    def peer_up(self, node: int) -> None:
        state = self._state
        if node not in state.down:
            return
        state.down.discard(node)
        state.vacant.discard(node)
        state.everyone.show(node)
        for group in list(state.groups.values()):
            group.view.show(node)
            self._let_go()
            self._membership.up(group, node)
            group.asked = False  # it may have joined meanwhile
            if outside.must_ask(self._state, group):
                self._membership.resume(group)
            self._custody.greet(group, node)
            self._custody.review(group)
        self._finish()

    def vacate(self, node: int) -> None:
        self._state.vacant.add(node)
        for group in list(self._state.groups.values()):
            self._custody.review(group)  # a stream that is being closed, or a join, waits for the node no more
            self._membership.roll_call.again(group)
        self._finish()

    def forget(self, node: int, epoch: int) -> None:
        state = self._state
        if node == self.node or epoch <= state.epochs.get(node, 0):
            return
        state.epochs[node] = epoch
        self.out.keep(Forgotten(node, epoch))
        for group in list(state.groups.values()):
            self._let_go()
            self._membership.learn(group, ((node, first_register(epoch)),))
            self._closing.end(group, node, epoch)
            self._custody.review(group)
            self._membership.roll_call.again(group)
        self._finish()

    def _looked_after_by(self, group: Group, node: int) -> set[int]:
        """`node`, and the sources that are down and whose custodian is `node` while it is up."""
        state = self._state
        return {node, *[one for one in state.sources(group) & state.down if state.custodian(group, one) == node]}

    def _moved(self, group: Group) -> None:
        self._let_go()
        self._custody.review(group)

    def _take_over(self, group: Group, sources: Set[int]) -> None:
        """Streams of sources that are down may fall to this node."""
        for source in sorted(self._state.sources(group) & sources & self._state.down):
            self._custody.take_over(group, source)
