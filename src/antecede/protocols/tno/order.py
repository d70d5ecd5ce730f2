"""The order of topics, its keeper, and when two topics should swap (paper 5, dynamic topic ordering).

Timestamps are filled in from an event's own topic upwards. A topic with many events should therefore stand high: its
events then visit few managers. A manager that fills in a timestamp compares the popularity of the event's topic with
its own by f(x) = exp(−1 / (α (x + 1))); if the other's exceeds its own by more than β, the two should swap. Of all such
managers that a timestamp visits, the *highest* asks for the swap; swapping with the nearest takes hundreds of swaps.

The keeper (the paper's TM of T_s) makes one change at a time, and each begins a new *epoch*. It sends every manager the
whole new order until each has acknowledged. All events of an epoch come before all events of the next, at every
subscriber. An event that arrives after one of a later epoch is tagged.
"""

from math import exp

import msgspec

from antecede.protocols.tno.machine import Judgement, Machine, Out, decoded
from antecede.protocols.tno.packets import AskOrder, NewOrder, OrderAck, Request, Swap


def popularity(events: int, alpha: float) -> float:
    """The paper's f: rises from exp(−1/α) towards 1, ever more slowly."""
    return exp(-1 / (alpha * (events + 1)))


class Ranks:
    """An order of topics, highest first. Topics that it does not name are below, ordered by name."""

    def __init__(self, order: tuple[str, ...]) -> None:
        self.order = order
        self._place = {topic: place for place, topic in enumerate(order)}

    def key(self, topic: str) -> tuple[int, str]:
        """The sort key of a topic: smaller is higher."""
        return self._place.get(topic, len(self._place)), topic

    def __contains__(self, topic: str) -> bool:
        return topic in self._place

    def upwards(self, topics: "set[str] | frozenset[str]") -> tuple[str, ...]:
        """`topics`, the lowest first."""
        return tuple(sorted(topics, key=self.key, reverse=True))


class _State(msgspec.Struct):
    epoch: int
    order: tuple[str, ...]
    #: By topic: the epoch that its manager is known to have. A topic that is missing was never told.
    told: dict[str, int]


class Keeper(Machine):
    """Keeps the order of topics, and makes one change at a time."""

    def __init__(self, order: tuple[str, ...]) -> None:
        self._state = _State(0, order, dict.fromkeys(order, 0))

    def judge(self, request: Request) -> Judgement:
        state = self._state
        match request:
            case Swap():
                order = state.order
                if request.epoch != state.epoch or request.high not in order or request.low not in order:
                    return "old"
                return "now" if order.index(request.high) < order.index(request.low) else "old"
            case AskOrder():
                return "old" if request.topic in state.told else "now"
            case OrderAck():
                return "now" if request.epoch > state.told.get(request.topic, -1) else "old"
        return "old"

    def apply(self, request: Request) -> list[Out]:
        state = self._state
        match request:
            case Swap():
                places = {request.high: request.low, request.low: request.high}
                state.order = tuple([places.get(topic, topic) for topic in state.order])
                state.epoch += 1
                return [self._news(topic) for topic in state.order]
            case AskOrder():
                # At the end, in the present epoch: no event was stamped on it before, so nothing changes for others.
                if request.topic not in state.order:
                    state.order = (*state.order, request.topic)
                state.told[request.topic] = -1
                return [self._news(request.topic)]
            case OrderAck():
                state.told[request.topic] = request.epoch
        return []

    def again(self, request: Request) -> list[Out]:
        return [self._news(request.topic)] if isinstance(request, AskOrder) else []

    def unfinished(self) -> list[Out]:
        return [self._news(topic) for topic, epoch in self._state.told.items() if epoch < self._state.epoch]

    def save(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def load(self, state: bytes) -> None:
        self._state = decoded(state, _State)

    def _news(self, topic: str) -> Out:
        return topic, NewOrder(topic, self._state.epoch, self._state.order)
