"""Probabilistic atomic broadcast (Felber & Pedone, SRDS 2002; Kim & Ahn compare with it).

All members deliver the messages of a group in one order, with high probability: safety and liveness both depend on
chance, so the protocol scales as gossip does. Members go through *ballots*. In each, a member votes once, for the
messages that it has and that are not ordered yet. Messages and votes spread by gossip. A member closes the ballot when
it has the votes of all members that it believes to be up, or after `patience` gossip rounds with those it has. The
messages that at least half of the votes name are next in the order, sorted by source and number; if there are none,
those with the most votes are. Members that have all votes close a ballot alike. Members that ran out of patience may
have different votes, and that is the chance taken.

We have the paper's abstract and keywords only: asynchronous, by votes, with probabilistic safety and liveness. So these
rules are assumed: when a ballot is closed, the votes that a message needs, and that a member takes over closed ballots
from one that is ahead.
"""

from collections import deque
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.message import Seq
from antecede.core.rng import Rng
from antecede.protocols.gossip.epidemic import Epidemic, Messages, Name, Names, Rounds
from antecede.protocols.gossip.packets import BUNDLE_MAX
from antecede.protocols.options import Founders

#: A set of members, one bit each; the member with the lowest number first.
Members: TypeAlias = Annotated[bytes, Meta(max_length=256)]
Closed: TypeAlias = tuple[Seq, Names]

#: How many closed ballots a member tells of.
_TOLD: Final = 8


class Votes(Packet, frozen=True, gc=False, tag="pabcast.votes"):
    """The messages that the sender has not ordered yet, the votes of its ballot, and the ballots closed before."""

    topic: str
    events: Messages
    ballot: Seq
    voters: Members
    votes: Annotated[tuple[tuple[Name, Members], ...], Meta(max_length=BUNDLE_MAX)]
    closed: Annotated[tuple[Closed, ...], Meta(max_length=_TOLD)]

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.events


class _Ballots:
    """What a member knows of the order of one group."""

    def __init__(self) -> None:
        self.number = 1
        #: Gossip rounds since a vote of this ballot was heard of.
        self.lasted = 0
        #: Those who have voted in this ballot, and those who named each message: bits.
        self.voters = 0
        self.votes: dict[Name, int] = {}
        self.closed: deque[Closed] = deque(maxlen=_TOLD)
        #: Messages that are not ordered yet, with the gossip round in which each came.
        self.open: dict[Name, tuple[Message, int]] = {}
        #: Messages that are next in the order; None: it has not come yet. And for how many rounds the first has not.
        self.ordered: dict[Name, Message | None] = {}
        self.late = 0
        #: By source: the last message ordered.
        self.reached: dict[int, int] = {}

    def next(self) -> None:
        self.number += 1
        self.lasted = 0
        self.voters = 0
        self.votes = {}


class Pabcast(Epidemic):
    """A member that knows all members."""

    def __init__(self, node: int, rounds: Rounds, rng: Rng, members: Founders, *, patience: int) -> None:
        super().__init__(node, rounds, rng, members)
        self._patience = patience
        self._ballots = {topic: _Ballots() for topic in self._takes}
        self._bits = {topic: {member: 1 << at for at, member in enumerate(self._members[topic])} for topic in members}

    @property
    def held(self) -> int:
        return sum([len(ballots.open) + len(ballots.ordered) for ballots in self._ballots.values()])

    # -- packets -------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Votes):
            super().receive(sender, packet)
            return
        topic = packet.topic
        if topic not in self._takes:
            return
        self._take(packet.events)
        ballots = self._ballots[topic]
        self._take_over(ballots, packet)
        if packet.ballot == ballots.number and packet.voters:
            ballots.voters |= int.from_bytes(packet.voters, "little")
            for name, by in packet.votes:
                ballots.votes[name] = ballots.votes.get(name, 0) | int.from_bytes(by, "little")
        self._vote(topic, ballots)
        self._close(topic, ballots)
        self._ask_for_the_unseen(sender, [name for _, names in packet.closed for name in names])
        self._go_on()

    def size(self, packet: Packet) -> int:
        if isinstance(packet, Votes):
            named = len(packet.votes) + sum([len(names) for _, names in packet.closed])
            bits = len(packet.voters) * (1 + len(packet.votes))
            return self._sizes.packet(packet.events, named) + bits
        return super().size(packet)

    # -- rounds --------------------------------------------------------------------------------------------------------

    def _has_news(self) -> bool:
        return super()._has_news() or any(one.voters or one.open or one.ordered for one in self._ballots.values())

    def _tell(self) -> None:
        for topic, ballots in sorted(self._ballots.items()):
            self._vote(topic, ballots)
            ballots.lasted += bool(ballots.voters)
            self._close(topic, ballots, overdue=ballots.lasted > self._patience)
            self._give_up(ballots)
            if ballots.voters or ballots.closed:
                packet = self._votes(topic, ballots)
                for member in self._draw(self._members[topic]):
                    self.out.send(member, packet)

    def _votes(self, topic: str, ballots: _Ballots) -> Votes:
        width = (len(self._members[topic]) + 7) // 8
        votes = tuple([(name, by.to_bytes(width, "little")) for name, by in ballots.votes.items()][:BUNDLE_MAX])
        events = tuple([message for message, _ in ballots.open.values()][:BUNDLE_MAX])
        voters = ballots.voters.to_bytes(width, "little") if ballots.voters else b""
        return Votes(topic, events, ballots.number, voters, votes, tuple(ballots.closed))

    # -- votes ---------------------------------------------------------------------------------------------------------

    def _new(self, message: Message) -> None:
        ballots = self._ballots[message.topic]
        if message.id in ballots.ordered:
            ballots.ordered[message.id] = message
            self._deliver(ballots)
        elif message.seq > ballots.reached.get(message.source, 0):  # else it is late: later ones are ordered
            ballots.open[message.id] = (message, self._round)
            self._vote(message.topic, ballots)
            self._close(message.topic, ballots)

    def _vote(self, topic: str, ballots: _Ballots) -> None:
        """Vote, unless that is done or there is nothing to vote on.

        A member does not vote for a message whose source's earlier ones it lacks, until it has waited for long enough.
        """
        mine = self._bits[topic][self.node]
        if ballots.voters & mine or not (ballots.open or ballots.voters):
            return
        ballots.voters |= mine
        last = dict(ballots.reached)
        for name, (_, came) in sorted(ballots.open.items()):
            _, source, seq = name
            if seq == last.get(source, 0) + 1 or self._round - came > self._patience:
                last[source] = seq
                ballots.votes[name] = ballots.votes.get(name, 0) | mine

    def _close(self, topic: str, ballots: _Ballots, *, overdue: bool = False) -> None:
        """Close the ballot if all have voted that are up, or if it is overdue."""
        awaited = [bit for member, bit in self._bits[topic].items() if member not in self._down]
        cast = ballots.voters.bit_count()
        if not cast or not (overdue or all(ballots.voters & bit for bit in awaited)):
            return
        counts = {name: by.bit_count() for name, by in ballots.votes.items()}
        most = max(counts.values(), default=0)
        needed = min(most, (cast + 1) // 2)
        self._order(ballots, tuple(sorted(name for name, count in counts.items() if count >= needed)))
        self._vote(topic, ballots)

    def _take_over(self, ballots: _Ballots, packet: Votes) -> None:
        """Close ballots as a member did that is ahead. A member too far behind goes on where the other one is."""
        for number, names in packet.closed:
            if number > ballots.number:
                ballots.number = number
            if number == ballots.number:
                self._order(ballots, names)

    def _order(self, ballots: _Ballots, names: Names) -> None:
        """The ballot is closed: these messages are next."""
        ballots.closed.append((ballots.number, names))
        for name in names:
            _, source, seq = name
            if seq > ballots.reached.get(source, 0):
                ballots.reached[source] = seq
                ballots.ordered[name] = ballots.open[name][0] if name in ballots.open else None
        ballots.open = {name: one for name, one in ballots.open.items() if name[2] > ballots.reached.get(name[1], 0)}
        ballots.next()
        self._deliver(ballots)

    # -- deliveries ----------------------------------------------------------------------------------------------------

    def _deliver(self, ballots: _Ballots) -> None:
        for name, message in list(ballots.ordered.items()):
            if message is None:
                return
            del ballots.ordered[name]
            ballots.late = 0
            self.out.deliver(message)

    def _give_up(self, ballots: _Ballots) -> None:
        """Go on without the first message if it has not come for long enough."""
        if ballots.ordered:
            ballots.late += 1
            if ballots.late > self._patience:
                del ballots.ordered[next(iter(ballots.ordered))]
                ballots.late = 0
                self._deliver(ballots)
