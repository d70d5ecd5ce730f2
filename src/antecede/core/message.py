"""Messages and their names.

A message is named by `(topic, source, seq)`. `seq` counts from 1 for each source on each topic without holes,
so a reader of one topic sees a gap by the number alone, whatever else the source publishes elsewhere. Only
published messages consume it.

A message carries its *dependencies*: what must be delivered before it. Which dependencies these are (changed
vector-clock entries, immediate predecessors, …) is the stamper's business (`core.clocks`); that they are waited
for is the gate's (`core.gate`).
"""

from typing import NamedTuple, TypeAlias

import msgspec

#: A message on the same topic: `(source, seq)`.
Dependency: TypeAlias = tuple[int, int]


class MessageId(NamedTuple):
    """The name of a message: stable, comparable, readable."""

    topic: str
    source: int
    seq: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.source}.{self.seq}"


class Message(msgspec.Struct, frozen=True, gc=False):
    """What an application published, as it travels. Immutable, shared by every packet that carries it."""

    topic: str
    source: int
    seq: int
    #: What must be delivered before it on its own topic; the message's own predecessor (seq − 1) is implied.
    deps: tuple[Dependency, ...] = ()
    payload: bytes = b""

    @property
    def id(self) -> MessageId:
        return MessageId(self.topic, self.source, self.seq)
