"""Catching up in bulk: a node that missed many messages fetches them, and other nodes serve it from their logs.

A node that was away for longer than other nodes hold messages in memory is *behind*. Publishers do not wait for it
(`window`), and custodians do not push to it. It asks for ranges of sequence numbers (`Fetch`), two requests at a time
for each source, and for the next range as soon as an answer is complete (`Fetched`). So it goes as fast as disks and
links allow, without a timer. It asks the custodian of the stream first, then one node after the other.

A node that serves takes messages from memory, or has its driver read them from the log of what it delivered
(`Outbox.look_up`). A message is *gone* when no node that is up has it, one of them is further than that, and no member
that is down may have it. A member that is down is given time to come back: less where retention has removed the message
at another node, more where nodes that are up only joined behind it (`Timing.absent_attempts_max`). Then the node gives
the message up: it leaves the topic and joins again, visibly, with floors that the others tell it.

What arrives down the trees meanwhile is far ahead of what was delivered. The node refuses messages that it could only
hold, once they are too many: it fetches them later.
"""

from collections.abc import Callable, Sequence
from typing import Final

from antecede.core import Message
from antecede.core.process import Missing
from antecede.protocols.bundling import in_packets
from antecede.protocols.lookups import ANSWER_BYTES, PACKET_BYTES, LookUps, run_of, weight
from antecede.protocols.vcube_ps.packets import DIRECT, Fetch, Fetched, Pub
from antecede.protocols.vcube_ps.state import Group, State
from antecede.protocols.vcube_ps.streams import Fetching, Stream

#: Timer: see whether a node that fetches has made progress.
FETCH: Final = "fetch"

#: Requests under way for one source: the server reads the next range while this node works on the last.
_DEPTH: Final = 2


class CatchingUp:
    """The part of a node that fetches and serves old messages.

    `lost(group)` is called when the next message of a stream is gone at every node.
    """

    def __init__(self, state: State, lost: Callable[[Group], None]) -> None:
        self._state = state
        self._lost = lost
        self._look_ups = LookUps(state.out)
        # Streams that may ask for more once less is held.
        self._waiting: set[tuple[str, int]] = set()

    # -- fetching -----------------------------------------------------------------------------------------------

    def begin(self, group: Group, stream: Stream, until: int, server: int = -1) -> None:
        """There are messages up to `until`: fetch what is missing of them."""
        until = min(until, stream.limit)
        if until <= stream.got or not group.takes:
            return
        fetching = stream.fetching
        if fetching is None:
            fetching = stream.fetching = Fetching(server)
            fetching.seen = stream.got
            if server < 0 or server in self._state.down:
                self._choose(group, stream, fetching)
            self._arm(group, stream, fetching)
        if until > fetching.target:
            fetching.target = until
            self._ask(group, stream, fetching)

    def go_on(self) -> None:
        """An input is dealt with: streams that had to wait for room ask for more."""
        if self._waiting:
            waiting, self._waiting = self._waiting, set()
            for topic, source in sorted(waiting):
                group = self._state.group(topic)
                stream = group.stream(source)
                if stream.fetching is not None:
                    self._ask(group, stream, stream.fetching)

    def tick(self, group: Group, stream: Stream) -> None:
        """The timer went off."""
        fetching = stream.fetching
        if fetching is None or self._done(stream, fetching):
            return
        if stream.got > fetching.seen:
            fetching.seen = stream.got
            fetching.attempts = 0
        else:
            fetching.attempts += 1
            fetching.asked.clear()
            fetching.refused = False
            lacking = fetching.lacking_at(stream.got + 1)
            if self._state.up() <= lacking.keys():
                lacking.clear()  # ask them again: a node may come back, or get it
            if not self._state.timing.goes_on(fetching.attempts):
                stream.fetching = None
                return
            if fetching.attempts > 1 or fetching.server in self._state.down:
                self._choose(group, stream, fetching, other=True)
            self._ask(group, stream, fetching)
        self._arm(group, stream, fetching)

    def on_fetched(self, sender: int, packet: Fetched) -> None:
        group = self._state.group(packet.topic)
        stream = group.stream(packet.source)
        fetching = stream.fetching
        if fetching is None or packet.first not in fetching.asked:
            return  # an answer to an earlier question
        del fetching.asked[packet.first]
        if packet.got > fetching.target + self._state.timing.burst:
            fetching.target = min(packet.got, stream.limit)
        if packet.upto >= packet.first:
            if packet.first == stream.got + 1:  # its messages were lost, or refused
                fetching.lacking_at(packet.first).pop(sender, None)
            fetching.refused = packet.first > stream.got and packet.first not in stream.log
        elif packet.first == stream.got + 1:
            lacking = fetching.lacking_at(packet.first)
            lacking[sender] = (packet.got >= packet.first, packet.gone > 0)
            if self._state.up() <= lacking.keys():
                self._nobody_has_it(group, stream, lacking)
                return
            self._choose(group, stream, fetching, other=True)
        self._ask(group, stream, fetching)

    def missing(self) -> list[Missing]:
        """What this node fetches and waits for in vain."""
        return [
            Missing(
                group.name,
                stream.source,
                stream.got + 1,
                stream.fetching.target,
                tuple(sorted(stream.fetching.lacking_at(stream.got + 1))),
                stream.fetching.attempts,
            )
            for group in self._state.groups.values()
            for stream in group.streams.values()
            if stream.fetching is not None and stream.fetching.attempts
        ]

    def _ask(self, group: Group, stream: Stream, fetching: Fetching) -> None:
        """Ask for the next ranges, as far as there is room for the answers."""
        if self._done(stream, fetching):
            return
        state = self._state
        if fetching.server < 0:
            return  # no node is up; the timer asks again
        while len(fetching.asked) < _DEPTH:
            first = max(stream.got, *fetching.asked.values(), 0) + 1
            while first in stream.log:
                first += 1
            if first > min(fetching.target, stream.got + state.timing.retain):
                return
            # The next message of a stream may be the one that all others wait for: ask for it in any case, but not
            # again and again.
            waits = stream.got > group.order.reached(group.name, stream.source) or fetching.asked or fetching.refused
            if waits and group.order.held_bytes >= state.timing.held_bytes_max // 2:
                self._waiting.add((group.name, stream.source))
                return
            last = min(first + state.timing.chunk - 1, fetching.target, stream.got + state.timing.retain)
            fetching.asked[first] = last
            state.out.send(fetching.server, Fetch(group.name, stream.source, first, last))

    def _done(self, stream: Stream, fetching: Fetching) -> bool:
        if stream.got >= fetching.target:
            stream.fetching = None
            return True
        return False

    def _choose(self, group: Group, stream: Stream, fetching: Fetching, *, other: bool = False) -> None:
        """Ask the custodian; or, if that does not help, the next node that is up and has not said no."""
        state = self._state
        fetching.asked.clear()
        custodian = state.custodian(group, stream.source)
        if not other and custodian not in (-1, state.node):
            fetching.server = custodian
            return
        up = sorted(state.up() - fetching.lacking_at(stream.got + 1).keys())
        later = [node for node in up if node > fetching.server]
        fetching.server = (later or up or [-1])[0]

    def _nobody_has_it(self, group: Group, stream: Stream, lacking: dict[int, tuple[bool, bool]]) -> None:
        """Every node that is up lacks the next message: give it up if it is gone, else leave it to the timer."""
        state, fetching = self._state, stream.fetching
        assert fetching is not None
        further, had = (any(flags) for flags in zip(*lacking.values(), strict=True))
        # The source may have it though it is no member: it keeps what no member has delivered (`outside`).
        # A source that was forgotten does not come back with it.
        source = () if stream.ending else (stream.source,)
        # A node that left may have it, too: its log holds what it delivered as a member.
        if further and not state.down.isdisjoint((*source, *group.view.took())):
            timing = state.timing
            further = fetching.attempts > (timing.attempts_max // 2 if had else timing.absent_attempts_max)
        if further and not fetching.asked_twice:
            # A node may have got it since it said no, and the publisher have dropped it because of that (`outside`).
            fetching.asked_twice = True
            lacking.clear()
            self._choose(group, stream, fetching, other=True)
            self._ask(group, stream, fetching)
        elif further:
            stream.fetching = None
            self._lost(group)

    def _arm(self, group: Group, stream: Stream, fetching: Fetching) -> None:
        pause_us = self._state.timing.pause_us(fetching.attempts)
        self._state.out.wake_after(pause_us, (FETCH, group.name, stream.source))

    # -- serving ------------------------------------------------------------------------------------------------

    def on_fetch(self, sender: int, packet: Fetch) -> None:
        group = self._state.group(packet.topic)
        stream = group.stream(packet.source)
        last = min(packet.last, packet.first + self._state.timing.chunk - 1)
        messages = stream.run_from(packet.first, last, ANSWER_BYTES)
        if not messages and self._state.logged and packet.first <= group.order.reached(packet.topic, packet.source):
            self._look_ups.begin(sender, packet.topic, packet.source, packet.first, last)
        else:
            self._answer(sender, group, stream, packet.first, last, messages)

    def send_old(self, sender: int, group: Group, stream: Stream, first: int, last: int) -> None:
        """`sender` pulled single messages that are in memory no more."""
        last = min(last, first + self._state.timing.chunk - 1, group.order.reached(group.name, stream.source))
        if first <= last:
            self._look_ups.begin(sender, group.name, stream.source, first, last)

    def found(self, topic: str, source: int, first: int, last: int, messages: Sequence[Message]) -> None:
        """The driver has read the log."""
        group = self._state.group(topic)
        stream = group.stream(source)
        for sender in self._look_ups.done(topic, source, first, last):
            self._answer(sender, group, stream, first, last, messages)

    def _answer(
        self, to: int, group: Group, stream: Stream, first: int, last: int, messages: Sequence[Message]
    ) -> None:
        out, done = self._state.out, group.order.reached(group.name, stream.source)
        run = run_of(messages, first)
        for part in in_packets(run, PACKET_BYTES, weight):
            out.send(to, Pub(part, DIRECT, stream.stable))
        gone = 0
        if not run and first <= done and first > stream.floor:
            gone = min(last, done, *[message.seq - 1 for message in messages[:1]])
        out.send(to, Fetched(group.name, stream.source, first, first + len(run) - 1, stream.got, gone))
