"""Errors the pipelined mode could have made, one at a time: what each rule of it is for."""

from collections.abc import Callable, Iterable

import msgspec

from antecede.core import Message, Packet, Process
from antecede.core.clocks import DomainFrontier
from antecede.overlay.members import mask_of
from antecede.protocols.options import MakeProcess
from antecede.protocols.vcube_ps import Domain, Order, Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.packets import Have, Pull
from antecede.protocols.vcube_ps.records import Delivered, Published
from antecede.protocols.vcube_ps.state import Group, JoinReplies
from antecede.search.vcube_ps import Trial, founders_of, options_of


class CountsEveryReport(VCubePs):
    """A delivery counts towards stability whatever the reporting node knew of the members."""

    def receive(self, sender: int, packet: Packet) -> None:
        if isinstance(packet, Have):
            digest = self._state.group(packet.topic).view.digest
            packet = msgspec.structs.replace(packet, digest=digest)
        super().receive(sender, packet)


class HoldsNothingForOthers(VCubePs):
    """A joiner begins without what is below its floors."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._membership.roll_call._lacking = lambda group, roll: set()  # type: ignore[method-assign]


class NobodyTakesOver(VCubePs):
    """The streams of those who are down are nobody's business."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._state.looks_after = lambda group, source: source == self.node  # type: ignore[method-assign]


class BelievesTheDead(VCubePs):
    """A joiner keeps the answers of nodes that went down before it began."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        calls = self._membership.roll_call
        down = calls.down

        def ignore(group: Group, node: int) -> None:
            if group.roll is not None and group.joining and node not in group.roll.waits_for:
                return
            down(group, node)

        calls.down = ignore  # type: ignore[method-assign]


class ReusesNumbers(VCubePs):
    """What it published is not kept."""

    def restore(self, records: Iterable[object]) -> None:
        super().restore(record for record in records if not isinstance(record, Published))


class DeliversAgain(VCubePs):
    """What it delivered is not kept."""

    def restore(self, records: Iterable[object]) -> None:
        super().restore(record for record in records if not isinstance(record, Delivered))


class ForgetsTheAbsent(VCubePs):
    """What all members that are up have delivered is forgotten, though one that is down may come back."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        others = self._state.others
        self._state.others = lambda group: [  # type: ignore[method-assign]
            node for node in others(group) if node not in self._state.down
        ]


class NeverAsks(VCubePs):
    """Gaps are not pulled, and nothing is sent again."""

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Pull):
            super().receive(sender, packet)

    def wake(self, timer: object) -> None:
        if not (isinstance(timer, tuple) and timer[0] == "resend"):
            super().wake(timer)


class TakesUndeliveredForDone(VCubePs):
    """Who leaves keeps what it had received and not delivered, and takes it for known when it is back."""

    def _leave(self, group: Group) -> None:
        streams, group.streams = group.streams, {}
        super()._leave(group)
        group.streams.update(streams)


class NeverLetsGo(VCubePs):
    """What is kept back for company is kept back whatever becomes of the company."""

    def _let_go(self) -> None:
        """Never."""


class ShallowFloors(VCubePs):
    """A joiner's floors do not hold what its past on other topics depends on."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._membership.roll_call._deepen = _nothing  # type: ignore[method-assign]


def _nothing(group: Group, roll: JoinReplies) -> None:
    """Deepen nothing."""


class _PassesNothingOn(DomainFrontier):
    def observe(self, message: Message, known: Callable[[str, int, int], bool], across: object = None) -> None:
        super().observe(msgspec.structs.replace(message, across=()), known)


class PassesNothingOn(VCubePs):
    """Entries of topics a node does not take are dropped."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        _put(self, _PassesNothingOn(self.node))


class _CoversAcross(DomainFrontier):
    def stamp(self, topic: str, seq: int) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[str, int, int], ...]]:
        stamped = super().stamp(topic, seq)
        self._ahead = {topic: {self._node: seq}}
        return stamped


class CoversAcrossTopics(VCubePs):
    """A message on one topic takes the entries of all others with it: a reader of another alone never sees it."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        _put(self, _CoversAcross(self.node))


def _put(process: VCubePs, frontier: DomainFrontier) -> None:
    """Replace the frontier of a process, which its order knows by two names."""
    domain = _domain(process)
    domain._frontier = domain._clock = frontier


def _domain(process: VCubePs) -> Domain:
    order = process._state.make_order()
    assert isinstance(order, Domain)
    return order


PIPELINED: tuple[type[VCubePs], ...] = (
    CountsEveryReport,
    HoldsNothingForOthers,
    NobodyTakesOver,
    BelievesTheDead,
    ReusesNumbers,
    DeliversAgain,
    ForgetsTheAbsent,
    NeverAsks,
    TakesUndeliveredForDone,
    NeverLetsGo,
    ShallowFloors,
    PassesNothingOn,
    CoversAcrossTopics,
)


def make_pipelined(mutant: type[VCubePs]) -> Callable[[int, Trial], MakeProcess]:
    def make(seed: int, trial: Trial) -> MakeProcess:
        founders = {topic: mask_of(members) for topic, members in founders_of(trial).items()}
        timing = Timing(ack_us=50_000_000, ack_every=max(1, trial.window // 4), retry_us=2_000_000_000)
        assert options_of(trial).mode == "pipelined"

        def process(node: int) -> Process:
            domain = Domain(node)

            def order() -> Order:
                return domain if trial.domain == "all" else TopicOrder(node)

            return mutant(node, trial.nodes, order, founders, timing, window=trial.window, aggregate=trial.aggregate)

        return process

    return make
