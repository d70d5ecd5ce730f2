"""A subscriber's order by rounds and colours (gossip-rounds).

Three things tell that a message may be delivered, any one is enough:
* **its ages**, when none that matters is 0: they name the last message of every broker that lies before it, as a vector
  clock does, and those have been delivered;
* **the chain**: notices of the home broker follow each other by number, and what it told before lies before. Where no
  notice is missing its order is causal order, and nothing need be looked at;
* **a claim** (`Standing`): the home broker says how far it is in each stream. Who has received everything up to there,
  whoever sent it, delivers it by rounds, which are Lamport clocks; and before that, what no missing one can precede.

An age of 0 says "none, or older than colours tell", and is why ages alone do not do: to trust it loses the order of
what is slower than the colours, and to refuse whatever comes later than that loses messages. So a message with such an
age waits for the chain or a claim, that is, where a packet was lost, for the few rounds it takes to ask for it. Few
colours thus cost time, never messages.

Without pull nobody makes claims and what is lost is lost: once the chain is broken a 0 is trusted, whatever is received
and older than colours tell goes first, and what comes later than that is refused.

Who has waited too long goes on without what is missing: the lowest round first, and whatever lies below it is refused
from then on (`order`).
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from antecede.core import Gate, Message, TopicMessageId
from antecede.core.domain_order import StreamName
from antecede.core.gate import Need
from antecede.core.numbers import absorb
from antecede.protocols.gossip.packets import Copy, Notice, Standing
from antecede.protocols.gossip.plan import Plan

#: Notices that came before their turn, at most; what a forgotten one carried waits for a claim.
_LINKS_MAX: Final = 256
#: Messages of which only the round is remembered, at most.
_ROUNDS_MAX: Final = 65_536


class _Received(NamedTuple):
    """A message that waits, its round, and since when."""

    round: int
    name: TopicMessageId
    message: Message
    came: int


_Link: TypeAlias = tuple[int, list[TopicMessageId]]


class RoundReader:
    """Takes notices and standings in any order, gives messages back in causal order."""

    def __init__(self, takes: Callable[[str], bool], plan: Plan, *, held_max: int, pull: bool) -> None:
        self._takes = takes
        self._plan = plan
        self._held_max = held_max
        self._pull = pull
        #: By stream: the number of the last message delivered, or before our time.
        self._reached: dict[StreamName, int] = {}
        self._waiting: dict[TopicMessageId, _Received] = {}
        # By stream: numbers given up beyond the last one reached.
        self._forgone: dict[StreamName, set[int]] = {}
        # Positions are rounds, which jump.
        self._gate: Gate[_Received] = Gate(contiguous=False, held_max=held_max)
        #: The home broker's count up to which everything was received; 0: not known.
        self._vouched = 1
        self._session = 0
        # By what it follows: notices that came before their turn.
        self._links: dict[int, _Link] = {}
        # The first claim that is not met yet, and the latest.
        self._claims: list[Standing] = []
        # Of messages there was no room for.
        self._rounds_missed: dict[TopicMessageId, int] = {}
        self._turned_away: dict[StreamName, int] = {}
        self._visible: list[tuple[int, StreamName]] | None = None
        self._out: list[Message] = []
        #: The latest round heard of; everything up to the horizon that was not received is late.
        self.now = 0
        self.horizon = 0
        self.delivered = 0
        #: Messages refused because they came too late, passed without what they waited for, and not taken for want of
        #: room (they come again).
        self.late = self.given_up = self.overflow = 0

    # -- what comes ---------------------------------------------------------------------------------------------------

    def take(self, notice: Notice, now: int, *, home: bool) -> list[Message]:
        """`home`: from our broker."""
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
        """Our broker says how far it is."""
        self.heard(standing.clock)
        if standing.upto and not self._knows(standing):
            self._of_session(standing.session)
            if not self._claims or standing.upto > self._claims[-1].upto:  # an old one may come again
                del self._claims[1:]
                self._claims.append(standing)
        return self._advanced()

    def behind(self, standing: Standing) -> list[tuple[StreamName, int]]:
        """Streams in which our broker is further, and how far."""
        if self._knows(standing):
            return []
        reached, takes = self._reached.get, self._takes
        return [
            ((topic, source), n)
            for topic, source, n in standing.levels
            if n > reached((topic, source), 0) and takes(topic)
        ]

    def heard(self, clock: int) -> None:
        """Somebody is in this round."""
        self.now = max(self.now, clock)

    def floors(self, levels: Iterable[tuple[str, int, int]]) -> list[Message]:
        """What these levels name was before our time."""
        for topic, source, seq in levels:
            self._reach((topic, source), seq)
        return self._advanced()

    def forgo(self, stream: StreamName, upto: int) -> list[Message]:
        """What is missing of a stream is not to be had: nobody waits for it, and should it come it is not taken."""
        self._reach(stream, upto - self._held_max)
        for seq in range(self.reached(stream) + 1, upto + 1):
            name = TopicMessageId(*stream, seq)
            if name not in self._waiting:
                self._forgone.setdefault(stream, set()).add(seq)
        self._step_over(stream)
        return self._advanced()

    def changed(self) -> None:
        """Another broker, or other groups: what was vouched for is so no more, and what waits comes again."""
        self._gate = self._gate.emptied()
        self._waiting.clear()
        self._rounds_missed.clear()
        self._links.clear()
        self._claims.clear()
        self._vouched = 0
        self._visible = None

    moved = changed

    def give_up(self, since: int, now: int) -> list[Message]:
        """Let pass what waits since round `since` or longer, and what lies before it."""
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
        """By stream: up to where something that waits misses its own source's messages."""
        found: dict[StreamName, int] = {}
        for name in self._waiting:
            stream = (name.topic, name.source)
            before = TopicMessageId(*stream, name.seq - 1)
            if before.seq > max(found.get(stream, 0), self.reached(stream)) and before not in self._waiting:
                found[stream] = before.seq
        return found

    def turned_away(self) -> list[tuple[StreamName, int]]:
        """By stream: up to where something came that there was no room for, since this was last asked."""
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
        """Of what waits, the lowest rounds stay: they go first. Of the others the round is remembered."""
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
        """Was everything received already that the broker had then?"""
        return 0 < standing.upto <= self._vouched and standing.session == self._session

    def _of_session(self, session: int) -> None:
        """A broker that came back counts anew."""
        if session != self._session:
            self._session = session
            self._vouched = 0
            self._links.clear()
            self._claims.clear()

    def _advanced(self) -> list[Message]:
        """Whatever can be delivered by now."""
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
        """Notices whose turn has come."""
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
        """Claims that are met, or so far."""
        settled = False
        for claim in list(self._claims):
            missing = self._missing(claim)
            # What is missing has a higher round than what was delivered of its stream: lower ones need not wait for it.
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
        for topic, source, seq in claim.levels:
            if self._takes(topic):
                for number in range(self.reached((topic, source)) + 1, seq + 1):
                    name = TopicMessageId(topic, source, number)
                    if name not in self._waiting and number not in self._forgone.get((topic, source), ()):
                        found.append(name)
                        break
        return found

    def _least_round(self, name: TopicMessageId) -> int:
        """A round that a message which is missing does not lie below."""
        return self._rounds_missed.get(name, 1 + self._gate.reached((name.topic, name.source)))

    def _pass(self, horizon: int) -> None:
        """What lies up to the horizon and was not received is refused; what was goes, and what lies right behind."""
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
        """Nothing up to here is waited for."""
        if seq > self.reached(stream):
            self._reached[stream] = seq
            for name in [name for name in self._waiting if name[:2] == stream and name.seq <= seq]:
                del self._waiting[name]
            self._step_over(stream)

    def _step_over(self, stream: StreamName) -> None:
        """What was forgone counts as reached where nothing is missing before it."""
        forgone, reached = self._forgone.get(stream, set()), self.reached(stream)
        if reached + 1 in forgone:
            self._reached[stream] = absorb(reached, forgone)
        if not forgone:
            self._forgone.pop(stream, None)
