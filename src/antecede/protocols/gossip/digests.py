"""Digests: two brokers compare how far they are, and each gets what it lacks.

A broker that is not in the view of others is greeted in turn, so that circles of brokers that know only each other find
together.
"""

from typing import TYPE_CHECKING

from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.packets import Digest, Level, Spread

if TYPE_CHECKING:
    from antecede.protocols.gossip.broker import Broker


class Digests:
    """The digests and greetings of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._greetings = 0

    def send(self) -> None:
        """Send a digest to a broker drawn at random."""
        broker = self._broker
        for target in broker.views.targets(broker.relays, 1):
            broker.out.send(target, Digest(self.levels_for(broker.views.groups(target)), broker.piece()))

    def compare(self, sender: int, packet: Digest) -> None:
        """Send the sender what it lacks; what this broker lacks is pulled in the next round.

        Where only the log has what the sender lacks, answer with a digest: the sender will fetch it. A broker that is
        behind in another stream does not answer so, since the sender would answer again.
        """
        broker = self._broker
        theirs = {(topic, source): reached for topic, source, reached in packet.levels}
        behind = False
        for stream, reached in theirs.items():
            if reached > broker.order.reached(stream) and broker.relays_topic(stream[0]):
                behind = True
                broker.pulling.hear(stream, reached)
                broker.wake_up()
        groups = frozenset(next((peer.groups for peer in packet.peers if peer.node == sender), ()))
        lacks = [
            (*stream, theirs.get(stream, 0), reached)
            for stream, reached in broker.order.levels().items()
            if reached > theirs.get(stream, 0) and not groups.isdisjoint(groups_of(stream[0]))
        ]
        if lacks:
            rumours = broker.pulling.wanted(lacks)
            broker.send_rumours(sender, rumours)
            if not rumours and not behind and broker.reads_log:
                broker.out.send(sender, Digest(self.levels_for(groups), (broker.peer,)))

    def levels_for(self, groups: frozenset[str]) -> tuple[Level, ...]:
        """How far this broker is in the streams of `groups`."""
        return tuple(
            [
                (topic, source, reached)
                for (topic, source), reached in self._broker.order.levels().items()
                if not groups.isdisjoint(groups_of(topic))
            ]
        )

    def greet(self) -> None:
        """Send this broker's entry to the other brokers in turn, known or not.

        Small views may split into circles of brokers that know only each other, or leave a broker out. Messages of
        such a circle would never reach the others.
        """
        broker = self._broker
        if broker.brokers > 1:
            self._greetings = self._greetings % (broker.brokers - 1) + 1
            other = (broker.node + self._greetings) % broker.brokers
            if other not in broker.views.down:
                broker.out.send(other, Spread((), (broker.peer,)))

    def greeted(self, sender: int, packet: Spread) -> None:
        """Answer a broker that is not in the view with a digest, before others take its entry there."""
        broker = self._broker
        groups = frozenset(next((peer.groups for peer in packet.peers if peer.node == sender), ()))
        if not broker.relays.isdisjoint(groups) and not broker.views.groups(sender) and sender not in broker.views.down:
            broker.out.send(sender, Digest(self.levels_for(groups), (broker.peer,)))
