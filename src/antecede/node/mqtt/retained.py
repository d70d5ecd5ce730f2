"""The retained messages of a node: for each topic the last one that was published with the retain flag (3.3.1.3).

Every node keeps the table by itself, from its deliveries. Two retained messages that were published at the same time on
one topic may come in another order at another node. So the one with the higher Lamport time stays, whatever came last:
all nodes agree in the end, and a message that follows another always replaces it. An empty payload removes the topic
([MQTT-3.3.1-6]); the time of the removal is kept for a while, for a message that comes later and is older.

A new subscription is given the messages that match, in the order in which this node delivered them, as of one moment;
what was delivered after that moment comes from the feed.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from antecede.core import Message
from antecede.core.caches import BoundedCache
from antecede.wire.mqtt.envelopes import ApplicationMessage
from antecede.wire.topics import TopicFilter

log = logging.getLogger("antecede.node")

#: Topics with a retained message, and the bytes of their payloads. They are in memory.
RETAINED_MAX: Final = 65_536
RETAINED_BYTES_MAX: Final = 64 * 1024 * 1024
#: Removals that are remembered.
_REMOVED_MAX: Final = 4096


class Stamp(NamedTuple):
    """Orders retained messages of one topic, in the same way at all nodes."""

    clock: int
    source: int
    seq: int


class Retained(NamedTuple):
    """One retained message."""

    position: int
    stamp: Stamp
    message: ApplicationMessage
    #: The envelope, as the journal has it.
    payload: bytes


class RetainedTable:
    """By topic."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Retained] = {}
        self._removed: BoundedCache[str, Stamp] = BoundedCache(_REMOVED_MAX)
        self._bytes = 0
        self._said = False
        #: Called with a topic whose message has changed.
        self.changed: Callable[[str], None] = lambda topic: None

    @property
    def count(self) -> int:
        """Those that clients have published."""
        return sum([not topic.startswith("$") for topic in self._by_topic])

    def get(self, topic: str) -> Retained | None:
        return self._by_topic.get(topic)

    def at(self, position: int) -> ApplicationMessage | None:
        """The message that was delivered at a position, if it is retained still. Rare: it looks through all."""
        return next((row.message for row in self._by_topic.values() if row.position == position), None)

    def restore(self, rows: Iterable[Retained]) -> None:
        for row in rows:
            self._put(row)

    def look(self, position: int, message: Message, opened: ApplicationMessage) -> None:
        """Look at a delivery with the retain flag."""
        stamp = Stamp(message.clock or position, message.source, message.seq)
        former = self._by_topic.get(opened.topic)
        latest = self._removed.get(opened.topic) if former is None else former.stamp
        if latest is not None and latest >= stamp:
            return
        if former is not None:
            self._drop(former)
        if opened.payload:  # [MQTT-3.3.1-5], [MQTT-3.3.1-7]
            self._put(Retained(position, stamp, opened, message.payload))
        else:
            self._removed[opened.topic] = stamp
        self.changed(opened.topic)

    def _put(self, row: Retained) -> None:
        size = len(row.payload)
        if len(self._by_topic) >= RETAINED_MAX or self._bytes + size > RETAINED_BYTES_MAX:
            if not self._said:
                self._said = True
                text = "no more messages can be retained: %d topics with %d bytes are; logged once"
                log.error(text, len(self._by_topic), self._bytes)
            return
        self._removed.pop(row.message.topic, None)
        self._by_topic[row.message.topic] = row
        self._bytes += size

    def _drop(self, row: Retained) -> None:
        del self._by_topic[row.message.topic]
        self._bytes -= len(row.payload)

    def matching(self, pattern: str, now_us: int) -> Iterator[Retained]:
        """Those that a new subscription is given, in the order of their delivery here; not those that expired."""
        if "+" not in pattern and "#" not in pattern:
            one = self._by_topic.get(pattern)
            found = [] if one is None else [one]
        else:
            matches = TopicFilter(pattern).matches
            found = [row for topic, row in self._by_topic.items() if matches(topic)]
        for row in sorted(found, key=lambda row: row.position):
            expires_us = row.message.expires_us()
            if expires_us is None or expires_us > now_us:  # 3.3.2.3.3
                yield row
