"""Partitions: which topics belong together, which nodes keep them, and the numbers of their streams.

A cluster divides its topics over a fixed number of partitions. A topic belongs to one of them by a stable hash of its
first levels, so `rooms/42/chat` and `rooms/42/typing` are in the same one. A *stream* is what one node publishes in one
partition; its messages are numbered from 1. Nodes and clients name a stream by one integer:

    stream = partition * 1024 + slot

In a cluster with one partition a stream is the slot itself. The *homes* of a partition are the nodes that keep its
history: those of the highest rendezvous hash. A node that comes or goes changes the homes of few partitions.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from antecede.core.limits import PARTITIONS_MAX, SLOTS_MAX
from antecede.core.message import Message, Seq

#: Checked where a record is decoded from the wire: a stream, and a message by its stream and sequence number.
Stream: TypeAlias = Annotated[int, Meta(ge=0, lt=PARTITIONS_MAX * SLOTS_MAX)]
StreamMessage: TypeAlias = tuple[Stream, Seq]

#: Topics whose partition is remembered, and pairs of a partition and a slot. Systems have far fewer in use at a time.
_REMEMBERED_MAX: Final = 65_536


def stream_of(partition: int, slot: int) -> int:
    """The stream of the messages that the node in `slot` publishes in `partition`."""
    return partition * SLOTS_MAX + slot


def split_stream(stream: int) -> tuple[int, int]:
    """The partition and the slot of a stream."""
    return divmod(stream, SLOTS_MAX)


@lru_cache(maxsize=_REMEMBERED_MAX)
def _weight(partition: int, slot: int) -> tuple[int, int]:
    """How strongly a slot is drawn to a partition. No two slots are alike."""
    return _hash(b"home", b"%d.%d" % (partition, slot)), slot


def homes(partition: int, members: Iterable[int], replicas: int) -> tuple[int, ...]:
    """The homes of a partition among these members: `replicas` of them or as many as there are, the first one first."""
    return _homes(partition, tuple(members), replicas)


@lru_cache(maxsize=PARTITIONS_MAX)
def _homes(partition: int, members: tuple[int, ...], replicas: int) -> tuple[int, ...]:
    """Each acknowledgement asks for them, and they change only when a node comes or goes."""
    ranked = sorted(members, key=lambda slot: _weight(partition, slot), reverse=True)
    return tuple(ranked[:replicas])


@lru_cache(maxsize=2 * PARTITIONS_MAX)
def stream_base(name: str) -> int:
    """What the streams of a partition begin with, by the name of the partition; 0 for any name that is not `p1`, …"""
    return int(name[1:]) * SLOTS_MAX if name[:1] == "p" and name[1:].isdecimal() and len(name) < 5 else 0


def message_name(stream: int, seq: int) -> str:
    """The name of a message in words: `3.17`, or `p5/3.17` where its partition is not the first."""
    partition, slot = split_stream(stream)
    return f"p{partition}/{slot}.{seq}" if partition else f"{slot}.{seq}"


class Partitions:
    """The partitions of one cluster."""

    __slots__ = ("_base", "_of", "count", "levels", "names")

    def __init__(self, count: int, levels: int, domain: str) -> None:
        """`levels`: how many levels of a topic decide. `domain`: the name of the partition where there is one only."""
        self.count = count
        self.levels = levels
        #: By partition: the topic under which the protocol knows it.
        self.names: tuple[str, ...] = (domain,) if count == 1 else tuple([f"p{number}" for number in range(count)])
        self._base = {name: stream_base(name) for name in self.names}
        self._of = lru_cache(maxsize=_REMEMBERED_MAX)(self._hashed)

    def of(self, topic: str) -> int:
        """The partition of an application's topic."""
        return 0 if self.count == 1 else self._of(topic)

    def of_filter(self, pattern: str) -> frozenset[int]:
        """The partitions that may hold a topic which this filter takes: one, or all."""
        first = pattern.split("/")[: self.levels]
        if self.count > 1 and ("+" in first or "#" in first):
            return frozenset(range(self.count))
        return frozenset((self.of(pattern),))

    def number(self, name: str) -> int:
        """The partition that the protocol knows as `name`; −1: there is none."""
        return self._base.get(name, -SLOTS_MAX) // SLOTS_MAX

    def stream(self, name: str, source: int) -> int:
        """The stream of a source in the partition called `name`."""
        return self._base[name] + source

    def stream_name(self, stream: int) -> tuple[str, int]:
        """The partition's name and the source of a stream."""
        partition, source = split_stream(stream)
        return self.names[partition], source

    def stream_of(self, message: Message) -> int:
        """The stream of a message."""
        return message.source if self.count == 1 else self._base[message.topic] + message.source

    def streams(self, messages: Sequence[Message]) -> list[int]:
        """The stream of each message."""
        if self.count == 1:
            return [message.source for message in messages]
        base = self._base
        return [base[message.topic] + message.source for message in messages]

    def dependencies(self, message: Message) -> tuple[tuple[int, int], ...]:
        """The messages that this one names as its dependencies: (stream, sequence number) each."""
        if self.count == 1:
            return message.deps
        base = self._base
        here = base[message.topic]
        return (
            *[(here + source, seq) for source, seq in message.deps],
            *[(base[name] + source, seq) for name, source, seq in message.across],
        )

    def _hashed(self, topic: str) -> int:
        key = "/".join(topic.split("/", self.levels)[: self.levels])
        return _hash(b"topic", key.encode()) % self.count


def _hash(kind: bytes, data: bytes) -> int:
    """A number that is the same at every node, in every version."""
    return int.from_bytes(blake2b(data, digest_size=8, person=kind).digest(), "big")
