"""A broker: gossips messages with the other brokers of its groups, orders them, and serves its subscribers.

Rounds are timers of its own. In each it pushes its young messages to `fanout` brokers drawn from its view of their
groups, and every few rounds it compares notes with one of them (`Digest`), which pushes in the one direction and pulls
in the other: push for speed, pull for certainty. What it gets it stores and passes on at once, in any order; what has
had its turn (`order`) goes to its application and to its subscribers (`edge`).

**Coming to a group later.** A broker relays what its application or one of its subscribers takes, so groups come to it
while it runs. It asks the brokers there are; one that relays the group answers how far it is (`Floor`), which was
before the newcomer's time. Three rules make that right:
* from the moment it asks, messages that name some of the group's wait until it knows where the group begins for it;
* the one that answers has delivered whatever the newcomer's own past names of the group, so nothing that precedes what
  the newcomer has delivered can come later;
* with the answer comes what lies before that point in other groups. Of those it relays the newcomer must deliver it
  before it is *closed*: only then does it tell subscribers where to begin. The rest it tells on.

**Rest.** A broker without news for `rest` rounds stops its rounds until something comes. A simulation thus ends, and a
live node (`rest` 0) never does.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar, Final

from antecede.core import Message, MessageId, Packet, Process, ProtocolError, UsageError
from antecede.core.chance import Chance
from antecede.protocols.gossip import records
from antecede.protocols.gossip.edge import Edge
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.habits import Habits
from antecede.protocols.gossip.order import Clock, Order, StreamName
from antecede.protocols.gossip.packets import (
    BUNDLE_BYTES,
    BUNDLE_MAX,
    Ask,
    Attach,
    Detach,
    Digest,
    Floor,
    Level,
    Peer,
    Pull,
    Rumour,
    Spread,
    Want,
)
from antecede.protocols.gossip.sizes import Sizes
from antecede.protocols.gossip.store import Store
from antecede.protocols.gossip.views import Views

_ROUND: Final = "round"
#: Entries of its view a broker tells with each packet, itself not counted.
_PIECE: Final = 2


class Joining:
    """A group that a broker does not know the beginning of: since when, and who has said that it does not relay it."""

    __slots__ = ("answered", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.answered: set[int] = set()


class Broker(Process):
    """A broker of gossip-context. What gossip-rounds does otherwise is in `rounds`."""

    reports_membership: ClassVar[bool] = True

    def __init__(
        self,
        node: int,
        brokers: int,
        habits: Habits,
        chance: Chance,
        clock: Clock,
        *,
        takes: Iterable[str] = (),
        peers: Iterable[Peer] = (),
        subscribers: Mapping[int, frozenset[str]] | None = None,
        edge: type[Edge] = Edge,
    ) -> None:
        """`takes`: the groups of its application. `peers`: whom it may know of. `subscribers`: its first ones."""
        super().__init__(node)
        self.brokers = brokers
        self.habits = habits
        self.chance = chance
        self.takes_groups = set(takes)
        self.edge = edge(self, subscribers or {})
        #: Groups it relays, and those among them for which it does not know yet where they begin.
        self.relays = self.takes_groups.union(*(subscribers or {}).values())
        self.joining: dict[str, Joining] = {}
        self.views = Views(node, habits.view, chance)
        self.views.learn(peers, self.relays)
        self.store = Store(young=habits.young, retain=habits.retain, capacity=habits.store_max)
        self.clock = clock
        self.order = Order(self.relays_topic, held_max=habits.held_max, clock=clock)
        #: Lamport's clock, and by stream the clock of what was last delivered.
        self.time = 0
        self.times: dict[StreamName, int] = {}
        self.round = 0
        self._sizes = Sizes()
        self._version = 0
        self._seq: dict[str, int] = {}
        # By stream: how far somebody else is, as he said.
        self._heard: dict[StreamName, int] = {}
        # What must be delivered here before others may begin where this broker is.
        self._closing: list[Level] = []
        # The same of groups this broker does not relay: only to be told.
        self._before: dict[StreamName, int] = {}
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
        """Groups it may address, one or several at a time."""
        return sorted(self.relays.difference(self.joining))

    def subscribe(self, topic: str) -> None:
        if topic in self.takes_groups or topic in self._asked_for:
            return
        if topic in self.relays and topic not in self.joining:
            self._takes(topic)
        else:
            self._asked_for.add(topic)
            self.relay([topic])

    def unsubscribe(self, topic: str) -> None:
        self._asked_for.discard(topic)
        if topic in self.takes_groups:
            self.takes_groups.discard(topic)
            self._keep(records.Ended(topic))
            self.out.left(topic)

    def _check_topic(self, topic: str) -> None:
        groups = groups_of(topic)
        if not groups <= self.relays or not groups.isdisjoint(self.joining):
            raise UsageError("topic", topic, f"broker {self.node} is not in all of its groups", "subscribe first")

    def _publish(self, topic: str, payload: bytes, *, later: bool = False) -> Message:
        """`later` than it was asked for."""
        seq = self._seq.get(topic, 0) + 1
        self._seq[topic] = seq
        deps, across = self.clock.stamp(topic, seq)
        message = Message(topic, self.node, seq, deps, payload, across)
        rumour = Rumour(message, self.time)
        self.order.own(message)
        self._note(rumour)
        self.store.add(rumour, self.round)
        self._keep(records.Published(rumour))
        if later:
            self.out.published(message)
        self.out.deliver(message)
        self.edge.announce([rumour])
        self.wake_up()
        return message

    # -- packets ------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Spread():
                self._learn(packet.peers)
                self._take(packet.rumours)
            case Digest():
                self._learn(packet.peers)
                self._compare(sender, packet)
            case Pull():
                if packet.groups:
                    self.edge.pulled(sender, packet)
                else:
                    self._send_rumours(sender, self._wanted(packet.wants))
            case Ask():
                self._asked(sender, packet)
            case Floor():
                self._begins(packet)
            case Attach():
                self.edge.attach(sender, packet)
            case Detach():
                self.edge.detach(sender, packet)
            case _:
                raise ProtocolError(f"broker {self.node} got a {packet.kind} from {sender}, which is not for brokers")

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet)

    def _take(self, rumours: Iterable[Rumour]) -> None:
        delivered: list[Rumour] = []
        for rumour in rumours:
            message = rumour.message
            if not self.relays_topic(message.topic) or self.has(message):
                continue
            overflow, late = self.order.overflow, self.order.late
            delivered += self.order.offer(rumour, self.round)
            if self.order.overflow == overflow and self.order.late == late:
                self.store.add(rumour, self.round)
            self.wake_up()
        self.deliver(delivered)

    def has(self, message: Message) -> bool:
        stream = (message.topic, message.source)
        return message.seq <= self.order.reached(stream) or self.order.holds(message.id)

    def deliver(self, rumours: list[Rumour]) -> None:
        """These have had their turn."""
        if not rumours:
            return
        for rumour in rumours:
            message = rumour.message
            self._note(rumour)
            self._keep(records.Delivered(rumour))
            if not self.takes_groups.isdisjoint(groups_of(message.topic)):
                self.out.deliver(message)
        self.edge.announce(rumours)
        if self._closing:
            self._close()

    def _note(self, rumour: Rumour) -> None:
        """It is part of this broker's past from now on."""
        self.time = max(self.time, rumour.clock)
        self.times[rumour.message.topic, rumour.message.source] = rumour.clock

    # -- rounds -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.order.levels():  # it was here before: so that others know it again
            for broker in range(self.brokers):
                if broker != self.node and broker not in self.views.down:
                    self.out.send(broker, Spread((), (self.peer,)))
            self.wake_up()
        if not self.habits.rest:
            self.wake_up()

    def wake_up(self) -> None:
        """There is news: rounds go on."""
        self._news = self.round
        self._arm()

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self.out.wake_after(self.habits.round_us, _ROUND)

    def wake(self, timer: Hashable) -> None:
        if timer != _ROUND:
            return
        self._armed = False
        self.round += 1
        habits = self.habits
        self._begin_round()
        self.store.expire(self.round)
        self._push()
        if self.joining:
            self._ask()
        if habits.pull:
            self._pull()
            if self.round % habits.compare == 0:
                self._send_digest()
                self.edge.compare()
        floor = self.order.clock_floor
        passed = self.order.give_up(self.round - habits.patience, self.round)
        if self.order.clock_floor > floor:
            self._keep(records.GaveUp(self.order.clock_floor))
        self.deliver(passed)
        if not habits.rest or self.joining or self.order.held or self.round - self._news < habits.rest:
            self._arm()

    def _begin_round(self) -> None:
        """For versions in which rounds mean more."""

    def _push(self) -> None:
        """Young messages to a few brokers drawn anew for each topic, one packet for each of them."""
        by_topic: dict[str, list[Rumour]] = {}
        for rumour in self.store.young:
            by_topic.setdefault(rumour.message.topic, []).append(rumour)
        by_target: dict[int, list[Rumour]] = {}
        for topic, rumours in by_topic.items():
            for target in self.views.targets(groups_of(topic), self.habits.fanout):
                by_target.setdefault(target, []).extend(rumours)
        for target, rumours in by_target.items():
            self._send_rumours(target, rumours)

    def _send_rumours(self, to: int, rumours: list[Rumour]) -> None:
        peers = self._piece() if self.round % self.habits.compare == 0 else ()  # views need not be mixed so often
        for part in bundled(rumours):
            self.out.send(to, Spread(part, peers))

    def _pull(self) -> None:
        """Ask somebody for what is missing, each stream of somebody drawn anew."""
        wanted = dict(self._heard)
        for stream, upto in self.order.missing().items():
            wanted[stream] = max(upto, wanted.get(stream, 0))
        by_target: dict[int, list[Want]] = {}
        for (topic, source), upto in wanted.items():
            reached = self.order.reached((topic, source))
            if reached >= upto or not self.relays_topic(topic):
                self._heard.pop((topic, source), None)
                continue
            for target in self.views.targets(groups_of(topic), 1):
                by_target.setdefault(target, []).append((topic, source, reached, upto))
        for target, wants in by_target.items():
            self.out.send(target, Pull(tuple(wants)))

    def _wanted(self, wants: Iterable[Want]) -> list[Rumour]:
        found: list[Rumour] = []
        for topic, source, after, upto in wants:
            found += [rumour for rumour in self.store.stream(topic, source) if after < rumour.message.seq <= upto]
        return found[: self.habits.burst]

    def _send_digest(self) -> None:
        for target in self.views.targets(self.relays, 1):
            self.out.send(target, Digest(self._levels_for(self.views.groups(target)), self._piece()))

    def _levels_for(self, groups: frozenset[str]) -> tuple[Level, ...]:
        return tuple(
            [
                (topic, source, reached)
                for (topic, source), reached in self.order.levels().items()
                if not groups.isdisjoint(groups_of(topic))
            ]
        )

    def _compare(self, sender: int, packet: Digest) -> None:
        """The sender gets what it lacks; what we lack we ask for in the next round."""
        theirs = {(topic, source): reached for topic, source, reached in packet.levels}
        for stream, reached in theirs.items():
            if reached > self.order.reached(stream) and self.relays_topic(stream[0]):
                self._heard[stream] = max(reached, self._heard.get(stream, 0))
                self.wake_up()
        groups = frozenset(next((peer.groups for peer in packet.peers if peer.node == sender), ()))
        lacks = [
            (*stream, theirs.get(stream, 0), reached)
            for stream, reached in self.order.levels().items()
            if reached > theirs.get(stream, 0) and not groups.isdisjoint(groups_of(stream[0]))
        ]
        if lacks:
            self._send_rumours(sender, self._wanted(lacks))

    # -- groups -------------------------------------------------------------------------------------------------------

    @property
    def peer(self) -> Peer:
        return Peer(self.node, self._version, tuple(sorted(self.relays)))

    def _piece(self) -> tuple[Peer, ...]:
        return (self.peer, *self.views.piece(_PIECE))

    def _learn(self, peers: Iterable[Peer]) -> None:
        self.views.learn(peers, self.relays)

    def relay(self, groups: Iterable[str]) -> None:
        """Begin to relay `groups`, if that is not done already."""
        new = sorted({*groups} - self.relays)
        if not new:
            return
        self._version += 1
        for group in new:
            self.relays.add(group)
            self.joining[group] = Joining(self.round)
        self.deliver(self.order.changed(again=True))
        self._ask()
        self.wake_up()

    def _ask(self) -> None:
        for group in list(self.joining):
            past = tuple([entry for entry in self.clock.entries() if group in groups_of(entry[0])])
            silent = self._silent(group)
            resigned = self._has_resigned(group)
            for broker in silent:
                self.out.send(broker, Ask(group, past, self.peer, resigned))
            if not silent:
                self._begin(group, ())  # nobody relays it

    def _has_resigned(self, group: str) -> bool:
        """Nobody has answered for too long: who relays the group has not what we have heard of, and may never."""
        return self.round - self.joining[group].since >= self.habits.patience

    def _silent(self, group: str) -> list[int]:
        """Whom we have not heard of about `group`."""
        answered = self.joining[group].answered
        others = (broker for broker in range(self.brokers) if broker != self.node)
        return [broker for broker in others if broker not in answered and broker not in self.views.down]

    def _asked(self, sender: int, packet: Ask) -> None:
        self._learn([packet.peer])
        group = packet.group
        if group not in self.relays or group in self.joining:
            self.out.send(sender, Floor(group, False, self.peer))
            return
        behind = any(self.order.reached((topic, source)) < n for topic, source, n in packet.past)
        if behind and not packet.resigned:
            return  # not yet: it asks again
        newly = [stream for stream in self.order.levels() if group in groups_of(stream[0])]
        levels = tuple([(*stream, self.order.reached(stream), self.times.get(stream, 0)) for stream in newly])
        self.out.send(sender, Floor(group, True, self.peer, levels, self._front()))

    def _front(self) -> tuple[Level, ...]:
        """What lies before the point where we are, in every group there is."""
        before = [(*stream, seq) for stream, seq in self._before.items()]
        return (*self.clock.entries(), *self._closing, *before)

    def _begins(self, packet: Floor) -> None:
        self._learn([packet.peer])
        group = packet.group
        if group not in self.joining:
            return
        if packet.relays:
            if self._has_resigned(group):
                self._resign()
            # What we see through another group goes on where it is.
            seen = self.relays.difference(self.joining)
            floors = [entry for entry in packet.levels if seen.isdisjoint(groups_of(entry[0]))]
            for entry in floors:
                self._note_floor(*entry)
            self._begin(group, tuple([entry[:3] for entry in floors]), packet.frontier)
        else:
            self.joining[group].answered.add(packet.peer.node)
            if not self._silent(group):
                self._begin(group, ())

    def _begin(self, group: str, floors: tuple[Level, ...], before: tuple[Level, ...] = ()) -> None:
        """`before`: what lies before the point where we begin, in other groups."""
        self._begin_after(group, before)
        del self.joining[group]
        takes = group in self._asked_for
        self._keep(records.Began(group, takes, floors, before))
        if takes:
            self._takes(group, kept=True)
        self.deliver(self.order.floors(floors))
        self._close()
        self.wake_up()

    def _note_floor(self, topic: str, source: int, seq: int, time: int) -> None:
        self.times[topic, source] = max(time, self.times.get((topic, source), 0))

    def _resign(self) -> None:
        self.order.resign(self.time)
        self._keep(records.GaveUp(self.time))

    def _begin_after(self, group: str, before: tuple[Level, ...]) -> None:
        """Of what lies before our beginning we must deliver what is in our groups, and tell on what is not."""
        others = self.relays - {group}
        for topic, source, seq in before:
            if not others.isdisjoint(groups_of(topic)):
                self._closing.append((topic, source, seq))
            elif group not in groups_of(topic):
                self._before[topic, source] = max(seq, self._before.get((topic, source), 0))

    def _takes(self, group: str, *, kept: bool = False) -> None:
        self._asked_for.discard(group)
        self.takes_groups.add(group)
        if not kept:
            self._keep(records.Began(group, True))
        self.out.joined(group)

    def _close(self) -> None:
        self._closing = [(t, s, n) for t, s, n in self._closing if self.order.reached((t, s)) < n]

    @property
    def closed(self) -> bool:
        """May others begin where this broker is?"""
        return not self._closing and not self.joining

    # -- who is up ----------------------------------------------------------------------------------------------------

    def peer_down(self, node: int) -> None:
        self.views.forget(node)
        self.edge.gone(node)
        for group in list(self.joining):
            if not self._silent(group):
                self._begin(group, ())

    def peer_up(self, node: int) -> None:
        self.views.trust(node, self.relays)
        if node < self.brokers and self.relays:
            self.out.send(node, Spread((), self._piece()))  # so that it knows us
            self.wake_up()

    # -- across a crash -----------------------------------------------------------------------------------------------

    def _keep(self, record: records.Kept) -> None:
        if self.habits.durable:
            self.out.keep(record)

    def restore(self, records_kept: Iterable[object]) -> None:
        for record in records_kept:
            match record:
                case records.Published() | records.Delivered():
                    self._replay(record.rumour)
                case records.Began():
                    self.relays.add(record.group)
                    if record.takes:
                        self.takes_groups.add(record.group)
                    self.order.floors(record.floors)
                    self._begin_after(record.group, record.before)
                case records.Ended():
                    self.takes_groups.discard(record.group)
                case records.GaveUp():
                    self.order.clock_floor = record.clock
                case records.Reached():
                    self._restore_summary(record)
        self._version = len(self.relays)
        self._close()

    def _replay(self, rumour: Rumour) -> None:
        message = rumour.message
        if message.source == self.node:
            self._seq[message.topic] = message.seq
        self.order.replay(message, own=message.source == self.node)
        self._note(rumour)
        self.store.add(rumour, 0, push=False)

    def _restore_summary(self, record: records.Reached) -> None:
        self.order.floors(record.levels)
        self.time = max(self.time, record.clock)
        for topic, source, seq in record.levels:
            if source == self.node:
                self._seq[topic] = max(seq, self._seq.get(topic, 0))
        self.clock.merge(record.frontier)

    # -- for those who look on ----------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        return self.order.held

    def holding(self) -> list[MessageId]:
        return self.order.holding()

    def unfinished(self) -> list[str]:
        return [f"does not know where {group} begins" for group in self.joining]


def bundled(rumours: list[Rumour]) -> list[tuple[Rumour, ...]]:
    """As many to a packet as it may hold."""
    parts: list[tuple[Rumour, ...]] = []
    filling: list[Rumour] = []
    size = 0
    for rumour in rumours:
        weight = len(rumour.message.payload)
        if filling and (len(filling) == BUNDLE_MAX or size + weight > BUNDLE_BYTES):
            parts.append(tuple(filling))
            filling, size = [], 0
        filling.append(rumour)
        size += weight
    if filling:
        parts.append(tuple(filling))
    return parts
