"""Messages that one publisher publishes together share packets, and the work around each of them.

A *run* is messages of one source on one topic with consecutive sequence numbers. The outcome is that of publishing or
receiving them one by one (`tests/protocols/vcube_ps/test_runs.py` compares the two), except that a packet carries
several. Acknowledging, settling, and finding messages that waited for them happen once for the run.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from antecede.core import Message
from antecede.protocols.bundling import in_packets
from antecede.protocols.vcube_ps.custody import Custody
from antecede.protocols.vcube_ps.memory import trim
from antecede.protocols.vcube_ps.packets import AGAIN, DIRECT, LEVELS_MAX, ONCE, Pub
from antecede.protocols.vcube_ps.records import Carries, DeliveredRun, Logged, PublishedRun
from antecede.protocols.vcube_ps.state import Group, State
from antecede.protocols.vcube_ps.streams import Stream

#: Payload of messages that share a packet: as much as travels well in one piece.
_PACKET_BYTES: Final = 32 * 1024


class Runs:
    """The part of a node that publishes and takes runs."""

    def __init__(self, state: State, custody: Custody) -> None:
        self._state = state
        self._custody = custody

    def publish(self, group: Group, payloads: Sequence[bytes]) -> list[Message]:
        """All of them; the window has room."""
        state = self._state
        out = state.out
        clock = state.clock.stamp(len(payloads))
        messages = group.order.stamp_run(group.name, group.seq + 1, payloads, clock)
        group.seq += len(messages)
        if state.logged:
            keep_logged(state, messages, run=True)
        else:
            out.keep(PublishedRun(tuple(messages)))
        out.deliveries += messages
        stream = group.stream(state.node)
        stream.take_own(messages)
        trim(state, group, stream)
        hops = group.view.near[state.dimension]
        if hops:
            for part in in_packets(messages, _PACKET_BYTES, _payload_bytes):
                packet = Pub(part, ONCE, stream.stable)
                for hop in hops:
                    out.send(hop, packet)
        self._custody.published(group, stream)
        return messages

    def take(self, group: Group, stream: Stream, packet: Pub) -> Sequence[Message] | None:
        """What became deliverable and is not delivered yet, if the packet is a run that is next in its stream.

        None: it is not; take its messages one by one.
        """
        messages = packet.messages
        state = self._state
        if packet.spread == AGAIN or (packet.spread == DIRECT and not state.logged) or len(messages) == 1:
            return None
        if group.order.held_bytes >= state.timing.held_bytes_max or not stream.take_run(messages):
            return None
        ready = group.order.offer_run(messages)
        if ready is not messages:
            self._custody.received(group, stream, len(messages))
            return ready
        # Nothing was in their way, and nothing waited for them.
        if state.logged:
            keep_logged(state, messages, run=True)
        else:
            state.out.keep(DeliveredRun(messages))
        state.out.deliveries += messages
        state.clock.observe(messages[-1].clock)
        self._custody.received(group, stream, 2 * len(messages))  # they came, and were delivered
        return ()


def _payload_bytes(message: Message) -> int:
    return len(message.payload)


def keep_logged(state: State, messages: Sequence[Message], *, run: bool = False) -> None:
    """Keep what a node must know, after a crash, of messages that the driver's log has. They may be none.

    `run`: they are a run.
    """
    if messages:
        order = state.group(messages[0].topic).order
        state.out.kept += (records_of_run if run else records_of)(messages, lean=order.lean)
        if order.lean and (entries := order.fresh()):
            state.out.kept += [Carries(part) for part in in_packets(entries, LEVELS_MAX)]


def records_of_run(messages: Sequence[Message], *, lean: bool = False) -> list[Logged]:
    """`records_of` for a run, without a look at its topics, sources and sequence numbers."""
    first, count = messages[0], len(messages)
    depends = [message for message in messages[1:] if message.deps or (message.across and not lean)]
    times = range(first.clock, first.clock + count)
    if depends or not first.clock or [message.clock for message in messages] != [*times]:
        return records_of(messages, lean=lean)
    return [Logged(_bare(first, lean), messages[-1].seq)]


def records_of(messages: Iterable[Message], *, lean: bool = False) -> list[Logged]:
    """What to keep of messages that the driver's log has: one record for those that only follow each other.

    Their sequence numbers and their Lamport times both go up by one. `lean`: without entries of other topics.
    """
    found: list[Logged] = []
    first: Message | None = None
    last = clock = 0
    for message in messages:
        follows = first is not None and message.seq == last + 1 and message.source == first.source
        follows = follows and message.clock == (clock and clock + 1)
        depends = message.deps or (message.across and not lean)
        if first is None or not follows or depends or message.topic != first.topic:
            if first is not None:
                found.append(Logged(_bare(first, lean), last))
            first = message
        last, clock = message.seq, message.clock
    if first is not None:
        found.append(Logged(_bare(first, lean), last))
    return found


def _bare(message: Message, lean: bool) -> Message:
    """The message without its payload. `lean`: without entries of other topics, too."""
    across = () if lean else message.across
    return Message(message.topic, message.source, message.seq, message.deps, b"", across, message.clock)
