"""How a broker comes to a group while others are in it.

A broker relays what its application or one of its subscribers takes, so groups come to it while it runs. It asks the
brokers there are; one that relays the group answers how far it is (`Floor`), which was before the newcomer's time.
Three rules make that right:
* from the moment it asks, messages that name some of the group's wait until it knows where the group begins for it;
* the one that answers has delivered whatever the newcomer's own past names of the group, so nothing that precedes what
  the newcomer has delivered can come later;
* with the answer comes what lies before that point in other groups. Of those it relays the newcomer must deliver it
  before it is *closed*: only then does it tell subscribers where to begin. The rest it tells on.

A group that nobody relays begins when all others have said so. Who is suspected says nothing, and may have what the
newcomer's past names, now or when it is back: without that answer a group begins only for whom nothing of it precedes
anything.

If for too long nobody answers, those who knew have crashed: the newcomer *resigns*, takes any answer or none, and
refuses whatever could precede what it has delivered (`order.Order.resign`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from antecede.core.domain_order import StreamName
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.packets import Ask, Floor, Level

if TYPE_CHECKING:
    from antecede.protocols.gossip.broker import Broker


class Joining:
    """A group that a broker does not know the beginning of: since when, and who has said that it does not relay it."""

    __slots__ = ("answered", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.answered: set[int] = set()


class GroupJoin:
    """A broker's way into groups, and others' way into groups it relays."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.joining: dict[str, Joining] = {}
        # What must be delivered here before subscribers may begin where this broker is.
        self._closing: list[Level] = []
        # The same of groups this broker does not relay: only to be told.
        self._before: dict[StreamName, int] = {}

    @property
    def closed(self) -> bool:
        """May subscribers begin where this broker is?"""
        return not self._closing and not self.joining

    def open(self, groups: Iterable[str]) -> None:
        for group in groups:
            self.joining[group] = Joining(self._broker.round)

    def ask(self) -> None:
        """Everybody who has not answered, about every group."""
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
            return  # not yet: it asks again
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
        # What we see through another group goes on where it is.
        seen = broker.relays.difference(self.joining)
        floors = [entry for entry in packet.levels if seen.isdisjoint(groups_of(entry[0]))]
        for entry in floors:
            broker.note_floor(*entry)
        self._begin(group, tuple([entry[:3] for entry in floors]), packet.frontier)

    def nobody_left(self) -> None:
        """Groups that nobody relays begin now. A suspicion is no answer, but there may be nothing to learn."""
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
        """Of what lies before our beginning we must deliver what is in our groups, and tell on what is not."""
        others = self._broker.relays - {group}
        for topic, source, seq in before:
            if not others.isdisjoint(groups_of(topic)):
                self._closing.append((topic, source, seq))
            elif group not in groups_of(topic):
                self._before[topic, source] = max(seq, self._before.get((topic, source), 0))

    def delivered(self) -> None:
        """The broker has come further."""
        if self._closing:
            reached = self._broker.order.reached
            self._closing = [(t, s, n) for t, s, n in self._closing if reached((t, s)) < n]

    def _begin(self, group: str, floors: tuple[Level, ...], before: tuple[Level, ...]) -> None:
        self.begin_after(group, before)
        del self.joining[group]
        self._broker.begun(group, floors, before)
        self.delivered()

    def _front(self) -> tuple[Level, ...]:
        """What lies before the point where we are, in every group there is."""
        before = [(*stream, seq) for stream, seq in self._before.items()]
        return (*self._broker.clock.entries(), *self._closing, *before)

    def _has_resigned(self, group: str) -> bool:
        """Nobody has answered for too long: who relays the group has not what we have heard of, and may never."""
        return self._broker.round - self.joining[group].since >= self._broker.habits.patience

    def _past(self, group: str) -> tuple[Level, ...]:
        """What precedes something delivered here, of `group`."""
        return tuple([entry for entry in self._broker.clock.entries() if group in groups_of(entry[0])])

    def _silent(self, group: str) -> list[int]:
        """Whom we have not heard of about `group`, suspected or not."""
        broker, answered = self._broker, self.joining[group].answered
        return [other for other in range(broker.brokers) if other != broker.node and other not in answered]
