"""The subscription clock: decides whether an event may be notified in order, after those notified before (3.2, Fig. 6).

An event is in order if its number is higher than any seen on its own topic, and if no event of another topic was
notified that comes after it. Then any two events on topics T (lower) and T' (higher) have the same order at every node
that is notified of both untagged. The lower one carries a number w for T', the other has a number v on T'. After the
lower one v must exceed w; before it v must not. Both cannot hold.

Differences from the printed rules, each of which breaks the order:
* Printed (Definition 3): strictly higher somewhere → two events pass in both orders → strictly higher on its own topic.
* Printed: a subscription sets the clock, and leaving drops the entry → numbers fall → a subscription only raises the
  clock, and leaving keeps the entry.
* Printed: only topics taken are tracked → a topic joined later starts too low → numbers of all topics are remembered.
* Printed: epochs are not compared → events of two orders mix → an event of an earlier epoch is late.
One more rule keeps causal order inside a topic: after a tagged event its predecessors on the topic are tagged, too,
since the reader has seen what came after them.
"""

from collections.abc import Iterable

from antecede.protocols.tno.event import Entry, Event, TopicId


class SubscriptionClock:
    """Numbers that only rise.

    `printed`: compare with every number seen in a timestamp, as the paper's single clock does. Otherwise compare with
    the events notified, which is as safe and tags fewer.
    """

    def __init__(self, *, printed: bool = False) -> None:
        self._printed = printed
        #: By topic: the highest number in timestamps of events notified in order, and where subscriptions began.
        self.seen: dict[TopicId, int] = {}
        #: By topic: the last event notified in order. If `printed`, also what was seen of the topics ever taken.
        self.have: dict[TopicId, int] = {}
        self.epoch = 0
        self._taken: set[TopicId] = set()

    def in_order(self, event: Event) -> bool:
        if event.epoch < self.epoch or event.number <= self.seen.get(event.topic, 0):
            return False
        have = self.have.get
        for topic, number in event.above:  # noqa: SIM110 - asked of every event, twice as fast as all(…)
            if have(topic, 0) > number:
                return False
        return True

    def notified(self, topic: TopicId, number: int, epoch: int, above: Iterable[Entry]) -> None:
        """Count an event as notified in order."""
        self.epoch = max(self.epoch, epoch)
        self._raise(self.have, topic, number)
        self._raise(self.seen, topic, number)
        seen = self.seen
        for other, count in above:
            if count > seen.get(other, 0):
                seen[other] = count
            if self._printed and other in self._taken:
                self._raise(self.have, other, count)

    def tagged(self, topic: TopicId, number: int) -> None:
        """Count an event as shown out of order. Its predecessors on the topic are out of order, too, if they come."""
        self._raise(self.seen, topic, number)

    def joined(self, topic: TopicId, floors: Iterable[Entry]) -> None:
        """`topic` is taken from these numbers on."""
        self._taken.add(topic)
        for other, number in floors:
            self._raise(self.seen, other, number)
            if self._printed:
                self._raise(self.have, other, number)

    def left(self, topic: TopicId) -> None:
        """`topic` is no longer taken. Its numbers are kept."""

    @staticmethod
    def _raise(levels: dict[TopicId, int], topic: TopicId, number: int) -> None:
        if number > levels.get(topic, 0):
            levels[topic] = number
