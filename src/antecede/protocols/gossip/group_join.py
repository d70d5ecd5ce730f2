"""How a broker joins a group that other brokers already relay.

A broker relays the groups that its application or one of its subscribers takes, so groups come to it while it runs. It
asks the other brokers. A broker that relays the group answers how far it is (`Floor`); messages up to there predate the
join. Three rules keep causal order:
* From the moment it asks, messages that depend on the group wait until it knows where the group begins for it.
* The broker that answers has delivered every message of the group that the newcomer's past depends on. So no
  predecessor of a message delivered by the newcomer can come later.
* The answer also says what precedes that point in other groups. Before the newcomer tells subscribers where to begin,
  it must deliver those messages of the groups it relays; only then is it *closed*. It passes on the other entries.

A group that no broker relays begins when all other brokers have said so. A suspected broker cannot answer, but it may
hold messages that the newcomer's past depends on. Without its answer, the group begins only if nothing delivered here
depends on it.

If no broker answers for too long, the brokers that knew the group have crashed. The newcomer then *resigns*: it accepts
any answer or none, and refuses messages that could precede what it has delivered (`order.Order.resign`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from antecede.core.domain_order import StreamName
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.packets import Ask, Floor, Level

if TYPE_CHECKING:
    from antecede.protocols.gossip.broker import Broker


class Joining:
    """A group whose beginning is unknown: since which round, and which brokers said that they do not relay it."""

    __slots__ = ("answered", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.answered: set[int] = set()


class GroupJoin:
    """A broker's joins of groups, and its answers to brokers that join groups it relays."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.joining: dict[str, Joining] = {}
        # What must be delivered here before subscribers may begin where this broker is.
        self._closing: list[Level] = []
        # The same of groups that this broker does not relay, to be passed on.
        self._before: dict[StreamName, int] = {}

    @property
    def closed(self) -> bool:
        """May subscribers begin where this broker is?"""
        return not self._closing and not self.joining

    def open(self, groups: Iterable[str]) -> None:
        for group in groups:
            self.joining[group] = Joining(self._broker.round)

    def ask(self) -> None:
        """Ask every broker that has not answered about every group."""
        broker = self._broker
        for group in list(self.joining):
            past = self._past(group)
            for other in self._silent(group):
                if other not in broker.views.down:
                    broker.out.send(other, Ask(group, past, broker.peer, self._has_resigned(group)))
        self.nobody_left()

    def asked(self, sender: int, packet: Ask) -> None:
        broker = self._broker
        broker.learn([packet.peer])
        group = packet.group
        if group not in broker.relays or group in self.joining:
            broker.out.send(sender, Floor(group, False, broker.peer))
            return
        order = broker.order
        behind = any(order.reached((topic, source)) < n for topic, source, n in packet.past)
        if behind and not packet.resigned:
            return  # not yet: the newcomer asks again
        streams = [stream for stream in order.levels() if group in groups_of(stream[0])]
        levels = tuple([(*stream, order.reached(stream), broker.times.get(stream, 0)) for stream in streams])
        broker.out.send(sender, Floor(group, True, broker.peer, levels, self._front()))

    def answered(self, packet: Floor) -> None:
        broker = self._broker
        broker.learn([packet.peer])
        group = packet.group
        if group not in self.joining:
            return
        if not packet.relays:
            self.joining[group].answered.add(packet.peer.node)
            self.nobody_left()
            return
        if self._has_resigned(group):
            broker.resign()
        # Streams that this broker sees through another group continue where they are.
        seen = broker.relays.difference(self.joining)
        floors = [entry for entry in packet.levels if seen.isdisjoint(groups_of(entry[0]))]
        for entry in floors:
            broker.note_floor(*entry)
        self._begin(group, tuple([entry[:3] for entry in floors]), packet.frontier)

    def nobody_left(self) -> None:
        """Begin groups that no broker relays. Suspected brokers cannot answer, but there may be nothing to learn."""
        down = self._broker.views.down
        for group in list(self.joining):
            silent = self._silent(group)
            if not down.issuperset(silent):
                continue
            if silent and self._past(group):
                if not self._has_resigned(group):
                    continue
                self._broker.resign()
            self._begin(group, (), ())

    def begin_after(self, group: str, before: Iterable[Level]) -> None:
        """Entries that precede the beginning of `group`: deliver those of groups relayed here, pass on the others."""
        others = self._broker.relays - {group}
        for topic, source, seq in before:
            if not others.isdisjoint(groups_of(topic)):
                self._closing.append((topic, source, seq))
            elif group not in groups_of(topic):
                self._before[topic, source] = max(seq, self._before.get((topic, source), 0))

    def delivered(self) -> None:
        """The broker has delivered messages."""
        if self._closing:
            reached = self._broker.order.reached
            self._closing = [(t, s, n) for t, s, n in self._closing if reached((t, s)) < n]

    def _begin(self, group: str, floors: tuple[Level, ...], before: tuple[Level, ...]) -> None:
        self.begin_after(group, before)
        del self.joining[group]
        self._broker.begun(group, floors, before)
        self.delivered()

    def _front(self) -> tuple[Level, ...]:
        """The entries of every group that precede the point where this broker is."""
        before = [(*stream, seq) for stream, seq in self._before.items()]
        return (*self._broker.clock.entries(), *self._closing, *before)

    def _has_resigned(self, group: str) -> bool:
        """No usable answer came for too long: brokers of the group may never have what this one knows of."""
        return self._broker.round - self.joining[group].since >= self._broker.config.patience

    def _past(self, group: str) -> tuple[Level, ...]:
        """The messages of `group` on which messages delivered here depend."""
        return tuple([entry for entry in self._broker.clock.entries() if group in groups_of(entry[0])])

    def _silent(self, group: str) -> list[int]:
        """The brokers that have not answered about `group`, suspected or not."""
        broker, answered = self._broker, self.joining[group].answered
        return [other for other in range(broker.brokers) if other != broker.node and other not in answered]
