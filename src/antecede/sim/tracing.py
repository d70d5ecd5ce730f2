"""Writes what the engine observes into a trace. Attached only when a trace is wanted; costs nothing otherwise."""

from functools import lru_cache

from antecede.core import Message, Packet, TopicMessageId
from antecede.trace import Event, Recorder, payload_digest

_CHANGES = {
    "subscribe": Event.SUBSCRIBE,
    "unsubscribe": Event.UNSUBSCRIBE,
    "crash": Event.CRASH,
    "recover": Event.RECOVER,
}


#: Simulated applications send few different payloads, over and over.
_digest = lru_cache(maxsize=256)(payload_digest)


class Tracer:
    """An observer that records rows. It works out hops and hold times, so that protocols need not."""

    def __init__(self, recorder: Recorder) -> None:
        self._add = recorder.add
        # By node and message: links crossed, and when it was first received.
        self._seen: dict[tuple[int, TopicMessageId], tuple[int, int]] = {}
        # Messages that went to a root first, and may come back to their publishers.
        self._posted: set[TopicMessageId] = set()

    def published(self, now: int, node: int, message: Message) -> None:
        self._seen[node, message.id] = (0, now)
        topic = message.topic
        self._add(
            Event.PUBLISH,
            now,
            node,
            topic=topic,
            source=message.source,
            seq=message.seq,
            deps=(*[(topic, source, seq) for source, seq in message.deps], *message.across),
            digest=_digest(message.payload),
        )

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        self._packet(Event.SEND, now, node, to, number, packet, size)

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        self._packet(Event.RECEIVE, now, node, sender, number, packet, size)

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None:
        self._packet(Event.DROP, now, node, sender, number, packet, -1)

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        hops, since = self._seen.get((node, message.id), (-1, now))
        self._add(
            Event.DELIVER,
            now,
            node,
            topic=message.topic,
            source=message.source,
            seq=message.seq,
            hops=hops,
            held_us=now - since,
            note="out_of_order" if out_of_order else "",
            digest=_digest(message.payload),
        )

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        self._add(_CHANGES[what], now, node, topic=topic)

    def _packet(self, event: Event, now: int, node: int, peer: int, number: int, packet: Packet, size: int) -> None:
        messages, kind = packet.messages, packet.kind
        if not messages:
            self._add(event, now, node, peer=peer, packet=number, bundle=0, size=size, note=kind)
        for message in messages:
            hops = -1
            if event is Event.RECEIVE:
                hops = self._seen.get((peer, message.id), (0, 0))[0] + 1
                if kind == "post":
                    self._posted.add(message.id)
                elif node == message.source and message.id in self._posted:  # it forwards what came back
                    self._posted.discard(message.id)
                    self._seen[node, message.id] = (hops, now)
                self._seen.setdefault((node, message.id), (hops, now))
            self._add(
                event,
                now,
                node,
                peer=peer,
                topic=message.topic,
                source=message.source,
                seq=message.seq,
                packet=number,
                bundle=len(messages),
                size=size,
                hops=hops,
                note=kind,
            )
