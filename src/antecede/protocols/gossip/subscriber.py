"""A subscriber: has a home broker, orders what comes from it, asks for what it misses, and may move.

It takes whole groups and never publishes (in the paper brokers are the publishers). Packets may come twice, late or not
at all: gaps show by position, tails by what the broker says of itself now and then (`Standing`), and what is missing is
asked for in every round, of the home broker first and of others in turn.

**Moving.** A subscriber whose broker is suspected, because it crashed or because the subscriber has wandered off, turns
to another and says how far it is in each stream; the new one sends what came since. Nothing is repeated, for positions
at or below are duplicates wherever they come from. The old broker is told, and told again should it go on sending.

**Coming to a group.** The broker answers where the group begins. It does so only when it has delivered everything this
subscriber has, in all groups it ever took; and meanwhile the subscriber takes nothing. So nothing that precedes what it
has delivered can come later. What is under way with the short list of predecessors made for its former groups is
refused when it comes: it says nothing of the new one.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar, Final, Protocol

from antecede.core import Message, Packet, Process, ProtocolError, TopicMessageId, UsageError
from antecede.core.domain_order import StreamName
from antecede.core.rng import Rng
from antecede.protocols.gossip.config import GossipConfig
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.order import Order
from antecede.protocols.gossip.packets import (
    Attach,
    Attached,
    Detach,
    Notice,
    Pull,
    Rumour,
    Standing,
    Want,
)
from antecede.protocols.gossip.sizes import Sizes

_ROUND: Final = "round"
#: Unanswered attempts after which a broker is taken for gone.
_ATTEMPTS_MAX: Final = 12
#: Other brokers a subscriber remembers.
_ALTERNATES_MAX: Final = 16


class Reader(Protocol):
    """How a subscriber orders: by predecessors (`NumberReader`) or by rounds (`round_reader.RoundReader`)."""

    def take(self, notice: Notice, now: int, *, home: bool) -> list[Message]: ...
    def claim(self, standing: Standing) -> list[Message]: ...
    def floors(self, levels: Iterable[tuple[str, int, int]]) -> list[Message]: ...
    def behind(self, standing: Standing) -> list[tuple[StreamName, int]]: ...
    def forgo(self, stream: StreamName, upto: int) -> list[Message]: ...
    def changed(self) -> None: ...
    def moved(self) -> None: ...
    def give_up(self, since: int, now: int) -> list[Message]: ...
    def heard(self, clock: int) -> None: ...
    def resign(self) -> None: ...
    def reached(self, stream: StreamName) -> int: ...
    def missing(self) -> dict[StreamName, int]: ...
    def turned_away(self) -> list[tuple[StreamName, int]]: ...
    def levels(self) -> dict[StreamName, int]: ...
    def holding(self) -> list[TopicMessageId]: ...
    @property
    def held(self) -> int: ...
    @property
    def late(self) -> int: ...
    @property
    def given_up(self) -> int: ...


class NumberReader:
    """Predecessors are named: the order brokers keep, without a clock to stamp."""

    def __init__(self, takes: Callable[[str], bool], order: Order) -> None:
        self._takes = takes
        self._order = order
        self.reached = order.reached
        self.missing = order.missing
        self.turned_away = order.turned_away
        self.levels = order.levels
        self.holding = order.holding

    def take(self, notice: Notice, now: int, *, home: bool) -> list[Message]:
        offer = self._order.offer
        return [ready.message for copy in notice.copies for ready in offer(Rumour(copy.message, copy.clock), now)]

    def claim(self, standing: Standing) -> list[Message]:
        return []  # gaps show by number, and what is asked for is `Subscriber`'s business

    def behind(self, standing: Standing) -> list[tuple[StreamName, int]]:
        """Streams in which our broker is further, and how far."""
        reached, takes = self.reached, self._takes
        return [
            ((topic, source), n)
            for topic, source, n in standing.levels
            if n > reached((topic, source)) and takes(topic)
        ]

    def floors(self, levels: Iterable[tuple[str, int, int]]) -> list[Message]:
        return _messages(self._order.floors(levels))

    def forgo(self, stream: StreamName, upto: int) -> list[Message]:
        return []  # who waits for it gives up in his turn

    def changed(self) -> None:
        self._order.changed(again=False)

    def moved(self) -> None:
        """It is all the same whom a message comes from."""

    def give_up(self, since: int, now: int) -> list[Message]:
        return _messages(self._order.give_up(since, now))

    def heard(self, clock: int) -> None:
        """Clocks are only compared with each other."""

    def resign(self) -> None:
        self._order.resign(self._order.clock_reached)

    @property
    def held(self) -> int:
        return self._order.held

    @property
    def late(self) -> int:
        return self._order.late

    @property
    def given_up(self) -> int:
        return self._order.given_up


def _messages(rumours: list[Rumour]) -> list[Message]:
    return [rumour.message for rumour in rumours]


class Subscriber(Process):
    """A node that takes groups through a broker."""

    reports_membership: ClassVar[bool] = True

    def __init__(
        self,
        node: int,
        home: int,
        alternates: Sequence[int],
        habits: GossipConfig,
        chance: Rng,
        *,
        takes: Iterable[str] = (),
        sizes: Sizes | None = None,
    ) -> None:
        """`home` knows of it if it takes anything already; if not, nothing is said until it does."""
        super().__init__(node)
        self.home = home
        self.alternates = [broker for broker in alternates if broker != home]
        self.habits = habits
        self.chance = chance
        self.takes_groups = set(takes)
        self.fresh: set[str] = set()
        self.reader = self._make_reader()
        self.round = 0
        self._sizes = sizes or Sizes()
        self._version = 0
        self._attached = True
        self._attempts = 0
        self._down: set[int] = set()
        # By stream: how far our broker is, as it said, and since when we try to get there.
        self._heard: dict[StreamName, tuple[int, int]] = {}
        self._armed = False
        #: How often it stopped asking for something its broker has, or had.
        self.forgone = 0

    def _make_reader(self) -> Reader:
        return NumberReader(self.takes_topic, Order(self.takes_topic, held_max=self.habits.held_max))

    def takes_topic(self, topic: str) -> bool:
        return not self.takes_groups.isdisjoint(groups_of(topic))

    # -- the application ----------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message | None:
        raise UsageError("node", self.node, "is a subscriber, and only brokers publish", "publish at a broker")

    def subscribe(self, topic: str) -> None:
        if topic not in self.takes_groups and topic not in self.fresh:
            self.fresh.add(topic)
            self._attach()

    def unsubscribe(self, topic: str) -> None:
        self.fresh.discard(topic)
        if topic in self.takes_groups:
            self.takes_groups.discard(topic)
            self.reader.changed()
            self.out.left(topic)
        self._attach()

    # -- packets ------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Notice():
                self._disown(sender)
                if not self.fresh and self.takes_groups == set(packet.groups):
                    self._deliver(self.reader.take(packet, self.round, home=sender == self.home))
                    for stream, position in self.reader.turned_away():
                        self._hear(stream, position)
            case Standing():
                self._disown(sender)
                if sender == self.home and not self.fresh and self.takes_groups == set(packet.groups):
                    self._deliver(self.reader.claim(packet))
                for stream, position in self.reader.behind(packet):
                    self._hear(stream, position)
            case Attached():
                self._begin(sender, packet)
            case _:
                raise ProtocolError(f"subscriber {self.node} got a {packet.kind} from {sender}")
        if self._misses():
            self._arm()

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet)

    def _hear(self, stream: StreamName, position: int) -> None:
        """There is something to ask for. What is said twice, or late, takes nothing back."""
        known, since = self._heard.get(stream, (0, self.round))
        self._heard[stream] = (max(position, known), since)

    def _disown(self, sender: int) -> None:
        if sender != self.home:
            self.out.send(sender, Detach(self._version))

    def _deliver(self, messages: list[Message]) -> None:
        for message in messages:
            self.out.deliver(message)

    # -- the broker ---------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        """Something has changed: say what we take, to whoever is our broker now."""
        self._version += 1
        self._attached = False
        self._attempts = 0
        self.reader.moved()
        self._say()
        self._arm()

    def _say(self) -> None:
        past = tuple([(*stream, position) for stream, position in self.reader.levels().items()])
        groups, fresh = tuple(sorted(self.takes_groups)), tuple(sorted(self.fresh))
        self.out.send(self.home, Attach(self._version, groups, fresh, past, self._resigned))

    @property
    def _resigned(self) -> bool:
        """No broker has all that this subscriber has, and may never have: what could precede that is not taken."""
        return self._attempts > self.habits.patience

    def _begin(self, sender: int, packet: Attached) -> None:
        if sender != self.home or packet.version != self._version or self._attached:
            return
        self._attached = True
        # Those it knows come first; those known before may be the only ones left one day.
        known = dict.fromkeys((*packet.alternates, *self.alternates))
        self.alternates = [broker for broker in known if broker != self.home][:_ALTERNATES_MAX]
        if self.fresh:
            # What was taken already goes on where it is; what is new begins where the broker is.
            floors = [level for level in packet.floors if not self.takes_topic(level[0])]
            fresh, self.fresh = self.fresh, set()
            self.takes_groups |= fresh
            self.reader.changed()
            if self._resigned:
                self.reader.resign()
            for group in sorted(fresh):
                self.out.joined(group)
            self._deliver(self.reader.floors(floors))
            for topic, source, position in packet.floors:
                if position > self.reader.reached((topic, source)):
                    self._hear((topic, source), position)
        self.reader.heard(packet.clock)

    def _move(self) -> bool:
        """To another broker, if there is one."""
        left = [broker for broker in self.alternates if broker not in self._down]
        if not left:
            return False
        old, self.home = self.home, self.chance.choice(left)
        self.alternates = [broker for broker in (*self.alternates, old) if broker != self.home]
        self._attach()
        self.out.send(old, Detach(self._version))
        return True

    def peer_down(self, node: int) -> None:
        self._down.add(node)
        if node == self.home:
            self._move()

    def peer_up(self, node: int) -> None:
        self._down.discard(node)
        if self.home in self._down:
            self._move()
        elif node == self.home:
            self._attach()  # it was away, and may have forgotten us

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self.out.wake_after(self.habits.round_us, _ROUND)

    def _misses(self) -> bool:
        return not self._attached or self.reader.held > 0 or bool(self._heard)

    def wake(self, timer: Hashable) -> None:
        if timer != _ROUND:
            return
        self._armed = False
        self.round += 1
        if not self._attached:
            self._attempts += 1
            if self._attempts <= _ATTEMPTS_MAX or self.fresh or not self._move():
                self._say()
        if self.habits.pull:
            self._pull()
        else:
            self._heard.clear()
        self._deliver(self.reader.give_up(self.round - self.habits.patience, self.round))
        if self._misses():
            self._arm()

    def _pull(self) -> None:
        wants: list[Want] = []
        for stream, (upto, since) in list(self._heard.items()):
            if upto <= self.reader.reached(stream) or not self.takes_topic(stream[0]):
                del self._heard[stream]
            elif self.round - since >= self.habits.patience:
                self.forgone += 1
                del self._heard[stream]
                self._deliver(self.reader.forgo(stream, upto))
        missing = self.reader.missing()
        for stream, (upto, _) in self._heard.items():
            missing[stream] = max(upto, missing.get(stream, 0))
        for (topic, source), upto in missing.items():
            reached = self.reader.reached((topic, source))
            if upto > reached:
                wants.append((topic, source, reached, upto))
        if wants or self.reader.held:
            others = [broker for broker in self.alternates if broker not in self._down]
            elsewhere = wants and others and (self.home in self._down or self.round % 3 == 2)
            target = self.chance.choice(others) if elsewhere else self.home
            self.out.send(target, Pull(tuple(wants), tuple(sorted(self.takes_groups))))

    # -- for those who look on ----------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        return self.reader.held

    @property
    def given_up(self) -> int:
        return self.reader.late + self.reader.given_up + self.forgone

    def takes(self, topic: str) -> bool:
        return topic in self.takes_groups

    def wants(self, topic: str) -> bool:
        return topic in self.takes_groups or topic in self.fresh

    def holding(self) -> list[TopicMessageId]:
        return self.reader.holding()

    def unfinished(self) -> list[str]:
        return [] if self._attached else ["has no broker"]
