"""The base of pbcast, lpbcast and pabcast: messages spread in rounds, and are asked for by name.

Kim & Ahn compare their protocols with lpbcast, their [4], and with probabilistic atomic broadcast, their [6]; pbcast is
their [2]. Here all run on the same links and rounds. A node that has a message tells others of it for a few rounds. A
node that hears of a message it lacks asks the teller for it, and again when it hears of it again. Membership is fixed.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core import Message, Packet, Process, ProtocolError, UsageError
from antecede.core.caches import BoundedCache
from antecede.core.message import Seq, Source, Topic
from antecede.core.numbers import NumberSet
from antecede.core.rng import Rng
from antecede.protocols.gossip.packets import BUNDLE_MAX, ENTRIES_MAX
from antecede.protocols.options import Founders

#: The name of a message.
Name: TypeAlias = tuple[Topic, Source, Seq]
Names: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=ENTRIES_MAX)]
Messages: TypeAlias = Annotated[tuple[Message, ...], Meta(max_length=BUNDLE_MAX)]

_ROUND: Final = "round"


class Solicit(Packet, frozen=True, gc=False, tag="epidemic.solicit"):
    """Asks for messages that the receiver told of."""

    names: Names


class Reply(Packet, frozen=True, gc=False, tag="epidemic.reply"):
    """The messages asked for, as far as they are still stored."""

    bundle: Messages

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.bundle


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a member."""

    round_us: int
    fanout: int
    #: Rounds for which a message is told, and can be asked for.
    young: int
    #: How many messages are stored at most.
    store_max: int


class Sizes(msgspec.Struct, frozen=True):
    """The byte model, counted as for the other protocols of this package."""

    header: int = 20
    node: int = 2
    topic: int = 2
    entry: int = 4

    def packet(self, messages: Iterable[Message], names: int, peers: int = 0) -> int:
        carried = sum([self.topic + self.entry + len(message.payload) for message in messages])
        return self.header + carried + names * (self.topic + self.entry) + peers * self.node


class Epidemic(Process):
    """A member of some groups. Subclasses say what it tells whom (`_tell`), and in which order it delivers."""

    def __init__(self, node: int, rounds: Rounds, rng: Rng, members: Founders) -> None:
        super().__init__(node)
        self._rounds = rounds
        self._rng = rng
        self._members = {topic: sorted(nodes) for topic, nodes in members.items()}
        self._takes = frozenset(topic for topic, nodes in members.items() if node in nodes)
        self._seq: dict[str, int] = {}
        self._seen: dict[tuple[str, int], NumberSet] = {}
        #: By name: the message and the round in which it came; oldest first.
        self._store: BoundedCache[Name, tuple[Message, int]] = BoundedCache(rounds.store_max)
        self._down: set[int] = set()
        self._round = 0
        self._turning = False
        self._sizes = Sizes()

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        if topic not in self._takes:
            raise UsageError("topic", topic, f"node {self.node} is not a member of it", "publish from a member")
        self._seq[topic] = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, self._seq[topic], (), payload)
        self._take([message])
        return message

    def subscribe(self, topic: str) -> None:
        self._refuse_change(topic)

    def unsubscribe(self, topic: str) -> None:
        self._refuse_change(topic)

    def takes(self, topic: str) -> bool:
        return topic in self._takes

    # -- packets ------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Solicit():
                found = [self._store[name][0] for name in packet.names if name in self._store][:BUNDLE_MAX]
                if found:
                    self.out.send(sender, Reply(tuple(found)))
            case Reply():
                self._take(packet.bundle)
            case _:
                raise ProtocolError(
                    f"node {self.node} got a {type(packet).__name__} from {sender}: not of its protocol"
                )

    def size(self, packet: Packet) -> int:
        names = len(packet.names) if isinstance(packet, Solicit) else 0
        return self._sizes.packet(packet.messages, names)

    def peer_down(self, node: int) -> None:
        self._down.add(node)

    def peer_up(self, node: int) -> None:
        self._down.discard(node)

    # -- rounds -------------------------------------------------------------------------------------------------

    def wake(self, timer: Hashable) -> None:
        self._round += 1
        while self._store:
            name = next(iter(self._store))
            if self._round - self._store[name][1] <= self._rounds.young:
                break
            del self._store[name]
        self._turning = False
        if self._has_news():
            self._tell()
        self._go_on()

    def _has_news(self) -> bool:
        """Is there anything to tell?"""
        return bool(self._store)

    def _go_on(self) -> None:
        """Take part in the next round, if there is anything to tell."""
        if not self._turning and self._has_news():
            self._turning = True
            self.out.wake_after(self._rounds.round_us, _ROUND)

    @abstractmethod
    def _tell(self) -> None:
        """In each round: tell others what is stored."""

    @abstractmethod
    def _new(self, message: Message) -> None:
        """A message came for the first time: deliver it, now or in its turn."""

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if message.topic not in self._takes or not self._seen_of(message.topic, message.source).add(message.seq):
                continue
            self._store[message.id] = (message, self._round)
            self._new(message)
        self._go_on()

    def _ask_for_the_unseen(self, sender: int, names: Iterable[Name]) -> None:
        missing = [name for name in names if name[0] in self._takes and name[2] not in self._seen_of(name[0], name[1])]
        if missing:
            self.out.send(sender, Solicit(tuple(missing[:BUNDLE_MAX])))

    def _draw(self, among: Iterable[int]) -> list[int]:
        """As many live nodes as the fan-out says, at random."""
        found = sorted(node for node in set(among) if node != self.node and node not in self._down)
        return found if len(found) <= self._rounds.fanout else self._rng.sample(found, self._rounds.fanout)

    def _seen_of(self, topic: str, source: int) -> NumberSet:
        seen = self._seen.get((topic, source))
        if seen is None:
            seen = self._seen[topic, source] = NumberSet()
        return seen

    def _refuse_change(self, topic: str) -> None:
        raise UsageError("topic", topic, "members of this protocol do not change", "use a protocol with subscriptions")
