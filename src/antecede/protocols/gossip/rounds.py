"""gossip-rounds: for pre-planned sensor networks; a subscriber gets one colour for each broker (Kim & Ahn 2.2).

All brokers and their groups are known beforehand (`plan`). Among brokers a message carries the vectors of all groups
(`core.clocks.GroupVectors`, Birman et al. 1991) and passes the same gate as in gossip-context. A subscriber gets the
round of the message and, for each broker of the plan, the *age* of that broker's last message in its past: how many
rounds earlier it was. That is a vector clock in units of rounds, with ⌈log2 C⌉ bits for an entry.

* Printed: a broker's messages are one round apart (GT_s[i] = GT_m[i] − 1) → a broker may skip a round, and every
  subscriber is stuck → a subscriber waits for what the entry of the message's own broker names.
* Printed: colours without epochs → C colours name a round only modulo C → ages reach back C − 1 rounds, 0 stands for
  "none, or older", and an epoch of a byte goes with the colour, read as the one nearest to the present. For older
  messages the subscriber's broker vouches: it numbers its notices, and reports how far it is (`round_reader`).
* Printed: messages of one round are independent → only if each was made with the vector its broker had when the round
  began → a broker publishes at most one message, at the beginning of a round, and all it has delivered has a lower
  round: a broker that hears of a later round moves to it. Brokers that share no group tell each other the round
  (`Beat`), so that the message of a broker that was silent for long does not seem old.
* One entry for a broker suffices only if all its messages go to the same groups: those it has in the plan.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from antecede.core import LimitError, Message, Packet, TopicMessageId, UsageError
from antecede.core.clocks import GroupVectors
from antecede.core.domain_order import StreamName
from antecede.core.rng import Rng
from antecede.protocols.gossip.broker import Broker, Founding
from antecede.protocols.gossip.config import GossipConfig
from antecede.protocols.gossip.packets import Attach, Beat, Copy, Level, Pull, Rumour, Standing
from antecede.protocols.gossip.plan import Plan
from antecede.protocols.gossip.round_reader import RoundReader
from antecede.protocols.gossip.sizes import Sizes
from antecede.protocols.gossip.subscriber import Reader, Subscriber
from antecede.protocols.gossip.subscriber_sessions import SubscriberSessions

#: How many publications may wait for their round.
_QUEUE_MAX: Final = 65_536
#: How many copies for subscribers are cached.
_COPIES_MAX: Final = 1024
_NONE: Final[dict[int, int]] = {}


class RoundsSessions(SubscriberSessions):
    """Copies carry ages, the same for all subscribers; notices are numbered, and standings are claims (`round_reader`).

    The count is of this broker's deliveries. A skipped message still consumes a number, but is never announced, since
    another broker may have it; the chain is broken there until the next claim. No message is refused for want of
    colours, but a round 64 times as many rounds old as there are colours cannot be encoded.
    """

    _broker: "RoundsBroker"

    def __init__(self, broker: "RoundsBroker", subscribers: Mapping[int, frozenset[str]]) -> None:
        #: How many records this broker restored: after a crash it counts anew.
        self.session = 0
        self._count = 1
        # By groups: the count up to which their subscribers were told.
        self._told: dict[frozenset[str], int] = {}
        self._refusals = 0
        self._copies: dict[TopicMessageId, Copy] = {}
        super().__init__(broker, subscribers)

    def copy(self, rumour: Rumour, groups: frozenset[str]) -> Copy | None:
        broker, plan = self._broker, self._broker.plan
        if self._is_ancient(rumour):
            return None
        name = rumour.message.id
        copy = self._copies.get(name)
        if copy is None:
            bare = msgspec.structs.replace(rumour.message, deps=(), across=())
            copy = Copy(bare, plan.code(rumour.clock), plan.ages(rumour.clock, broker.rounds_before(rumour)))
            if len(self._copies) >= _COPIES_MAX:
                self._copies.clear()
            self._copies[name] = copy
        return copy

    def announce(self, rumours: list[Rumour]) -> None:
        order = self._broker.order
        if order.late + order.given_up != self._refusals or any(map(self._is_ancient, rumours)):
            self._refusals = order.late + order.given_up
            self._break_chain()
        before = self._count
        self._count += len(rumours)
        for groups, nodes in self._by_groups.items():
            notices = self._notices(rumours, groups)
            for number, notice in enumerate(notices, 1):
                upto = self._count if number == len(notices) else before + number
                chained = msgspec.structs.replace(notice, session=self.session, after=self._told[groups], upto=upto)
                self._told[groups] = upto
                self._tell(chained, tuple(nodes), self._broker.config.notices)

    def _is_ancient(self, rumour: Rumour) -> bool:
        """Epochs can no longer encode its round: no subscriber gets it."""
        return rumour.clock <= self._broker.time - self._broker.plan.rounds_told

    def _break_chain(self) -> None:
        self._count += 1
        for groups in self._told:
            self._told[groups] = self._count

    def attach(self, node: int, packet: Attach) -> None:
        super().attach(node, packet)
        self._claim(node)

    def pulled(self, node: int, packet: Pull) -> None:
        super().pulled(node, packet)
        if not packet.wants:
            self._claim(node)

    def standing(self, groups: frozenset[str], levels: tuple[Level, ...]) -> Standing:
        plain = super().standing(groups, levels)
        if not self._broker.group_join.closed:
            return plain
        return msgspec.structs.replace(plain, groups=tuple(sorted(groups)), session=self.session, upto=self._count)

    def gone(self, node: int) -> None:
        known = self._subscribers.get(node)
        super().gone(node)
        if known is not None and known[1] not in self._by_groups:
            del self._told[known[1]]

    def _claim(self, node: int) -> None:
        known = self._subscribers.get(node)
        if known is not None:
            self._broker.out.send(node, self.standing(known[1], self._levels(known[1])))

    def _set(self, node: int, version: int, groups: frozenset[str]) -> None:
        super()._set(node, version, groups)
        self._told.setdefault(groups, self._count)


class RoundsBroker(Broker):
    """A broker that publishes at the beginning of a round."""

    sessions: RoundsSessions

    def __init__(self, node: int, brokers: int, config: GossipConfig, rng: Rng, plan: Plan, founding: Founding) -> None:
        super().__init__(node, brokers, config, rng, GroupVectors(node), founding, sessions=RoundsSessions)
        self.plan = plan
        self._sizes = Sizes(colours=plan.colours)
        self._queue: deque[tuple[str, bytes]] = deque()
        # By stream: the rounds of its messages by sequence number, as far back as ages may need them.
        self._rounds: dict[StreamName, dict[int, int]] = {}

    def may_publish(self) -> list[str]:
        return [topic for topic, source in self.plan.streams if source == self.node]

    def publish(self, topic: str, payload: bytes) -> Message | None:
        """Publish at the beginning of the next round; one message in a round."""
        if (topic, self.node) not in self.plan.streams:
            own = ", ".join(self.may_publish()) or "nothing"
            problem = f"broker {self.node} has {own} in the plan"
            raise UsageError("topic", topic, problem, "publish to all groups that the broker has in the plan")
        if len(self._queue) >= _QUEUE_MAX:
            raise LimitError("publications that wait", len(self._queue), _QUEUE_MAX, "publish slower than one a round")
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
        for broker in self.rng.sample(others, min(self.config.fanout, len(others))):
            self.out.send(broker, Beat(self.time))

    # -- the rounds of messages ---------------------------------------------------------------------------------------

    def _note(self, rumour: Rumour) -> None:
        super()._note(rumour)
        self._note_round((rumour.message.topic, rumour.message.source), rumour.message.seq, rumour.clock)

    def note_floor(self, topic: str, source: int, seq: int, time: int) -> None:
        super().note_floor(topic, source, seq, time)
        self._note_round((topic, source), seq, time)

    def _note_round(self, stream: StreamName, seq: int, round_: int) -> None:
        known = self._rounds.setdefault(stream, {})
        known[seq] = round_
        oldest = next(iter(known))
        if known[oldest] <= self.time - 4 * self.plan.colours and oldest != seq:
            del known[oldest]

    def rounds_before(self, rumour: Rumour) -> dict[StreamName, int]:
        """By stream: the round of its last message in the past of `rumour`, where this broker knows it."""
        message, found = rumour.message, {}
        own = (message.topic, message.source, message.seq - 1)
        for topic, source, seq in (own, *[(message.topic, *dep) for dep in message.deps], *message.across):
            round_ = self._rounds.get((topic, source), _NONE).get(seq)
            if round_ is not None:
                found[topic, source] = round_
        return found

    def restore(self, records_kept: Iterable[object]) -> None:
        kept = list(records_kept)
        super().restore(kept)
        self.sessions.session = len(kept)


class RoundsSubscriber(Subscriber):
    """A subscriber that orders by rounds."""

    def __init__(
        self,
        node: int,
        home: int,
        alternates: Sequence[int],
        config: GossipConfig,
        rng: Rng,
        plan: Plan,
        *,
        takes: Iterable[str],
    ) -> None:
        self._plan = plan
        super().__init__(node, home, alternates, config, rng, takes=takes)
        self._sizes = Sizes(colours=plan.colours)

    def _make_reader(self) -> Reader:
        config = self.config
        return RoundReader(self.takes_topic, self._plan, held_max=config.held_max, pull=config.pull)
