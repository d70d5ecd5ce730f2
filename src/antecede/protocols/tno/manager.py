"""The manager of a topic: numbers its events and has their timestamps filled in (paper 3.2, Figures 4, 5, 7, 8).

An event gets the next number of its topic T. It then travels as a timestamp to the managers of the *sequencing group*:
the topics above T that some subscriber takes together with T. Each adds how many events it has numbered; the last one
returns the timestamp to the publisher. So of two events on topics that a subscriber takes both of, the one on the lower
topic says where it stands among those of the higher. All nodes notified of both compare the same two numbers.

Differences from the printed rules:
* Printed: a topic is in the group if two subscriptions have both → an event may lack an entry that a later joiner needs
  → one subscription suffices, and the event's own number is always there.
* Printed: a subscription increments the number → a hole that stalls every buffer → it takes no number; and an older
  version never replaces a newer one.
* Added: a publisher's events on a topic are numbered in its order, whatever links do (causal order inside a topic needs
  no more, paper 4). An event is numbered once, however often it is asked for.
* Added (TNO+): an event also says what its manager filled in for topics below since its last event: those come first.
* Added: a number whose publisher is silent for too long is declared void, so that no subscriber waits for it.
* Printed: a manager infers a new order from a timestamp → it knows only part of it → no event is numbered before the
  manager has the whole order.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from antecede.core.limits import DEPENDENCIES_MAX
from antecede.protocols.tno.machine import Judgement, Machine, Out, decoded
from antecede.protocols.tno.manager_state import Channel, ManagerState, Numbered
from antecede.protocols.tno.order import Ranks, popularity
from antecede.protocols.tno.packets import (
    KEEPER,
    AskOrder,
    Create,
    Entries,
    Expire,
    Fill,
    FillSub,
    Free,
    Got,
    NewOrder,
    OrderAck,
    Published,
    PublishedAck,
    Request,
    Resend,
    Route,
    Stamp,
    SubAck,
    SubAgain,
    SubDone,
    Swap,
    UpdateSub,
    Void,
    VoidAck,
)

_NOBODY: Final[tuple[int, tuple[str, ...]]] = (0, ())


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How timestamps are made. The same for all managers of a system."""

    #: TNO+: include what was stamped before on topics below.
    below: bool = True
    #: Timestamps pass every manager in between, so that none overtakes another. Then nothing need ever be tagged.
    through: bool = False
    #: Topics swap when f differs by more than `beta`; 0: never.
    alpha: float = 1.0
    beta: float = 0.0
    #: Popularity is how often a topic was among the last so many events that a manager saw; 0: how many events it ever
    #: had, as in the paper, which says less the longer a system runs.
    recent: int = 0


class Manager(Machine):
    """The manager of one topic."""

    def __init__(
        self, topic: str, order: tuple[str, ...], rules: Rules, founders: dict[int, tuple[int, tuple[str, ...]]]
    ) -> None:
        """`founders`: subscriptions from the beginning, by subscriber: (0, topics)."""
        self.topic = topic
        self._rules = rules
        self._state = ManagerState(0, order, 0, dict(founders))
        self._refresh()

    # -- requests -----------------------------------------------------------------------------------------------

    def judge(self, request: Request) -> Judgement:  # noqa: PLR0911 - one line a kind
        state = self._state
        match request:
            case Create():
                return self._judge_create(request)
            case Fill() | Free():
                ahead = request.place - state.come.get(request.sender, 0)
                return "old" if ahead <= 0 else "now" if ahead == 1 else "early"
            case Got():
                channel = state.channels.get(request.to)
                return "now" if channel and channel.queue and channel.queue[0].place <= request.place else "old"
            case Published():
                return "now" if request.numbers[-1][0] > state.done.get(request.source, 0) else "old"
            case VoidAck():
                return "now" if set(request.numbers) & set(state.voids.get(request.subscriber, ())) else "old"
            case FillSub():
                if request.epoch > state.epoch:
                    return "now" if request.epoch > state.wanted else "early"
                newer = request.version > self._version(request.subscriber)
                return "now" if request.epoch == state.epoch and newer else "old"
            case UpdateSub():
                return "now" if request.version > self._version(request.subscriber) else "old"
            case NewOrder():
                newer = request.epoch == state.epoch and len(request.order) > len(state.order)
                return "now" if request.epoch > state.epoch or newer else "old"
            case Expire():
                known = state.open.get(request.source, {}).get(request.seq)
                return "now" if known and known.number == request.number else "old"
        return "old"

    def apply(self, request: Request) -> list[Out]:  # noqa: PLR0911 - one line a kind
        match request:
            case Create():
                return self._create(request)
            case Fill():
                self._state.come[request.sender] = request.place
                return self._fill(request)
            case Free():
                self._state.come[request.sender] = request.place
                self._free(request)
            case Got():
                queue = self._state.channels[request.to].queue
                while queue and queue[0].place <= request.place:
                    del queue[0]
            case Published():
                return self._published(request)
            case VoidAck():
                left = [n for n in self._state.voids[request.subscriber] if n not in request.numbers]
                self._set_voids(request.subscriber, left)
            case FillSub():
                if request.epoch > self._state.epoch:
                    return self._want(request.epoch)
                self._register(request.subscriber, request.version, request.topics)
                return self.again(request)
            case UpdateSub():
                self._register(request.subscriber, request.version, request.topics)
                return self.again(request)
            case NewOrder():
                self._state.epoch, self._state.order = request.epoch, request.order
                self._refresh()
                return self.again(request)
            case Expire():
                return self._expire(request)
        return []

    def again(self, request: Request) -> list[Out]:  # noqa: PLR0911 - one line a kind
        state = self._state
        match request:
            case Create():
                opened = state.open.get(request.source, {}).get(request.seq)
                if opened is None:
                    return []
                if opened.stamp is not None:
                    return [(request.source, opened.stamp)]
                return [(opened.last, Resend(opened.last, self.topic, request.source, request.seq))]
            case Resend():
                stamp = state.finished.get(request.topic, {}).get(request.source, {}).get(request.seq)
                return [(request.source, stamp)] if stamp else []
            case Published():
                return [(request.source, PublishedAck(self.topic, state.done[request.source]))]
            case FillSub():
                return self._pass_subscription(request)
            case UpdateSub():
                return [(request.subscriber, SubAck(self.topic, request.version))]
            case NewOrder():
                return [(KEEPER, OrderAck(self.topic, state.epoch))]
        return []

    def unfinished(self) -> list[Out]:
        state = self._state
        again: list[Out] = [(to, packet) for to, channel in state.channels.items() for packet in channel.queue]
        for subscriber, numbers in state.voids.items():
            again.append((subscriber, Void(self.topic, tuple(numbers[:DEPENDENCIES_MAX]))))
        if self._blocked():
            again.append((KEEPER, AskOrder(self.topic)))
        return again

    def save(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def load(self, state: bytes) -> None:
        self._state = decoded(state, ManagerState)
        self._refresh()

    def came(self, sender: str) -> int:
        """How much of the channel from the manager of `sender` has come."""
        return self._state.come.get(sender, 0)

    def waiting(self) -> list[tuple[int, int, int]]:
        """Events numbered and not known to be published: publisher, sequence number, number on this topic."""
        return [
            (source, seq, opened.number) for source, some in self._state.open.items() for seq, opened in some.items()
        ]

    # -- events of this topic -----------------------------------------------------------------------------------

    def _judge_create(self, request: Create) -> Judgement:
        state, source, seq = self._state, request.source, request.seq
        if seq <= state.done.get(source, 0) or seq in state.open.get(source, {}):
            return "old"
        return "early" if self._blocked() or seq > state.asked.get(source, 0) + 1 else "now"

    def _blocked(self) -> bool:
        """Is there an order that this manager has not been told, or one that does not name its topic?"""
        if self._state.wanted > self._state.epoch:
            return True
        return self._rules.beta > 0 and self.topic not in self._ranks

    def _create(self, request: Create) -> list[Out]:
        state, source, seq = self._state, request.source, request.seq
        state.count += 1
        self._observe(self.topic)
        state.asked[source] = max(seq, state.asked.get(source, 0))
        below: Entries = ()
        if self._rules.below:
            below = tuple(sorted(item for item in state.passed.items() if item[0] in self._together))
            state.passed.clear()
        stamps = [topic for topic, fills in self._route if fills]
        last = stamps[-1] if stamps else ""
        stamp = Stamp(self.topic, source, seq, state.epoch, state.count, (), below)
        state.open.setdefault(source, {})[seq] = Numbered(state.count, last, None if last else stamp)
        return [self._forward(stamp, self._route, "") if last else (source, stamp)]

    def _published(self, request: Published) -> list[Out]:
        state, source = self._state, request.source
        state.done[source] = seq = max(state.done.get(source, 0), request.numbers[-1][0])
        state.asked[source] = max(seq, state.asked.get(source, 0))
        opened = state.open.get(source, {})
        used = dict(request.numbers)
        out: list[Out] = []
        lasts: set[str] = set()
        for known in [known for known in opened if known <= seq]:
            event = opened.pop(known)
            lasts.add(event.last)
            if used.get(known, event.number) != event.number:  # published with a number it was given before
                out += self._void(event.number)
        if not opened:
            state.open.pop(source, None)
        return [*out, *self._forget(source, seq, lasts), *self.again(request)]

    def _expire(self, request: Expire) -> list[Out]:
        """Void an event and the publisher's later ones. If it comes back, all are numbered anew, in its order.

        With their old numbers the later ones would come before it.
        """
        state, source = self._state, request.source
        opened = state.open.pop(source)
        earlier = {seq: event for seq, event in opened.items() if seq < request.seq}
        if earlier:
            state.open[source] = earlier
        out: list[Out] = []
        for seq in sorted(opened.keys() - earlier.keys()):
            out += [*self._forget(source, seq, {opened[seq].last}), *self._void(opened[seq].number)]
        state.asked[source] = request.seq - 1
        return out

    def _forget(self, source: int, seq: int, lasts: set[str]) -> list[Out]:
        """Tell the managers that completed these timestamps that they need not keep them."""
        out: list[Out] = []
        for last in sorted(lasts - {""}):
            channel = self._state.channels.setdefault(last, Channel())
            channel.places += 1
            packet = Free(self.topic, last, channel.places, self.topic, source, seq, self._state.count)
            channel.queue.append(packet)
            out.append((last, packet))
        return out

    def _void(self, number: int) -> list[Out]:
        """Declare `number` void to all subscribers."""
        out: list[Out] = []
        for subscriber, (_, topics) in self._state.subscriptions.items():
            if topics:
                self._state.voids.setdefault(subscriber, []).append(number)
                out.append((subscriber, Void(self.topic, (number,))))
        return out

    # -- events of topics below ---------------------------------------------------------------------------------

    def _fill(self, fill: Fill) -> list[Out]:
        state = self._state
        out = self._want(fill.epoch)
        (_, stamps), *rest = fill.route
        above, swap = fill.above, fill.swap
        if stamps:
            above = (*above, (self.topic, state.count))
            state.passed[fill.topic] = max(fill.number, state.passed.get(fill.topic, 0))
            self._observe(fill.topic)
            if self._outgrown(fill):
                swap = self.topic
        stamp = Stamp(fill.topic, fill.source, fill.seq, fill.epoch, fill.number, above, fill.below)
        if rest:
            return [*out, self._forward(stamp, tuple(rest), swap)]
        state.finished.setdefault(fill.topic, {}).setdefault(fill.source, {})[fill.seq] = stamp
        if swap:
            out.append((KEEPER, Swap(swap, fill.topic, fill.epoch)))
        return [*out, (fill.source, stamp)]

    def _forward(self, stamp: Stamp, route: Route, swap: str) -> Out:
        """Send an unfinished timestamp to the next manager."""
        to = route[0][0]
        channel = self._state.channels.setdefault(to, Channel())
        channel.places += 1
        packet = Fill(
            self.topic,
            to,
            channel.places,
            stamp.topic,
            stamp.source,
            stamp.seq,
            stamp.epoch,
            stamp.number,
            route,
            stamp.above,
            stamp.below,
            swap,
        )
        channel.queue.append(packet)
        return to, packet

    def _free(self, free: Free) -> None:
        of_topic = self._state.finished.get(free.topic, {})
        stamps = of_topic.pop(free.source, {}).items()
        kept = {seq: stamp for seq, stamp in stamps if seq > free.seq or stamp.number > free.number}
        if kept:
            of_topic[free.source] = kept

    def _observe(self, topic: str) -> None:
        if self._rules.recent and self._rules.beta > 0:
            self._state.latest.append(topic)
            del self._state.latest[: -self._rules.recent]

    def _outgrown(self, fill: Fill) -> bool:
        """Is the event's topic more popular than this one, by enough?"""
        alpha, beta = self._rules.alpha, self._rules.beta
        if not beta:
            return False
        theirs, ours = fill.number, self._state.count
        if self._rules.recent:
            theirs, ours = self._state.latest.count(fill.topic), self._state.latest.count(self.topic)
        return popularity(theirs, alpha) > popularity(ours, alpha) + beta

    def _want(self, epoch: int) -> list[Out]:
        """An order of this epoch exists: number nothing before this manager has it."""
        if epoch <= max(self._state.wanted, self._state.epoch):
            return []
        self._state.wanted = epoch
        return [(KEEPER, AskOrder(self.topic))]

    # -- subscriptions ------------------------------------------------------------------------------------------

    def _pass_subscription(self, request: FillSub) -> list[Out]:
        state = self._state
        if request.version < self._version(request.subscriber):
            return []
        if request.epoch < state.epoch:
            return [(request.subscriber, SubAgain(request.version, state.epoch, state.order))]
        floors = (*request.floors, (self.topic, state.count))
        rest = request.route[1:]
        if not rest:
            return [(request.subscriber, SubDone(request.version, floors))]
        packet = FillSub(request.subscriber, request.version, request.topics, request.epoch, rest, floors)
        return [(rest[0], packet)]

    def _register(self, subscriber: int, version: int, topics: tuple[str, ...]) -> None:
        self._state.subscriptions[subscriber] = (version, topics)
        if not topics:
            self._set_voids(subscriber, [])
        self._refresh()

    def _version(self, subscriber: int) -> int:
        return self._state.subscriptions.get(subscriber, _NOBODY)[0]

    def _set_voids(self, subscriber: int, numbers: list[int]) -> None:
        if numbers:
            self._state.voids[subscriber] = numbers
        else:
            self._state.voids.pop(subscriber, None)

    def _refresh(self) -> None:
        """Compute which topics are taken together with this one, and the route of its timestamps."""
        state = self._state
        self._ranks = Ranks(state.order)
        self._together = self._sequencing([topics for _, topics in state.subscriptions.values()])
        key = self._ranks.key
        group = sorted([topic for topic in self._together if key(topic) < key(self.topic)], key=key, reverse=True)
        if self._rules.through and group:
            between = {topic for topic in state.order if key(group[-1]) <= key(topic) < key(self.topic)}
            self._route: Route = tuple(
                (topic, topic in self._together) for topic in self._ranks.upwards(between.union(group))
            )
        else:
            self._route = tuple((topic, True) for topic in group)

    def _sequencing(self, subscriptions: Collection[tuple[str, ...]]) -> frozenset[str]:
        """The topics that some subscriber takes together with this one."""
        return frozenset().union(*set(subscriptions)) - {self.topic}  # mostly there are few different ones
