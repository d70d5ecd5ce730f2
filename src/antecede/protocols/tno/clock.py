"""The subscription clock: may an event be notified in order, after all that was? (paper 3.2, Figure 6)

An event is in order when, on its own topic, its number is higher than any that was seen, and when of no other topic an
event was notified that it says came after it. Two events on topics T (below) and T' (above) are then in the same order
for everybody who is notified of both untagged: the lower one carries a number w for T', the other has a number v of T'.
After the lower one v must exceed w; before it v must not. It cannot be both.

What differs from print, each an error that breaks the order:
* the own number must be higher; "somewhere higher" (Definition 3) lets two events pass in both orders;
* a subscription raises the clock, it never lowers it, and leaving a topic does not forget its entry;
* numbers of topics not taken are remembered: should they be taken later, what came before is known;
* an event of an earlier epoch is late, whatever its numbers say.
And one that breaks only causal order inside a topic: after a tagged event the reader has seen what came after its
predecessors on that topic, so these are tagged as well.
"""

from collections.abc import Iterable

from antecede.protocols.tno.event import Entry, Event, TopicId


class SubscriptionClock:
    """Numbers that only rise.

    `printed` compares with every number seen in a timestamp, as the paper's one clock does; otherwise, with fewer tags
    and as safely, with the events that were notified.
    """

    def __init__(self, *, printed: bool = False) -> None:
        self._printed = printed
        #: By topic: the highest number in the timestamps of what was notified in order, and where subscriptions began.
        self.seen: dict[TopicId, int] = {}
        #: By topic: the last event notified in order; in print, with what was seen of the topics ever taken.
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
        """An event was notified in order."""
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
        """An event was shown out of order. What its topic had before it is out of order too, should it come after."""
        self._raise(self.seen, topic, number)

    def joined(self, topic: TopicId, floors: Iterable[Entry]) -> None:
        """`topic` is taken from these numbers on."""
        self._taken.add(topic)
        for other, number in floors:
            self._raise(self.seen, other, number)
            if self._printed:
                self._raise(self.have, other, number)

    def left(self, topic: TopicId) -> None:
        """`topic` is not taken any more. Nothing is forgotten."""

    @staticmethod
    def _raise(levels: dict[TopicId, int], topic: TopicId, number: int) -> None:
        if number > levels.get(topic, 0):
            levels[topic] = number
