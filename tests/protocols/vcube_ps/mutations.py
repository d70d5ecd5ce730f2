"""The errors of the printed algorithm put back, one at a time, and errors VCube-PS could have made.

Each is a subclass that undoes one repair. The search that finds nothing in VCube-PS must find every one of these;
otherwise it proves nothing.
"""

from collections.abc import Callable, Mapping, Sequence

from antecede.core import Frontier, Message, Process
from antecede.overlay.members import mask_of
from antecede.protocols.options import MakeProcess
from antecede.protocols.vcube_ps import FaithfulVCubePs, Order, TopicOrder
from antecede.protocols.vcube_ps.faithful import _Group
from antecede.protocols.vcube_ps.packets import Act, Sub, Uns, Wave
from antecede.protocols.vcube_ps.view import View
from antecede.search.vcube_ps import Trial, founders_of


class Hearsay(TopicOrder):
    """Waits only for sources it has heard of (5.4.2), from the first message on; `unheard` are those it has not."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self.unheard: set[int] = set()

    def offer(self, message: Message) -> Sequence[Message]:
        started: Sequence[Message] = ()
        if message.source in self.unheard:
            self.unheard.discard(message.source)
            started = self.floors(message.topic, ((message.source, message.seq - 1),))
        deps = tuple(entry for entry in message.deps if entry[0] not in self.unheard)
        if deps == message.deps:
            return [*started, *super().offer(message)]
        # The gate must not see the entries; the message the application gets must be the same one.
        bare = Message(message.topic, message.source, message.seq, deps, message.payload)
        return [*started, *(message if ready is bare else ready for ready in super().offer(bare))]


class WaitsForAll(FaithfulVCubePs):
    """Line 97: a joiner waits for messages of sources it never heard of, which will never come."""

    def _begun(self, group: _Group, floors: Mapping[int, int]) -> None:
        super()._begun(group, {})


class WaitsForNobodyUnheard(FaithfulVCubePs):
    """The text of 5.4.2 instead: it does not wait for sources it has not heard of."""

    def _open(self, topic: str, members: int = 0) -> _Group:
        group = super()._open(topic, members)
        order = group.order = Hearsay(self.node)
        order.unheard.update(set(range(1 << self._dimension)) - {self.node})
        return group

    def _begun(self, group: _Group, floors: Mapping[int, int]) -> None:
        super()._begun(group, {})


class ResetsView(FaithfulVCubePs):
    """Line 6: SUBSCRIBE forgets the view, and the joiner relays with what it has."""

    def _join(self, group: _Group) -> None:
        register = group.view.register(self.node)
        group.view = View(self.node, self._dimension)
        group.view.learn(self.node, register)
        super()._join(group)


class OnlyMembersLearn(FaithfulVCubePs):
    """Line 68: who does not take the topic does not update its view, but relays all the same."""

    def _pass_wave(self, sender: int, packet: Wave) -> None:
        group = self._group(packet.topic)
        known = group.view
        if not group.takes and not group.joining and not isinstance(packet, Act):
            group.view = View(self.node, self._dimension)  # what it learns goes nowhere
            group.view.learn(self.node, known.register(self.node))
        super()._pass_wave(sender, packet)
        group.view = known


class LeavesAtTheCall(FaithfulVCubePs):
    """Line 12: a member is gone when it asks to leave, with messages still queued; joiners hear nothing from it."""

    def unsubscribe(self, topic: str) -> None:
        group = self._group(topic)
        if group.takes and group.wants:
            group.takes = False
            self.out.left(topic)
        super().unsubscribe(topic)

    def _pass_wave(self, sender: int, packet: Wave) -> None:
        group = self._group(packet.topic)
        seq = group.seq
        if isinstance(packet, Act) and not group.takes:
            group.seq = 0
        super()._pass_wave(sender, packet)
        group.seq = seq


class SecondTask(FaithfulVCubePs):
    """Lines 14, 36, 37: SUBSCRIBE does not wait for the UNS before it, whose end wipes the new session."""

    def subscribe(self, topic: str) -> None:
        group = self._group(topic)
        if not group.wants and group.busy and not group.joining and not group.queue:
            group.wants = True
            self._join(group)
            return
        super().subscribe(topic)

    def _answer(self, group: _Group, parent: int, wave: Wave, found: dict[int, int]) -> None:
        if isinstance(wave, Uns) and parent < 0 and (group.joining or group.takes):
            group.early.clear()
            group.order.leave(group.name)
            group.takes = False
        super()._answer(group, parent, wave, found)


class ForgetsWhoLeft(FaithfulVCubePs):
    """Line 80: UNS deletes the leaver's first_rec; when it comes back nobody waits for it until it is heard."""

    def _open(self, topic: str, members: int = 0) -> _Group:
        group = super()._open(topic, members)
        group.order = Hearsay(self.node)
        return group

    def _pass_wave(self, sender: int, packet: Wave) -> None:
        super()._pass_wave(sender, packet)
        if isinstance(packet, Uns):
            order = self._group(packet.topic).order
            assert isinstance(order, Hearsay)
            order.unheard.add(packet.node)


class ForgetsItsPast(FaithfulVCubePs):
    """Resetting the causal barrier on a rejoin."""

    def _begun(self, group: _Group, floors: Mapping[int, int]) -> None:
        assert isinstance(group.order, TopicOrder)
        group.order._frontier = Frontier()
        super()._begun(group, floors)


class OwnCountsOnly(FaithfulVCubePs):
    """The cut of the joiner holds what each node published, not what it delivered: inconsistent."""

    def _pass_wave(self, sender: int, packet: Wave) -> None:
        if isinstance(packet, Act):
            self._group(packet.topic).recent.clear()
        super()._pass_wave(sender, packet)


class JoinersDoNotCount(FaithfulVCubePs):
    """Concurrent joins: one that has begun does not tell another what is before its own time."""

    def _begun(self, group: _Group, floors: Mapping[int, int]) -> None:
        joiners, group.joiners = group.joiners, set()
        super()._begun(group, floors)
        group.joiners = joiners | group.joiners


class OneWave(FaithfulVCubePs):
    """The cut is taken when the joiner announces itself: others do not know it yet and do not pass on to it."""

    def _pass_wave(self, sender: int, packet: Wave) -> None:
        group = self._group(packet.topic)
        seq = group.seq
        cuts: dict[tuple[str, int, int], int] = self.__dict__.setdefault("cuts", {})
        if isinstance(packet, Sub):
            cuts[packet.topic, packet.node, packet.register] = seq
        elif isinstance(packet, Act):
            group.seq = cuts[packet.topic, packet.node, packet.register]
        super()._pass_wave(sender, packet)
        group.seq = seq


FAITHFUL: tuple[type[FaithfulVCubePs], ...] = (
    WaitsForAll,
    WaitsForNobodyUnheard,
    ResetsView,
    OnlyMembersLearn,
    LeavesAtTheCall,
    SecondTask,
    ForgetsWhoLeft,
    ForgetsItsPast,
    OwnCountsOnly,
    JoinersDoNotCount,
    OneWave,
)


def make_faithful(mutant: type[FaithfulVCubePs]) -> Callable[[int, Trial], MakeProcess]:
    def make(seed: int, trial: Trial) -> MakeProcess:
        founders = {topic: mask_of(members) for topic, members in founders_of(trial).items()}

        def process(node: int) -> Process:
            def order() -> Order:
                return TopicOrder(node)

            return mutant(node, trial.nodes, order, founders)

        return process

    return make
