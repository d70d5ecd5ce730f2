"""A subscriber's order by rounds and colours (gossip-rounds).

A message may be delivered for any one of three reasons:
* **its ages**, if none that matters is 0: like a vector clock they name the last message of every broker before it, and
  those have been delivered;
* **the chain**: the home broker numbers its notices, in its own order of delivery. Where no notice is missing, that
  order is causal, and nothing else need be checked;
* **a claim** (`Standing`): the home broker says how far it is in each stream. A subscriber that has received everything
  up to there, from whichever broker, delivers it by rounds, which are Lamport clocks. Before that it delivers messages
  that no missing one can precede.

An age of 0 means "none, or older than the colours reach", so ages alone do not suffice. To trust a 0 loses the order of
messages slower than the colours; to refuse later messages loses messages. So a message with such an age waits for the
chain or a claim: after a lost packet, for the few rounds it takes to pull it. Few colours cost time, never messages.

Without pull there are no claims, and lost messages stay lost. Once the chain is broken a 0 is trusted; a received
message older than the colours reach goes first, and one that comes later is refused.

A subscriber that has waited too long goes on without the missing messages: it delivers the lowest round first, and
refuses everything below it from then on (`order`).
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from antecede.core import Gate, Message, TopicMessageId
from antecede.core.domain_order import StreamName
from antecede.core.gate import Need
from antecede.core.numbers import absorb
from antecede.protocols.gossip.packets import Copy, Notice, Standing
from antecede.protocols.gossip.plan import Plan

#: How many notices that came before their turn are kept. The messages of a dropped one wait for a claim.
_LINKS_MAX: Final = 256
#: Of how many messages only the round is remembered.
_ROUNDS_MAX: Final = 65_536


class _Received(NamedTuple):
    """A message that waits, with its round and when it came."""

    round: int
    name: TopicMessageId
    message: Message
    came: int


_Link: TypeAlias = tuple[int, list[TopicMessageId]]


class RoundReader:
    """Takes notices and standings in any order, and returns messages in causal order."""

    def __init__(self, takes: Callable[[str], bool], plan: Plan, *, held_max: int, pull: bool) -> None:
        self._takes = takes
        self._plan = plan
        self._held_max = held_max
        self._pull = pull
        #: By stream: the sequence number of the last message delivered, or the floor.
        self._reached: dict[StreamName, int] = {}
        self._waiting: dict[TopicMessageId, _Received] = {}
        # By stream: numbers given up beyond the last one reached.
        self._forgone: dict[StreamName, set[int]] = {}
        # Positions are rounds, which jump.
        self._gate: Gate[_Received] = Gate(contiguous=False, held_max=held_max)
        #: The home broker's count up to which everything was received; 0: unknown.
        self._vouched = 1
        self._session = 0
        # Notices that came before their turn, by the count they follow.
        self._links: dict[int, _Link] = {}
        # The first claim that is not met yet, and the latest.
        self._claims: list[Standing] = []
        # The rounds of messages for which there was no room.
        self._rounds_missed: dict[TopicMessageId, int] = {}
        self._turned_away: dict[StreamName, int] = {}
        self._visible: list[tuple[int, StreamName]] | None = None
        self._out: list[Message] = []
        #: The latest round heard of; and the horizon: messages up to it that were not received are late.
        self.now = 0
        self.horizon = 0
        self.delivered = 0
        #: How many messages were refused because they came too late, passed without what they waited for, and were
        #: not taken for want of room (these come again).
        self.late = self.given_up = self.overflow = 0

    # -- packets ------------------------------------------------------------------------------------------------------

    def take(self, notice: Notice, now: int, *, home: bool) -> list[Message]:
        """Take a notice; `home`: it is from the home broker."""
        overflow = self.overflow
        new = [(copy, received) for copy in notice.copies if (received := self._receive(copy, now)) is not None]
        if home and notice.upto:
            self._of_session(notice.session)
            if len(self._links) < _LINKS_MAX and self.overflow == overflow:
                names = [copy.message.id for copy in notice.copies]
                self._links[notice.after] = (notice.upto, names)
            self._follow()
        for copy, received in new:
            if received.name in self._waiting:
                self._judge_by_ages(copy, received)
        return self._advanced()

    def claim(self, standing: Standing) -> list[Message]:
        """Take the home broker's report of how far it is."""
        self.heard(standing.clock)
        if standing.upto and not self._knows(standing):
            self._of_session(standing.session)
            if not self._claims or standing.upto > self._claims[-1].upto:  # an old one may come again
                del self._claims[1:]
                self._claims.append(standing)
        return self._advanced()

    def behind(self, standing: Standing) -> list[tuple[StreamName, int]]:
        """Streams in which the broker is further than this subscriber, and how far."""
        if self._knows(standing):
            return []
        reached, takes = self._reached.get, self._takes
        return [
            ((topic, source), n)
            for topic, source, n in standing.levels
            if n > reached((topic, source), 0) and takes(topic)
        ]

    def heard(self, clock: int) -> None:
        """A node is in this round."""
        self.now = max(self.now, clock)

    def floors(self, levels: Iterable[tuple[str, int, int]]) -> list[Message]:
        """Start each (topic, source) after the given number: earlier messages predate this subscription."""
        for topic, source, seq in levels:
            self._reach((topic, source), seq)
        return self._advanced()

    def forgo(self, stream: StreamName, upto: int) -> list[Message]:
        """Give up the missing messages of a stream up to `upto`. One that comes later is refused."""
        self._reach(stream, upto - self._held_max)
        for seq in range(self.reached(stream) + 1, upto + 1):
            name = TopicMessageId(*stream, seq)
            if name not in self._waiting:
                self._forgone.setdefault(stream, set()).add(seq)
        self._step_over(stream)
        return self._advanced()

    def changed(self) -> None:
        """Another broker, or other groups: forget what the old broker vouched for; waiting messages come again."""
        self._gate = self._gate.emptied()
        self._waiting.clear()
        self._rounds_missed.clear()
        self._links.clear()
        self._claims.clear()
        self._vouched = 0
        self._visible = None

    def moved(self) -> None:
        self.changed()

    def give_up(self, since: int, now: int) -> list[Message]:
        """Let pass the messages that came in round `since` or before, and those that precede them."""
        while any(received.came <= since for received in self._waiting.values()):
            self._pass(min(self._waiting.values()).round - 1)
        return self._advanced()

    def resign(self) -> None:
        self.given_up += 1
        self.horizon = max(self.horizon, self.delivered)

    # -- how far it is ------------------------------------------------------------------------------------------------

    def reached(self, stream: StreamName) -> int:
        return self._reached.get(stream, 0)

    def levels(self) -> dict[StreamName, int]:
        return dict(self._reached)

    def missing(self) -> dict[StreamName, int]:
        """By stream: the highest number before a waiting message that is missing."""
        found: dict[StreamName, int] = {}
        for name in self._waiting:
            stream = (name.topic, name.source)
            before = TopicMessageId(*stream, name.seq - 1)
            if before.seq > max(found.get(stream, 0), self.reached(stream)) and before not in self._waiting:
                found[stream] = before.seq
        return found

    def turned_away(self) -> list[tuple[StreamName, int]]:
        """By stream: the highest number refused for want of room since the last call."""
        found, self._turned_away = self._turned_away, {}
        return list(found.items())

    def holding(self) -> list[TopicMessageId]:
        return list(self._waiting)

    @property
    def held(self) -> int:
        return len(self._waiting)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _receive(self, copy: Copy, now: int) -> _Received | None:
        message = copy.message
        name = message.id
        stream = (message.topic, message.source)
        if message.seq <= self.reached(stream) or name in self._waiting:
            return None
        round_ = self._plan.round(copy.clock, self.now)
        self.heard(round_)
        if round_ <= self.horizon or message.seq in self._forgone.get(stream, ()):
            self.late += 1
            self._forgone.setdefault(stream, set()).add(message.seq)
            self._step_over(stream)
            return None
        received = _Received(round_, name, message, now)
        if len(self._waiting) >= self._held_max and not self._make_room(received):
            return None
        self._waiting[name] = received
        return received

    def _make_room(self, received: _Received) -> bool:
        """Keep the waiting messages with the lowest rounds, which go first. Of others remember the round."""
        self.overflow += 1
        last = max([received, *self._waiting.values()])
        stream = (last.name.topic, last.name.source)
        self._turned_away[stream] = max(last.name.seq, self._turned_away.get(stream, 0))
        self._rounds_missed[last.name] = last.round
        if len(self._rounds_missed) > _ROUNDS_MAX:
            self._rounds_missed.clear()
        if last is received:
            return False
        del self._waiting[last.name]
        self._links.clear()
        self._gate = self._gate.emptied()
        return True

    def _judge_by_ages(self, copy: Copy, received: _Received) -> None:
        round_ = received.round
        if not self._pull:
            self._pass(round_ - self._plan.colours)
        if self._visible is None:
            self._visible = [
                (place, stream) for place, stream in enumerate(self._plan.streams) if self._takes(stream[0])
            ]
        ages = copy.ages
        needs: list[Need] = []
        for place, stream in self._visible:
            if age := ages[place]:
                if round_ - age > self.horizon:
                    needs.append((stream, round_ - age))
            elif self._pull:
                return
        self._gate.offer(received, (((received.message.topic, received.message.source), round_),), needs)

    def _knows(self, standing: Standing) -> bool:
        """Was everything received that the broker had then?"""
        return 0 < standing.upto <= self._vouched and standing.session == self._session

    def _of_session(self, session: int) -> None:
        """A broker that restarted counts anew."""
        if session != self._session:
            self._session = session
            self._vouched = 0
            self._links.clear()
            self._claims.clear()

    def _advanced(self) -> list[Message]:
        """Deliver what can be delivered by now."""
        while self._drain() or self._settle() or self._follow():
            pass
        out, self._out = self._out, []
        return out

    def _drain(self) -> bool:
        ready = self._gate.drain()
        for received in ready:
            if received.name in self._waiting:
                self._deliver(received)
        return bool(ready)

    def _follow(self) -> bool:
        """Deliver notices whose turn has come."""
        followed = False
        while self._vouched and self._links:
            after = min(self._links)
            if after > self._vouched:
                break
            upto, names = self._links.pop(after)
            for name in names:
                received = self._waiting.get(name)
                if received is not None:
                    self._deliver(received)
            self._vouched = max(self._vouched, upto)
            followed = True
        return followed

    def _settle(self) -> bool:
        """Deliver what claims allow."""
        settled = False
        for claim in list(self._claims):
            missing = self._missing(claim)
            # A missing message has a higher round than the last delivered of its stream: lower rounds need not wait.
            least = min([self._least_round(name) for name in missing], default=None)
            levels = {(topic, source): seq for topic, source, seq in claim.levels}
            for received in sorted(self._waiting.values()):
                if least is not None and received.round > least:
                    break
                if received.name.seq <= levels.get((received.name.topic, received.name.source), 0):
                    self._deliver(received)
                    settled = True
            if not missing:
                self._vouched = max(self._vouched, claim.upto)
                self._claims.remove(claim)
                settled = True
        return settled

    def _missing(self, claim: Standing) -> list[TopicMessageId]:
        """By stream: the first message that was not received."""
        found = []
        level = self._reached
        for topic, source, seq in claim.levels:
            reached = level.get((topic, source), 0)
            if seq > reached and self._takes(topic):
                for number in range(reached + 1, seq + 1):
                    name = TopicMessageId(topic, source, number)
                    if name not in self._waiting and number not in self._forgone.get((topic, source), ()):
                        found.append(name)
                        break
        return found

    def _least_round(self, name: TopicMessageId) -> int:
        """The least round that a missing message can have."""
        return self._rounds_missed.get(name, 1 + self._gate.reached((name.topic, name.source)))

    def _pass(self, horizon: int) -> None:
        """Move the horizon: refuse missing messages up to it, and deliver waiting ones up to the round after it."""
        self.horizon = max(self.horizon, horizon)
        if self._waiting:
            for received in sorted(self._waiting.values()):
                if received.round > horizon + 1:
                    break
                self.given_up += 1
                self._deliver(received)

    def _deliver(self, received: _Received) -> None:
        message = received.message
        stream = (message.topic, message.source)
        del self._waiting[received.name]
        if self._rounds_missed:
            self._rounds_missed.pop(received.name, None)
        self._reached[stream] = max(message.seq, self.reached(stream))
        if self._forgone:
            self._step_over(stream)
        self.delivered = max(self.delivered, received.round)
        self._gate.mark_settled(stream, received.round)
        self._out.append(message)

    def _reach(self, stream: StreamName, seq: int) -> None:
        """Count every message up to `seq` as reached."""
        if seq > self.reached(stream):
            self._reached[stream] = seq
            if stream in self._forgone:
                self._forgone[stream] = {later for later in self._forgone[stream] if later > seq}
            for name in [name for name in self._waiting if name[:2] == stream and name.seq <= seq]:
                del self._waiting[name]
            self._step_over(stream)

    def _step_over(self, stream: StreamName) -> None:
        """Count given-up messages as reached where no message before them is missing."""
        forgone, reached = self._forgone.get(stream, set()), self.reached(stream)
        if reached + 1 in forgone:
            self._reached[stream] = absorb(reached, forgone)
        if not forgone:
            self._forgone.pop(stream, None)
