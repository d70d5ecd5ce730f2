"""A broker: gossips messages with the other brokers of its groups, orders them, and serves its subscribers.

A timer starts its rounds. In each round the broker pushes its young messages to `fanout` brokers drawn from its view of
their groups. Every few rounds it exchanges a `Digest` with one of them, after which each sends what the other lacks.
Push is fast; digests and pulls make delivery certain. The broker stores and forwards a message as soon as it arrives;
once the message is in order (`order`), it goes to the application and to the subscribers (`subscriber_sessions`).

A broker without news for `rest` rounds stops its rounds until a packet comes, so that a simulation ends. A live node
(`rest` 0) never stops.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from antecede.core import Message, Packet, Process, ProtocolError, TopicMessageId, UsageError
from antecede.core.clocks import DomainClock
from antecede.core.domain_order import StreamName
from antecede.core.native import mypyc_attr
from antecede.core.process import Missing
from antecede.core.rng import Rng
from antecede.protocols.bundling import in_packets
from antecede.protocols.gossip import records
from antecede.protocols.gossip.catching_up import CatchingUp
from antecede.protocols.gossip.config import GossipConfig
from antecede.protocols.gossip.digests import Digests
from antecede.protocols.gossip.group_join import GroupJoin
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.order import Order
from antecede.protocols.gossip.packets import (
    BUNDLE_BYTES,
    BUNDLE_MAX,
    Ask,
    Attach,
    Detach,
    Digest,
    Fetch,
    Fetched,
    Floor,
    Level,
    Peer,
    Pull,
    Rumour,
    Spread,
)
from antecede.protocols.gossip.pulling import Pulling
from antecede.protocols.gossip.restoring import compact, restore
from antecede.protocols.gossip.sizes import Sizes
from antecede.protocols.gossip.store import Store
from antecede.protocols.gossip.subscriber_sessions import SubscriberSessions
from antecede.protocols.gossip.views import Views

_ROUND: Final = "round"
#: How many entries of its view a broker adds to a packet, beside its own.
_PIECE: Final = 2


class Founding(NamedTuple):
    """What a broker has from the beginning."""

    #: Groups of its application.
    takes: frozenset[str] = frozenset()
    #: Brokers it may know.
    peers: Sequence[Peer] = ()
    #: By subscriber: its groups.
    subscribers: Mapping[int, frozenset[str]] = {}


#: Of a broker that has nothing.
NEW: Final = Founding()


@mypyc_attr(allow_interpreted_subclasses=True)
class Broker(Process):
    """A broker of gossip-context. `rounds` has the differences of gossip-rounds."""

    reports_membership: ClassVar[bool] = True

    def __init__(
        self,
        node: int,
        brokers: int,
        config: GossipConfig,
        rng: Rng,
        clock: DomainClock,
        founding: Founding = NEW,
        *,
        sessions: type[SubscriberSessions] = SubscriberSessions,
        logged: bool = False,
    ) -> None:
        """`logged`: the driver has a log of what is delivered here and reads it when asked (`Outbox.look_up`)."""
        super().__init__(node)
        self.reads_log = logged
        self.brokers = brokers
        self.config = config
        self.rng = rng
        self.takes_groups = set(founding.takes)
        self.sessions = sessions(self, founding.subscribers)
        #: Groups it relays. Of some it may not know yet where they begin.
        self.relays = self.takes_groups.union(*founding.subscribers.values())
        self.group_join = GroupJoin(self)
        self.views = Views(node, config.view, rng)
        self.views.learn(founding.peers, self.relays)
        self.store = Store(
            young=config.young, retain=config.retain, capacity=config.store_max, bytes_max=config.store_bytes_max
        )
        self.clock = clock
        self.order = Order(self.relays_topic, held_max=config.held_max, clock=clock)
        #: The Lamport clock; and by stream, the clock of the last message delivered.
        self.time = 0
        self.times: dict[StreamName, int] = {}
        #: By stream: the sequence number after which this broker's present session on it begins.
        self.begins: dict[StreamName, int] = {}
        #: By topic: the sequence number of this broker's last message.
        self.last_seqs: dict[str, int] = {}
        self.round = 0
        self.digests = Digests(self)
        self.pulling = Pulling(self)
        self.catching_up = CatchingUp(self)
        self._sizes = Sizes()
        #: Counts the changes of its groups.
        self.version = 0
        self._asked_for: set[str] = set()
        self._news = 0
        self._armed = False

    def relays_topic(self, topic: str) -> bool:
        return not self.relays.isdisjoint(groups_of(topic))

    # -- the application ----------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message | None:
        self._check_topic(topic)
        self.time += 1
        return self._publish(topic, payload)

    def may_publish(self) -> list[str]:
        """The groups to which it may publish, one or several at a time."""
        return sorted(self.relays.difference(self.group_join.joining))

    def subscribe(self, topic: str) -> None:
        if topic in self.takes_groups or topic in self._asked_for:
            return
        if topic in self.relays and topic not in self.group_join.joining:
            self._takes(topic)
        else:
            self._asked_for.add(topic)
            self.relay([topic])

    def unsubscribe(self, topic: str) -> None:
        self._asked_for.discard(topic)
        if topic in self.takes_groups:
            self.takes_groups.discard(topic)
            self.keep(records.Ended(topic))
            self.out.left(topic)

    def _check_topic(self, topic: str) -> None:
        groups = groups_of(topic)
        if not groups <= self.relays or not groups.isdisjoint(self.group_join.joining):
            raise UsageError("topic", topic, f"broker {self.node} is not in all of its groups", "subscribe first")

    def _publish(self, topic: str, payload: bytes, *, later: bool = False) -> Message:
        """Stamp and send a message; `later`: it had to wait, so its stamping is reported."""
        seq = self.last_seqs.get(topic, 0) + 1
        self.last_seqs[topic] = seq
        deps, across = self.clock.stamp(topic, seq)
        message = Message(topic, self.node, seq, deps, payload, across)
        rumour = Rumour(message, self.time)
        self.order.own(message)
        self._note(rumour)
        self.store.add(rumour, self.round)
        self.keep(records.Published(rumour))
        if later:
            self.out.published(message)
        self.out.deliver(message)
        self.sessions.announce([rumour])
        self.wake_up()
        return message

    # -- packets ------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Spread():
                if not packet.rumours:
                    self.digests.greeted(sender, packet)
                self.learn(packet.peers)
                self._take(packet.rumours)
            case Digest():
                self.learn(packet.peers)
                self.digests.compare(sender, packet)
            case Pull():
                if packet.groups:
                    self.sessions.pulled(sender, packet)
                else:
                    self.send_rumours(sender, self.pulling.wanted(packet.wants))
            case Fetch() | Fetched():
                self.catching_up.receive(sender, packet)
            case Ask():
                self.group_join.asked(sender, packet)
            case Floor():
                self.group_join.answered(packet)
            case Attach():
                self.sessions.attach(sender, packet)
            case Detach():
                self.sessions.detach(sender, packet)
            case _:
                raise ProtocolError(f"broker {self.node} got a {packet.kind} from {sender}, which is not for brokers")

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet)

    def _take(self, rumours: Iterable[Rumour], *, old: bool = False) -> None:
        """Take messages in; `old`: this broker has fetched them, so there is no news to tell others."""
        delivered: list[Rumour] = []
        for rumour in rumours:
            message = rumour.message
            if not self.relays_topic(message.topic) or self.has(message):
                continue
            stream = (message.topic, message.source)
            if not old and self.catching_up.crowded and message.seq != self.order.reached(stream) + 1:
                self.pulling.hear(stream, message.seq)
                continue
            overflow, late = self.order.overflow, self.order.late
            delivered += self.order.offer(rumour, self.round)
            if self.order.late > late:
                self.tell_gap()
            elif self.order.overflow == overflow and rumour.clock:
                self.store.add(rumour, self.round, push=not old)
            self.wake_up()
        for stream, seq in self.order.turned_away():
            self.pulling.hear(stream, seq)
        self.deliver(delivered)

    def take_old(self, packet: Fetched) -> None:
        """Take messages that another broker may have read from its log. Its clock is not lower than theirs."""
        self._take(packet.rumours, old=True)
        if packet.rumours and not packet.rumours[-1].clock and packet.clock > self.time:
            self.time = packet.clock
            self.keep(records.Reached((), (), self.time))

    def has(self, message: Message) -> bool:
        stream = (message.topic, message.source)
        return message.seq <= self.order.reached(stream) or self.order.holds(message.id)

    def deliver(self, rumours: list[Rumour]) -> None:
        """Give messages that are in order to the application and the subscribers."""
        if not rumours:
            return
        for rumour in rumours:
            message = rumour.message
            self._note(rumour)
            self.keep(records.Delivered(rumour))
            if not self.takes_groups.isdisjoint(groups_of(message.topic)):
                self.out.deliver(message)
        self.sessions.announce(rumours)
        self.group_join.delivered()

    def _note(self, rumour: Rumour) -> None:
        """Count a message as part of this broker's past."""
        self.time = max(self.time, rumour.clock)
        if rumour.clock:
            self.times[rumour.message.topic, rumour.message.source] = rumour.clock

    # -- rounds -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.order.levels():  # it was here before a crash: make itself known again
            for broker in range(self.brokers):
                if broker != self.node and broker not in self.views.down:
                    self.out.send(broker, Spread((), (self.peer,)))
            self.wake_up()
        if not self.config.rest:
            self.wake_up()

    def wake_up(self) -> None:
        """There is news: continue the rounds."""
        self._news = self.round
        self._arm()

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self.out.wake_after(self.config.round_us, _ROUND)

    def wake(self, timer: Hashable) -> None:
        if timer != _ROUND:
            return
        self._armed = False
        self.round += 1
        config = self.config
        self._begin_round()
        self.store.expire(self.round)
        self._push()
        self.sessions.repeat()
        if self.group_join.joining:
            self.group_join.ask()
        if config.pull:
            self.pulling.pull()
            self.catching_up.tick()
            if self.round % config.compare == 0:
                self.digests.send()
                self.sessions.compare()
            if self.round % (2 * config.compare) == 0:
                self.digests.greet()
        if not self.reads_log:
            self._give_up()
        busy = self.group_join.joining or self.order.held or self.catching_up.active
        if not config.rest or busy or self.round - self._news < config.rest:
            self._arm()

    def _begin_round(self) -> None:
        """For gossip-rounds."""

    def _give_up(self) -> None:
        floor = self.order.clock_floor
        steps = self.order.give_up(self.round - self.config.patience, self.round)
        if self.order.clock_floor > floor:
            self.keep(records.GaveUp(self.order.clock_floor))
        for passed in steps:
            self.tell_gap()
            self.deliver(passed)

    def tell_gap(self) -> None:
        """This broker goes on without a message. The simulator counts that (`given_up`); a live node tells readers."""

    def _push(self) -> None:
        """Push young messages, to brokers drawn anew for each topic, in one packet for each broker."""
        by_topic: dict[str, list[Rumour]] = {}
        for rumour in self.store.young:
            by_topic.setdefault(rumour.message.topic, []).append(rumour)
        by_target: dict[int, list[Rumour]] = {}
        for topic, rumours in by_topic.items():
            for target in self.views.targets(groups_of(topic), self.config.fanout):
                if self.catching_up.serves(target):
                    continue  # it is far behind and could only hold them
                by_target.setdefault(target, []).extend(rumours)
        for target, rumours in by_target.items():
            self.send_rumours(target, rumours)

    def send_rumours(self, to: int, rumours: list[Rumour]) -> None:
        peers = self.piece() if self.round % self.config.compare == 0 else ()  # views need not be mixed so often
        for part in in_packets(rumours, BUNDLE_BYTES, _payload_bytes, count_max=BUNDLE_MAX):
            self.out.send(to, Spread(part, peers))

    # -- groups -------------------------------------------------------------------------------------------------------

    @property
    def peer(self) -> Peer:
        return Peer(self.node, self.version, tuple(sorted(self.relays)))

    def piece(self) -> tuple[Peer, ...]:
        return (self.peer, *self.views.piece(_PIECE))

    def learn(self, peers: Iterable[Peer]) -> None:
        self.views.learn(peers, self.relays)

    def relay(self, groups: Iterable[str]) -> None:
        """Begin to relay `groups` that are not relayed yet."""
        new = sorted({*groups} - self.relays)
        if new:
            self.version += 1
            self.relays.update(new)
            self.group_join.open(new)
            self.deliver(self.order.changed(again=True))
            self.group_join.ask()
            self.wake_up()

    def begun(self, group: str, floors: tuple[Level, ...], before: tuple[Level, ...]) -> None:
        """It is known where `group` begins for this broker (`group_join`)."""
        takes = group in self._asked_for
        self.keep(records.Began(group, takes, floors, before))
        self.note_begins(floors)
        if takes:
            self._takes(group, kept=True)
        self.deliver(self.order.floors(floors))
        self.wake_up()

    def go_on_behind(self, levels: tuple[Level, ...]) -> None:
        """Go on where another broker is, since no broker has the next message any more (`catching_up`)."""
        reached = self.order.reached
        floors = tuple([(t, s, seq) for t, s, seq in levels if seq > reached((t, s)) and self.relays_topic(t)])
        groups = sorted(self.takes_groups & {group for topic, _, _ in floors for group in groups_of(topic)})
        self.order.given_up += 1
        for group in groups:
            self.keep(records.Began(group, True, floors))
            self.out.left(group)
            self.out.joined(group)
        self.note_begins(floors)
        self.deliver(self.order.floors(floors))
        self.wake_up()

    def note_begins(self, floors: Iterable[Level]) -> None:
        self.begins.update([((topic, source), seq) for topic, source, seq in floors])

    def resign(self) -> None:
        """Go on though predecessors of messages delivered here may never be found."""
        self.order.resign(self.time)
        self.keep(records.GaveUp(self.time))

    def note_floor(self, topic: str, source: int, seq: int, time: int) -> None:
        """This broker begins after message `seq` of this stream, which had this clock."""
        self.times[topic, source] = max(time, self.times.get((topic, source), 0))

    def _takes(self, group: str, *, kept: bool = False) -> None:
        self._asked_for.discard(group)
        self.takes_groups.add(group)
        if not kept:
            self.keep(records.Began(group, True))
        self.out.joined(group)

    # -- suspicions ---------------------------------------------------------------------------------------------------

    def peer_down(self, node: int) -> None:
        self.views.forget(node)
        self.sessions.gone(node)
        self.group_join.nobody_left()

    def peer_up(self, node: int) -> None:
        self.views.trust(node, self.relays)
        if node < self.brokers and self.relays:
            self.out.send(node, Spread((), self.piece()))  # so that it knows this broker
            self.wake_up()

    # -- across a crash -----------------------------------------------------------------------------------------------

    def keep(self, record: records.Kept) -> None:
        if self.config.durable:
            self.out.keep(record)

    def restore(self, records_kept: Iterable[object]) -> None:
        restore(self, records_kept)

    def compact(self, records_kept: Sequence[object]) -> list[object]:
        return compact(self, records_kept)

    def replay(self, rumour: Rumour) -> None:
        """Count a message that this broker published or delivered before a crash."""
        message = rumour.message
        if message.source == self.node:
            self.last_seqs[message.topic] = message.seq
        self.order.replay(message, own=message.source == self.node)
        self._note(rumour)
        if rumour.clock:
            self.store.add(rumour, 0, push=False)

    # -- questions ----------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        return self.order.held

    @property
    def given_up(self) -> int:
        return self.order.late + self.order.given_up

    def takes(self, topic: str) -> bool:
        return topic in self.takes_groups

    def wants(self, topic: str) -> bool:
        return topic in self.takes_groups or topic in self._asked_for

    def last_published(self, topic: str) -> int:
        return self.last_seqs.get(topic, 0)

    def holding(self) -> list[TopicMessageId]:
        return self.order.holding()

    def missing(self) -> list[Missing]:
        return self.catching_up.missing()

    def found(self, topic: str, source: int, first: int, last: int, messages: Sequence[Message]) -> None:
        self.catching_up.found(topic, source, first, last, messages)

    def unfinished(self) -> list[str]:
        return [f"does not know where {group} begins" for group in self.group_join.joining]


def _payload_bytes(rumour: Rumour) -> int:
    return len(rumour.message.payload)
