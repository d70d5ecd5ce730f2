"""A subscriber: has a home broker, orders what comes from it, pulls what it misses, and may move.

It takes whole groups and never publishes (in the paper brokers are the publishers). Packets may come twice, late or
never. Gaps show by sequence number, and a missing tail by the broker's occasional `Standing`. The subscriber pulls
missing messages in every round, from the home broker first and from others in turn.

**Moving.** When its broker is suspected, or the subscriber has moved out of reach, it turns to another broker and says
how far it is in each stream. The new broker sends what came since. No message is delivered twice, since positions at or
below that are duplicates wherever they come from. The old broker is told, again if it continues to send.

**Joining a group.** The broker answers where the group begins, once it has delivered everything that this subscriber
has in all groups it ever took. Meanwhile the subscriber takes nothing. So no predecessor of a message delivered here
can come later. Copies made for its former groups are refused when they arrive: they name no predecessors in the new
one.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar, Final, Protocol

from antecede.core import Message, Packet, Process, ProtocolError, TopicMessageId, UsageError
from antecede.core.domain_order import StreamName
from antecede.core.native import mypyc_attr
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
#: After so many unanswered attempts a broker is taken for failed.
_ATTEMPTS_MAX: Final = 12
#: How many other brokers a subscriber remembers.
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
    """Orders by named predecessors: the brokers' order, without a clock to stamp."""

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
        return []  # gaps show by number, and `Subscriber` pulls what is missing

    def behind(self, standing: Standing) -> list[tuple[StreamName, int]]:
        """Streams in which the broker is further than this subscriber, and how far."""
        reached, takes = self._order.level, self._takes
        return [
            ((topic, source), n)
            for topic, source, n in standing.levels
            if n > reached.get((topic, source), 0) and takes(topic)
        ]

    def floors(self, levels: Iterable[tuple[str, int, int]]) -> list[Message]:
        return _messages(self._order.floors(levels))

    def forgo(self, stream: StreamName, upto: int) -> list[Message]:
        return []  # messages that wait for it are given up in their turn

    def changed(self) -> None:
        self._order.changed(again=False)

    def moved(self) -> None:
        """The sender of a message does not matter."""

    def give_up(self, since: int, now: int) -> list[Message]:
        return _messages([rumour for step in self._order.give_up(since, now) for rumour in step])

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


@mypyc_attr(allow_interpreted_subclasses=True)
class Subscriber(Process):
    """A node that takes groups through a broker."""

    reports_membership: ClassVar[bool] = True

    def __init__(
        self, node: int, home: int, alternates: Sequence[int], config: GossipConfig, rng: Rng, *, takes: Iterable[str]
    ) -> None:
        """`home` knows this subscriber if it takes anything already; otherwise nothing is sent until it does."""
        super().__init__(node)
        self.home = home
        self.alternates = [broker for broker in alternates if broker != home]
        self.config = config
        self.rng = rng
        self.takes_groups = set(takes)
        self.fresh: set[str] = set()
        self.reader = self._make_reader()
        self.round = 0
        self._sizes = Sizes()
        self._version = 0
        self._attached = True
        self._attempts = 0
        self._down: set[int] = set()
        # By stream: how far the broker said that it is, and the round since which this subscriber tries to get there.
        self._heard: dict[StreamName, tuple[int, int]] = {}
        self._armed = False
        #: How often it stopped asking for something that its broker has, or had.
        self.forgone = 0

    def _make_reader(self) -> Reader:
        return NumberReader(self.takes_topic, Order(self.takes_topic, held_max=self.config.held_max))

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
        """Note that there is something to pull. An older or repeated report changes nothing."""
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
        """Tell the present broker what this subscriber takes, after a change."""
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
        """No broker has all that this subscriber has: it refuses messages that could precede it."""
        return self._attempts > self.config.patience

    def _begin(self, sender: int, packet: Attached) -> None:
        if sender != self.home or packet.version != self._version or self._attached:
            return
        self._attached = True
        # Brokers named by the new broker come first. Those known before may be the only ones left some day.
        known = dict.fromkeys((*packet.alternates, *self.alternates))
        self.alternates = [broker for broker in known if broker != self.home][:_ALTERNATES_MAX]
        if self.fresh:
            # Streams taken already continue where they are; new ones begin where the broker is.
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
        """Move to another broker, if there is one."""
        left = [broker for broker in self.alternates if broker not in self._down]
        if not left:
            return False
        old, self.home = self.home, self.rng.choice(left)
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
            self._attach()  # it was down, and may have lost this subscriber

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self.out.wake_after(self.config.round_us, _ROUND)

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
        if self.config.pull:
            self._pull()
        else:
            self._heard.clear()
        self._deliver(self.reader.give_up(self.round - self.config.patience, self.round))
        if self._misses():
            self._arm()

    def _pull(self) -> None:
        wants: list[Want] = []
        for stream, (upto, since) in list(self._heard.items()):
            if upto <= self.reader.reached(stream) or not self.takes_topic(stream[0]):
                del self._heard[stream]
            elif self.round - since >= self.config.patience:
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
            target = self.rng.choice(others) if elsewhere else self.home
            self.out.send(target, Pull(tuple(wants), tuple(sorted(self.takes_groups))))

    # -- questions ----------------------------------------------------------------------------------------------------

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
