"""gossip-rounds: for pre-planned networks of sensors, where a subscriber gets one colour for each broker.

All brokers and their groups are known beforehand (the *plan*). Among brokers a message carries the vectors of all
groups (`core.clocks.GroupVectors`, Birman et al. 1991) and passes the same gate as in the other version. A subscriber
gets the round of the message, and for each broker of the plan the *age* of that one's last message in its past: how
many rounds before. A vector clock in the unit of rounds, of ⌈log2 C⌉ bits an entry (Kim & Ahn 2.2, SPEC 3.2).

What the paper leaves out or gets wrong, and what is done here (SPEC 3.3):
* G3 A broker may skip a round, so its messages are not one round apart: a subscriber waits for what the entry of the
  message's own broker names, not for "one less".
* G4 C colours say a round only up to C; so ages reach back C − 1 rounds, 0 stands for "none, or older", and whoever has
  heard of round r refuses what is C rounds older: late, counted, never slipped in. An epoch of a byte goes with the
  colour, and is read as the one nearest to the present.
* G5 Messages of one round are independent only if each was made with the vector its broker had when the round began. A
  broker publishes at the beginning of a round, at most one message, and what it has delivered has a lower round:
  whoever hears of a later round is in that round. Brokers that share no group tell each other the round (`Beat`), so
  that the message of one who was silent for long is not taken for an old one.
* One entry a broker is enough only if all messages of a broker go to the same groups: those it has in the plan.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from antecede.core import Gate, LimitError, Message, MessageId, Packet, UsageError, Verdict
from antecede.core.chance import Chance
from antecede.core.clocks import GroupVectors
from antecede.core.gate import Need
from antecede.protocols.gossip.broker import Broker
from antecede.protocols.gossip.edge import Edge
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.habits import Habits
from antecede.protocols.gossip.order import StreamName
from antecede.protocols.gossip.packets import Beat, Copy, Peer, Rumour
from antecede.protocols.gossip.sizes import Sizes
from antecede.protocols.gossip.subscriber import Reader, Subscriber

#: Epochs that are told apart: a byte.
EPOCHS: Final = 256
#: Publications that may wait for their round.
_QUEUE_MAX: Final = 65_536


class Plan(msgspec.Struct, frozen=True):
    """What everybody knows beforehand: the topic of each broker, and how many colours there are."""

    #: By broker: the topic that names all its groups. The order of the entries in a vector.
    streams: tuple[StreamName, ...]
    colours: int

    def code(self, round_: int) -> int:
        """Epoch and colour of a round."""
        return round_ % (EPOCHS * self.colours)

    def round(self, code: int, now: int) -> int:
        """The round with this code that is nearest to the present one."""
        turn = EPOCHS * self.colours
        found = now - now % turn + code
        return min((found - turn, found, found + turn), key=lambda round_: (abs(round_ - now), round_))

    def ages(self, round_: int, rounds: Mapping[StreamName, int]) -> bytes:
        """By broker: how many rounds before `round_`; 0 where there is none, or it is older than colours tell."""
        found = bytearray()
        for stream in self.streams:
            age = round_ - rounds[stream] if rounds.get(stream, 0) else 0
            found.append(age if 0 < age < self.colours else 0)
        return bytes(found)


class RoundsEdge(Edge):
    """Positions are rounds, and predecessors are ages."""

    _broker: "RoundsBroker"

    def copy(self, rumour: Rumour, groups: frozenset[str]) -> Copy | None:
        broker = self._broker
        if rumour.clock <= broker.time - 2 * broker.plan.colours:
            return None  # everybody who is near the present refuses it
        bare = msgspec.structs.replace(rumour.message, deps=(), across=())
        rounds = broker.rounds_before(rumour, groups)
        if rounds is None:
            return None
        return Copy(bare, broker.plan.code(rumour.clock), broker.plan.ages(rumour.clock, rounds))

    def place(self, rumour: Rumour) -> int:
        return rumour.clock

    def level(self, stream: StreamName) -> int:
        return self._broker.times.get(stream, 0)


class RoundsBroker(Broker):
    """A broker that publishes at the beginning of a round."""

    def __init__(
        self,
        node: int,
        brokers: int,
        habits: Habits,
        chance: Chance,
        plan: Plan,
        *,
        takes: Iterable[str] = (),
        peers: Iterable[Peer] = (),
        subscribers: Mapping[int, frozenset[str]] | None = None,
    ) -> None:
        super().__init__(
            node,
            brokers,
            habits,
            chance,
            GroupVectors(node),
            takes=takes,
            peers=peers,
            subscribers=subscribers,
            edge=RoundsEdge,
        )
        self.plan = plan
        self._sizes = Sizes(colours=plan.colours)
        self._queue: deque[tuple[str, bytes]] = deque()
        # By stream: numbers and rounds of its messages, ascending, as far back as a vector may need them.
        self._rounds: dict[StreamName, list[tuple[int, int]]] = {}

    def may_publish(self) -> list[str]:
        return [topic for topic, source in self.plan.streams if source == self.node]

    def publish(self, topic: str, payload: bytes) -> Message | None:
        """At the beginning of the next round; one a round."""
        if (topic, self.node) not in self.plan.streams:
            own = ", ".join(self.may_publish()) or "nothing"
            problem = f"broker {self.node} has {own} in the plan"
            raise UsageError("topic", topic, problem, "address all groups of the broker, as one entry a broker demands")
        if len(self._queue) >= _QUEUE_MAX:
            raise LimitError("publications that wait", len(self._queue), _QUEUE_MAX, "publish less often than rounds")
        self._queue.append((topic, payload))
        self.wake_up()
        return None

    def receive(self, sender: int, packet: Packet) -> None:
        if isinstance(packet, Beat):
            self.time = max(self.time, packet.round)
        else:
            super().receive(sender, packet)

    def _begin_round(self) -> None:
        self.time += 1
        if self._queue:
            self._publish(*self._queue.popleft(), later=True)
            if self._queue:
                self.wake_up()
        others = [broker for broker in range(self.brokers) if broker != self.node and broker not in self.views.down]
        for broker in self.chance.sample(others, min(self.habits.fanout, len(others))):
            self.out.send(broker, Beat(self.time))

    # -- the rounds of messages ---------------------------------------------------------------------------------------

    def _note(self, rumour: Rumour) -> None:
        super()._note(rumour)
        self._note_round((rumour.message.topic, rumour.message.source), rumour.message.seq, rumour.clock)

    def note_floor(self, topic: str, source: int, seq: int, time: int) -> None:
        super().note_floor(topic, source, seq, time)
        self._note_round((topic, source), seq, time)

    def _note_round(self, stream: StreamName, seq: int, round_: int) -> None:
        known = self._rounds.setdefault(stream, [])
        known.append((seq, round_))
        while len(known) > 1 and known[1][1] <= self.time - 4 * self.plan.colours:
            known.pop(0)

    def rounds_before(self, rumour: Rumour, groups: frozenset[str]) -> dict[StreamName, int] | None:
        """By stream: the round of its last message in the past of `rumour`, where that is not too old to matter.

        Only streams that somebody who takes `groups` sees. None: this broker has come too late to know.
        """
        message, found = rumour.message, {}
        own = (message.topic, message.source, message.seq - 1)
        for topic, source, seq in (own, *[(message.topic, *dep) for dep in message.deps], *message.across):
            if not seq or groups.isdisjoint(groups_of(topic)):
                continue
            # Exactly this message, or one behind it, which is at least as young.
            noted = next((entry for entry in self._rounds.get((topic, source), ()) if entry[0] >= seq), None)
            if noted is None or (noted[0] > seq and noted[1] > rumour.clock - self.plan.colours):
                return None
            found[topic, source] = noted[1]
        return found


class RoundReader:
    """A subscriber's order by rounds. Positions jump; what is older than the colours reach is given up."""

    def __init__(self, subscriber: "RoundsSubscriber", plan: Plan, *, held_max: int) -> None:
        self._takes = subscriber.takes_topic
        self._plan = plan
        self._held_max = held_max
        self._gate: Gate[tuple[Message, int]] = Gate(contiguous=False, held_max=held_max)
        #: By stream and round: a message that waits, what it waits for, and since when.
        self._held: dict[tuple[StreamName, int], tuple[Message, list[Need], int]] = {}
        #: The latest round heard of; everything up to the horizon that was not delivered is late.
        self.now = 0
        self.horizon = 0
        self.delivered = 0
        self.late = 0
        self.given_up = 0

    def offer(self, copy: Copy, now: int) -> list[Message]:
        message = copy.message
        stream = (message.topic, message.source)
        round_ = self._plan.round(copy.clock, self.now)
        if round_ <= self._gate.reached(stream) or (stream, round_) in self._held:
            return []
        if round_ <= self.horizon:
            self.late += 1
            return []
        out = self.heard(round_)
        needs = self._needs(copy.ages, round_)
        verdict = self._gate.offer((message, round_), ((stream, round_),), needs)
        if verdict is Verdict.READY:
            return [*out, *self._drain()]
        if verdict is Verdict.WAITING:
            self._held[stream, round_] = (message, needs, now)
        return out

    def heard(self, clock: int) -> list[Message]:
        """Somebody is in this round. What is too old by now is given up, and what waited for it goes on, in order."""
        self.now = max(self.now, clock)
        out: list[Message] = []
        if self.now - self._plan.colours > self.horizon:
            self.horizon = self.now - self._plan.colours
            out = self._pass()
        return out

    def floors(self, levels: Iterable[tuple[str, int, int]]) -> list[Message]:
        for topic, source, position in levels:
            self._gate.floor((topic, source), position)
        return self._drain()

    def changed(self) -> None:
        fresh: Gate[tuple[Message, int]] = Gate(contiguous=False, held_max=self._held_max)
        for stream, level in self._gate.levels().items():
            fresh.floor(stream, level)
        self._gate = fresh
        self._held.clear()

    def give_up(self, since: int, now: int) -> list[Message]:
        """Rounds may stand still, and what waits must go on all the same: a round is a Lamport clock (see `order`)."""
        out: list[Message] = []
        while any(came <= since for _, _, came in self._held.values()):
            first = min(round_ for _, round_ in self._held)
            self.horizon = max(self.horizon, first - 1)
            out += self._pass()
        return out

    def resign(self) -> None:
        self.given_up += 1
        self.horizon = max(self.horizon, self.delivered)

    def reached(self, stream: StreamName) -> int:
        return self._gate.reached(stream)

    def missing(self) -> dict[StreamName, int]:
        return self._gate.missing()  # type: ignore[return-value]

    def levels(self) -> dict[StreamName, int]:
        return self._gate.levels()  # type: ignore[return-value]

    def holding(self) -> list[MessageId]:
        return [held[0].id for held in self._held.values()]

    @property
    def held(self) -> int:
        return len(self._held)

    def _needs(self, ages: bytes, round_: int) -> list[Need]:
        return [
            (stream, round_ - age)
            for stream, age in zip(self._plan.streams, ages, strict=True)
            if age and round_ - age > self.horizon and self._takes(stream[0])
        ]

    def _pass(self) -> list[Message]:
        """Nobody waits for what is behind the horizon. By rounds, so that what is held keeps its turn."""
        out: list[Message] = []
        for stream, round_ in sorted(self._held, key=lambda held: (held[1], held[0])):
            held = self._held.get((stream, round_))
            if held is not None:
                for other, n in held[1]:
                    if n <= self.horizon and self._gate.reached(other) < n:
                        self.given_up += 1
                        self._gate.skip(other, n)
                out += self._drain()
        return out

    def _drain(self) -> list[Message]:
        out = []
        for message, round_ in self._gate.drain():
            self._held.pop(((message.topic, message.source), round_), None)
            self.delivered = max(self.delivered, round_)
            out.append(message)
        return out


class RoundsSubscriber(Subscriber):
    """A subscriber that orders by rounds."""

    def __init__(
        self,
        node: int,
        home: int,
        alternates: Sequence[int],
        habits: Habits,
        chance: Chance,
        plan: Plan,
        *,
        takes: Iterable[str] = (),
    ) -> None:
        self._plan = plan
        super().__init__(node, home, alternates, habits, chance, takes=takes, sizes=Sizes(colours=plan.colours))

    def _make_reader(self) -> Reader:
        return RoundReader(self, self._plan, held_max=self.habits.held_max)
