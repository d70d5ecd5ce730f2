"""The states of a whole system, and every step that may be taken in each."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from antecede.search.exhaustive.model import BOUNDS, Model, Seen
from antecede.search.exhaustive.nodes import Armed, Input, Nodes, Outcome

_CRASHES: Final = BOUNDS.index("crashes")
_RECOVERIES: Final = BOUNDS.index("recoveries")
_LOSSES: Final = BOUNDS.index("losses")
_DUPLICATES: Final = BOUNDS.index("duplicates")
_TIMERS: Final = BOUNDS.index("timers")
_SUSPICIONS: Final = BOUNDS.index("suspicions")


class State(NamedTuple):
    """A state of the system. Numbers of nodes' states and of packets are those of `Nodes`."""

    #: By node: its state; ~state while it is down.
    nodes: tuple[int, ...]
    #: Packets, by receiver and sender, and then in the order of sending or in a fixed one.
    flight: tuple[int, ...]
    #: By node: how many steps its application has taken.
    steps: tuple[int, ...]
    #: (node, peer): the failure detector of the node has yet to tell whether the peer is up.
    notices: tuple[tuple[int, int], ...]
    #: By bound: how often it happened.
    spent: tuple[int, ...]
    #: (node, by node how many messages it had published when this one's subscription took effect): what it is owed.
    joins: tuple[tuple[int, tuple[int, ...]], ...]


class Move(NamedTuple):
    """A step of the system."""

    kind: str
    node: int
    #: A packet's number, a peer or −1.
    about: int = -1
    timer: Armed | None = None


class Moved(NamedTuple):
    """The state after a move, what was seen, and the timers that were armed then."""

    state: State
    seen: tuple[Seen, ...]
    armed: tuple[Armed, ...] = ()


class System:
    """The moves of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.nodes = Nodes(model.make, recover=model.bounds.recoveries > 0)
        self._bounds = tuple(getattr(model.bounds, name) for name in BOUNDS)
        self._mortal = tuple(range(model.nodes)) if model.mortal is None else model.mortal

    def start(self) -> State:
        outcomes = [self.nodes.start(node) for node in range(self.model.nodes)]
        flight = [number for outcome in outcomes for number in outcome.sends]
        return State(
            nodes=tuple(outcome.state for outcome in outcomes),
            flight=self._sorted(flight),
            steps=(0,) * self.model.nodes,
            notices=(),
            spent=(0,) * len(BOUNDS),
            joins=(),
        )

    # -- which moves there are ----------------------------------------------------------------------------------

    def moves(self, state: State) -> list[Move]:
        """Every move in this state, in a fixed order."""
        return [*self._due(state), *self._possible(state)]

    def is_quiet(self, state: State) -> bool:
        """Has everything happened that must?"""
        return next(self._due(state), None) is None

    def _due(self, state: State) -> Iterator[Move]:
        for node, taken in enumerate(state.steps):
            if state.nodes[node] >= 0 and taken < len(self.model.script.get(node, ())):
                yield Move("act", node)
        for number in self._first(state):
            yield Move("receive", self.nodes.packets[number].to, number)
        for node, peer in state.notices:
            yield Move("notice", node, peer)

    def _possible(self, state: State) -> Iterator[Move]:
        left = [most - spent for most, spent in zip(self._bounds, state.spent, strict=True)]
        up = [node for node, own in enumerate(state.nodes) if own >= 0]
        if left[_TIMERS]:
            for node in up:
                for timer in dict.fromkeys(self.nodes.timers[state.nodes[node]]):
                    if self.model.may_be_early(timer.timer):
                        yield Move("wake", node, timer=timer)
        if left[_CRASHES] and len(up) > 1:
            yield from [Move("crash", node) for node in up if node in self._mortal]
        if left[_RECOVERIES]:
            yield from [Move("recover", node) for node, own in enumerate(state.nodes) if own < 0]
        if left[_LOSSES]:
            yield from [Move("lose", self.nodes.packets[number].to, number) for number in self._loose(state)]
        if left[_DUPLICATES]:
            yield from [Move("repeat", self.nodes.packets[number].to, number) for number in self._loose(state)]
        if left[_SUSPICIONS]:
            for node in up:
                for peer in up:
                    if peer != node and peer in self._mortal and (node, peer) not in state.notices:
                        yield Move("suspect", node, peer)

    def _first(self, state: State) -> list[int]:
        """The packets that may arrive next: each that is in flight, but on a link in order only the first."""
        if self.model.fifo is None:
            return list(dict.fromkeys(state.flight))
        links: set[tuple[int, int]] = set()
        first: list[int] = []
        for number in state.flight:
            sent = self.nodes.packets[number]
            link = (sent.sender, sent.to)
            if self._in_order(number):
                if link in links:
                    continue
                links.add(link)
            elif number in first:
                continue
            first.append(number)
        return first

    def _loose(self, state: State) -> list[int]:
        """The packets that may be lost or repeated: those that need not stay in order."""
        return [number for number in dict.fromkeys(state.flight) if not self._in_order(number)]

    def _sorted(self, flight: list[int]) -> tuple[int, ...]:
        return tuple(sorted(flight, key=self._by_link))

    def _by_link(self, number: int) -> tuple[int, int, bytes]:
        sent = self.nodes.packets[number]
        return sent.to, sent.sender, b"" if self._in_order(number) else sent.order

    def _in_order(self, number: int) -> bool:
        sent, fifo = self.nodes.packets[number], self.model.fifo
        return fifo is not None and fifo(sent.sender, sent.to, sent.packet)

    # -- what they do -------------------------------------------------------------------------------------------

    def apply(self, state: State, move: Move) -> Moved:  # noqa: PLR0911 - one for each kind
        node = move.node
        match move.kind:
            case "act":
                taken = state.steps[node]
                step = self.model.script[node][taken]
                state = state._replace(steps=_changed(state.steps, node, taken + 1))
                return self._give(state, node, Input(step.what, value=(step, b"%d.%d" % (node, taken))), ("act", taken))
            case "receive" | "repeat" | "lose":
                return self._arrive(state, move)
            case "notice":
                peer = move.about
                notices = tuple([notice for notice in state.notices if notice != (node, peer)])
                kind = "up" if state.nodes[peer] >= 0 else "down"
                return self._give(state._replace(notices=notices), node, Input(kind, peer), (kind, peer))
            case "suspect":
                state = _spend(state, _SUSPICIONS)
                state = state._replace(notices=tuple(sorted([*state.notices, (node, move.about)])))
                return self._give(state, node, Input("down", move.about), ("down", move.about))
            case "wake":
                return self.wake(_spend(state, _TIMERS), move)
            case "crash":
                return self._crash(state, node)
            case _:
                return self._recover(state, node)

    def wake(self, state: State, move: Move) -> Moved:
        assert move.timer is not None
        return self._give(state, move.node, Input("wake", value=move.timer), ("wake", move.timer[:2]))

    def _arrive(self, state: State, move: Move) -> Moved:
        flight = list(state.flight)
        if move.kind == "repeat":
            state = _spend(state, _DUPLICATES)
        else:
            flight.remove(move.about)
        state = state._replace(flight=tuple(flight))
        if move.kind == "lose":
            return Moved(_spend(state, _LOSSES), ())
        if state.nodes[move.node] < 0:
            return Moved(state, ())
        sent = self.nodes.packets[move.about]
        return self._give(state, move.node, Input("receive", sent.sender, sent.packet), ("receive", move.about))

    def _crash(self, state: State, node: int) -> Moved:
        state = _spend(state, _CRASHES)
        notices = {notice for notice in state.notices if notice[0] != node}
        if self.model.detector:
            notices |= {(other, node) for other, own in enumerate(state.nodes) if own >= 0 and other != node}
        flight = [number for number in state.flight if self._may_arrive(number, node)]
        return Moved(
            state._replace(
                nodes=_changed(state.nodes, node, ~state.nodes[node]),
                notices=tuple(sorted(notices)),
                flight=tuple(flight),
            ),
            (Seen("crash", ""),),
        )

    def _may_arrive(self, number: int, crashed: int) -> bool:
        """A packet for a node that never comes back is gone."""
        return self.model.bounds.recoveries > 0 or self.nodes.packets[number].to != crashed

    def _recover(self, state: State, node: int) -> Moved:
        state = _spend(state, _RECOVERIES)
        others = [other for other in range(self.model.nodes) if other != node and self.model.detector]
        notices = {*state.notices, *[(other, node) for other in others if state.nodes[other] >= 0]}
        notices |= {(node, other) for other in others if state.nodes[other] < 0}
        state = state._replace(nodes=_changed(state.nodes, node, ~state.nodes[node]), notices=tuple(sorted(notices)))
        moved = self._give(state, node, Input("recover"), ("recover",))
        return moved._replace(seen=(Seen("recover", ""), *moved.seen))

    def _give(self, state: State, node: int, given: Input, key: tuple[object, ...]) -> Moved:
        outcome = self.nodes.step(state.nodes[node], given, key)
        state = state._replace(nodes=_changed(state.nodes, node, outcome.state))
        if outcome.sends:
            sends = [number for number in outcome.sends if self._is_heard(state, number)]
            state = state._replace(flight=self._sorted([*state.flight, *sends]))
        if any(seen.what == "subscribe" for seen in outcome.seen):
            state = self._joined(state, node, outcome)
        return Moved(state, outcome.seen, outcome.armed)

    def _is_heard(self, state: State, number: int) -> bool:
        return self.model.bounds.recoveries > 0 or state.nodes[self.nodes.packets[number].to] >= 0

    def _joined(self, state: State, node: int, outcome: Outcome) -> State:
        """A subscription took effect. Publications of this node in the same moment are in its own history."""
        counts = [self.nodes.published[own if own >= 0 else ~own] for own in state.nodes]
        counts[node] = 0
        return state._replace(joins=tuple(sorted([*state.joins, (node, tuple(counts))])))


def _changed(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _spend(state: State, bound: int) -> State:
    return state._replace(spent=_changed(state.spent, bound, state.spent[bound] + 1))
