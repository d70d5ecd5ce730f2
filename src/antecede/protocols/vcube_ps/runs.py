"""Messages that one publisher publishes together: they share packets, and the work around each of them.

A *run* is messages of one source on one topic whose numbers follow each other. What comes out is what publishing or
receiving them one by one gives (`tests/protocols/vcube_ps/test_runs.py` holds it against that), but that a packet
carries several, and that acknowledging, settling and looking for who waits happens once for all of them.
"""

from collections.abc import Sequence
from typing import Final

from antecede.core import Message
from antecede.protocols.bundling import in_packets
from antecede.protocols.vcube_ps.custody import Custody
from antecede.protocols.vcube_ps.packets import ONCE, Pub
from antecede.protocols.vcube_ps.records import DeliveredRun, PublishedRun
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
        out, retain = state.out, state.timing.retain
        messages = group.order.stamp_run(group.name, group.seq + 1, payloads)
        group.seq += len(messages)
        out.keep(PublishedRun(tuple(messages)))
        out.deliveries += messages
        stream = group.stream(state.node)
        if not stream.take_run(messages):
            for message in messages:
                stream.take(message)
        if len(stream.log) > retain:
            stream.forget(group.seq - retain)
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
        if packet.spread != ONCE or len(messages) == 1 or not stream.take_run(messages):
            return None
        ready = group.order.offer_run(messages)
        if ready is not messages:
            self._custody.received(group, stream, len(messages))
            return ready
        # Nothing was in their way, and nothing waited for them.
        self._state.out.keep(DeliveredRun(messages))
        self._state.out.deliveries += messages
        self._custody.received(group, stream, 2 * len(messages))  # they came, and were delivered
        return ()


def _payload_bytes(message: Message) -> int:
    return len(message.payload)
