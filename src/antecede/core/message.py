"""Messages and their names.

`(topic, source, seq)` names a message. The sequence number `seq` counts from 1 for each source on each topic, without
holes, so a reader of one topic sees a gap from the numbers alone. Only published messages consume a number.

A message carries its *dependencies*: the messages that must be delivered before it. Clocks choose them (`core.clocks`:
changed vector-clock entries, immediate predecessors, …); the gate waits for them (`core.gate`).
"""

from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core.limits import CUBE_DIMENSION_MAX, DEPENDENCIES_MAX, PROOF_BYTES_MAX, TOPIC_BYTES_MAX

#: Checked where a record is decoded from the wire, not where it is made. 2**63 − 1 is the largest number that a journal
#: can store.
Source: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << CUBE_DIMENSION_MAX)]
Seq: TypeAlias = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
Topic: TypeAlias = Annotated[str, Meta(min_length=1, max_length=TOPIC_BYTES_MAX)]

#: A message on the same topic: `(source, seq)`.
Dependency: TypeAlias = tuple[Source, Seq]


class TopicMessageId(NamedTuple):
    """The name of a message, as protocols and the audit use it."""

    topic: str
    source: int
    seq: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.source}.{self.seq}"


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A published message. It is immutable and shared by every packet that carries it.

    On the wire it is an array, not a map: field names would cost as many bytes as a short payload. A later version may
    append optional fields; a node that does not know them forwards the message without them.
    """

    topic: Topic
    source: Source
    seq: Seq
    #: Messages on the same topic that must be delivered before it. Its source's previous message (seq − 1) is implied.
    deps: Annotated[tuple[Dependency, ...], Meta(max_length=DEPENDENCIES_MAX)] = ()
    payload: bytes = b""
    #: Messages on other topics of its causal domain that must be delivered before it, where the node takes those
    #: topics. A node that does not take a topic carries its entries on (`core.clocks.DomainFrontier`).
    across: Annotated[tuple[tuple[Topic, Source, Seq], ...], Meta(max_length=DEPENDENCIES_MAX)] = ()
    #: Lamport time: 1 + the highest of what its source published or delivered before on any topic; 0: unknown. It never
    #: decides a delivery. A reader of the past merges the histories of several topics by it.
    clock: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    #: The signature of its source, where nodes sign what they publish (`wire.security.signing`). Protocols pass it on.
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)] = b""

    @property
    def id(self) -> TopicMessageId:
        return TopicMessageId(self.topic, self.source, self.seq)
