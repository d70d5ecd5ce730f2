"""Catching up in bulk: a broker that missed many messages fetches them, and other brokers serve it from their logs.

A broker stores the last messages only. One that was away for longer, or lags under load, asks for ranges of sequence
numbers (`Fetch`), two requests at a time for each stream, and for the next range as soon as an answer is complete
(`Fetched`). A broker that serves takes messages from its store, or has its driver read them from the log of what it
delivered (`Outbox.look_up`).

A broker with a log never goes on without a message because time has passed. A message is *gone* when no broker that is
up has it, one of them is further than that, and no broker that is down may have it. Where one had the message and
removed it (retention), a broker that is down is given `patience` rounds to come back. Then the broker goes on behind
the message, visibly: it leaves its groups and joins them again where the furthest of the others is. Everything before
that point is skipped, so no predecessor of a skipped message is delivered later.

Messages that arrive by push meanwhile are far ahead of what was delivered. The broker refuses those that it could only
hold, once they are many: it fetches them later. A broker that serves it pushes nothing to it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from antecede.core import Message
from antecede.core.domain_order import StreamName
from antecede.core.message import TopicMessageId
from antecede.core.process import Missing
from antecede.protocols.bundling import in_packets
from antecede.protocols.gossip.packets import FETCHED_MAX, Fetch, Fetched, Rumour
from antecede.protocols.lookups import ANSWER_BYTES, PACKET_BYTES, LookUps, run_of, weight

if TYPE_CHECKING:
    from antecede.protocols.gossip.broker import Broker

#: Requests under way for one stream: the server reads the next range while this broker works on the last.
_DEPTH: Final = 2

#: Messages of one request at most.
_CHUNK: Final = 1024

#: The pause between two tries doubles so many times at most.
_DOUBLINGS: Final = 5


class Fetching:
    """What a broker has asked for in bulk, of one stream."""

    __slots__ = ("asked", "asked_at", "attempts", "lacking", "seen", "server", "since", "target")

    def __init__(self, reached: int, now: int) -> None:
        #: The broker that is asked, and up to which sequence number there is something to ask for.
        self.server = -1
        self.target = 0
        #: Requests without an answer: first sequence number to last. And the round of the last one.
        self.asked: dict[int, int] = {}
        self.asked_at = now
        #: The answers of brokers that do not have the next message.
        self.lacking: dict[int, Fetched] = {}
        #: How far this broker was at the last look, and since which round.
        self.seen = reached
        self.since = now
        #: Pauses without progress.
        self.attempts = 0


class CatchingUp:
    """The part of a broker that fetches and serves old messages."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._look_ups = LookUps(broker.out)
        self._streams: dict[StreamName, Fetching] = {}
        # Streams that are pulled: how far this broker was, and since which round.
        self._pulled: dict[StreamName, tuple[int, int]] = {}
        # By broker that fetched from this one: until which round nothing is pushed to it.
        self._served: dict[int, int] = {}
        self._chunk = min(_CHUNK, broker.config.store_max)
        self._behind = min(broker.config.burst, broker.config.store_max)

    # -- fetching -----------------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Does this broker fetch messages?"""
        return bool(self._streams)

    @property
    def crowded(self) -> bool:
        """Does this broker hold so many messages that it takes no more by push, while it fetches older ones?"""
        return self.active and self._broker.order.held >= self._broker.config.held_max // 4

    def takes_over(self, stream: StreamName, reached: int, upto: int) -> bool:
        """Is this stream fetched? It is where much is missing, or where pulling brings nothing."""
        broker = self._broker
        if not broker.reads_log:
            return False
        fetching = self._streams.get(stream)
        if fetching is None:
            known = self._pulled.get(stream)
            if known is None or known[0] != reached:
                known = self._pulled[stream] = (reached, broker.round)
            if upto - reached <= self._behind and broker.round - known[1] < broker.config.young:
                return False
            fetching = self._streams[stream] = Fetching(reached, broker.round)
            fetching.server = stream[1] if stream[1] in self._up() else self._another(fetching)
        if upto > fetching.target:
            fetching.target = upto
            self._ask(stream, fetching)
        return True

    def tick(self) -> None:
        """A round has begun."""
        now = self._broker.round
        for stream, fetching in list(self._streams.items()):
            reached = self._broker.order.reached(stream)
            if reached > fetching.seen:
                fetching.seen, fetching.since, fetching.attempts = reached, now, 0
                fetching.lacking.clear()
            elif now - fetching.asked_at >= self._broker.config.young << min(fetching.attempts, _DOUBLINGS):
                fetching.attempts += 1
                fetching.asked.clear()
                fetching.server = self._another(fetching)
                self._ask(stream, fetching)
                continue
            if not fetching.asked:
                self._ask(stream, fetching)

    def receive(self, sender: int, packet: Fetch | Fetched) -> None:
        if isinstance(packet, Fetch):
            self._serve(sender, packet)
        else:
            self._broker.take_old(packet)
            self._answered(sender, packet)

    def _answered(self, sender: int, packet: Fetched) -> None:
        """An answer came, and its messages were taken."""
        stream = (packet.topic, packet.source)
        fetching = self._streams.get(stream)
        if packet.more or fetching is None or packet.first not in fetching.asked:
            return  # the rest follows, or an answer to an earlier question
        del fetching.asked[packet.first]
        fetching.target = max(fetching.target, packet.reached)
        reached = self._broker.order.reached(stream)
        if packet.upto >= packet.first:
            fetching.lacking.clear()
            if packet.first == reached + 1 and not self._holds(stream, packet.first):
                return  # there was no room for it: `tick` asks again
        elif packet.first == reached + 1:
            lacking = {node: other for node, other in fetching.lacking.items() if other.first == packet.first}
            fetching.lacking = lacking | {sender: packet}
            if self._up() <= fetching.lacking.keys():
                self._nobody_has_it(stream, fetching)
                return
            fetching.server = self._another(fetching)
        else:
            return  # the server is not so far: `tick` asks again
        self._ask(stream, fetching)

    def missing(self) -> list[Missing]:
        """What this broker fetches and waits for in vain."""
        return [
            Missing(
                stream[0],
                stream[1],
                self._broker.order.reached(stream) + 1,
                fetching.target,
                tuple(sorted(fetching.lacking)),
                fetching.attempts,
            )
            for stream, fetching in self._streams.items()
            if fetching.attempts
        ]

    def _ask(self, stream: StreamName, fetching: Fetching) -> None:
        """Ask for the next ranges, as far as there is room for the answers."""
        broker = self._broker
        reached = broker.order.reached(stream)
        if reached >= fetching.target:
            del self._streams[stream]
            return
        while fetching.server >= 0 and len(fetching.asked) < _DEPTH:
            first = max(reached, *fetching.asked.values(), 0) + 1
            while self._holds(stream, first):
                first += 1
            if first > fetching.target:
                return
            # The next message of a stream may be the one that all others wait for: ask for it in any case.
            if (fetching.asked or first > reached + 1) and broker.order.held >= broker.config.held_max // 2:
                return
            last = min(first + self._chunk - 1, fetching.target)
            fetching.asked[first] = last
            fetching.asked_at = broker.round
            broker.out.send(fetching.server, Fetch(*stream, first, last))

    def _holds(self, stream: StreamName, seq: int) -> bool:
        return self._broker.order.holds(TopicMessageId(*stream, seq))

    def _up(self) -> set[int]:
        broker = self._broker
        return set(range(broker.brokers)) - broker.views.down - {broker.node}

    def _another(self, fetching: Fetching) -> int:
        """A broker that is up and has not said no, drawn at random; −1: there is none."""
        up = self._up()
        among = sorted(up - fetching.lacking.keys() - {fetching.server}) or sorted(up - fetching.lacking.keys())
        fetching.asked.clear()
        return self._broker.rng.choice(among) if among else -1

    def _nobody_has_it(self, stream: StreamName, fetching: Fetching) -> None:
        """Every broker that is up lacks the next message. See the top of this file."""
        broker = self._broker
        further = [packet for node, packet in fetching.lacking.items() if self._may_lead(node, packet)]
        waited = broker.round - fetching.since
        if further and waited >= broker.config.young:
            had = any(packet.had for packet in further)
            if not self._absent(stream) or (had and waited >= broker.config.patience):
                self._streams.clear()
                broker.go_on_behind(max(further, key=lambda packet: packet.reached).levels)
                return
        fetching.lacking.clear()  # `tick` asks them again: a broker may come back, or get it

    def _may_lead(self, node: int, packet: Fetched) -> bool:
        """Is it further than the message that is missing, in all groups of this broker?"""
        return packet.reached >= packet.first and self._broker.relays <= self._broker.views.groups(node)

    def _absent(self, stream: StreamName) -> bool:
        """Is a broker down that may have the message?"""
        views = self._broker.views
        sources = {source for _, source in self._broker.order.levels()}
        return not views.down.isdisjoint({stream[1], *sources, *views.lost})

    # -- serving ------------------------------------------------------------------------------------------------------

    def serves(self, node: int) -> bool:
        """Has `node` fetched from this broker lately?"""
        return self._served.get(node, 0) > self._broker.round

    def _serve(self, sender: int, packet: Fetch) -> None:
        broker, stream = self._broker, (packet.topic, packet.source)
        self._served[sender] = broker.round + broker.config.young
        last = min(packet.last, packet.first + self._chunk - 1)
        rumours = broker.store.run(*stream, packet.first, last, ANSWER_BYTES)
        if not rumours and broker.reads_log and packet.first <= broker.order.reached(stream):
            self._look_ups.begin(sender, *stream, packet.first, last)
        else:
            self._answer(sender, stream, packet.first, rumours)

    def found(self, topic: str, source: int, first: int, last: int, messages: Sequence[Message]) -> None:
        """The driver has read the log, which has no clocks."""
        rumours = [Rumour(message, 0) for message in run_of(messages, first)]
        for sender in self._look_ups.done(topic, source, first, last):
            self._answer(sender, (topic, source), first, rumours)

    def _answer(self, to: int, stream: StreamName, first: int, rumours: list[Rumour]) -> None:
        broker = self._broker
        reached = broker.order.reached(stream)
        lacks = not rumours and first <= reached
        *parts, rest = in_packets(rumours, PACKET_BYTES, _weight, count_max=FETCHED_MAX) or [()]
        for part in parts:
            broker.out.send(to, Fetched(*stream, first, part, broker.time, more=True))
        broker.out.send(
            to,
            Fetched(
                *stream,
                first,
                rest,
                broker.time,
                upto=first + len(rumours) - 1,
                reached=reached,
                had=lacks and first > broker.begins.get(stream, 0),
                levels=broker.digests.levels_for(broker.views.groups(to)) if lacks else (),
            ),
        )


def _weight(rumour: Rumour) -> int:
    return weight(rumour.message)
