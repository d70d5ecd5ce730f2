"""Messages and their names.

A message is named by `(topic, source, seq)`. `seq` counts from 1 for each source on each topic without holes,
so a reader of one topic sees a gap by the number alone, whatever else the source publishes elsewhere. Only
published messages consume it.

A message carries its *dependencies*: what must be delivered before it. Which dependencies these are (changed
vector-clock entries, immediate predecessors, …) is the stamper's business (`core.clocks`); that they are waited
for is the gate's (`core.gate`).
"""

from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core.limits import CUBE_DIMENSION_MAX, DEPENDENCIES_MAX, TOPIC_BYTES_MAX

#: Checked where a record is decoded, not where it is made: what comes off a wire is not to be believed. 2**63 − 1 is
#: what a journal can store.
Source: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << CUBE_DIMENSION_MAX)]
Seq: TypeAlias = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
Topic: TypeAlias = Annotated[str, Meta(min_length=1, max_length=TOPIC_BYTES_MAX)]

#: A message on the same topic: `(source, seq)`.
Dependency: TypeAlias = tuple[Source, Seq]


class TopicMessageId(NamedTuple):
    """The name of a message: stable, comparable, readable."""

    topic: str
    source: int
    seq: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.source}.{self.seq}"


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What an application published, as it travels. Immutable, shared by every packet that carries it.

    On a wire it is an array, not a map: field names would cost as many bytes as a short payload. A later version may
    append optional fields; a node that does not know them passes the message on without them.
    """

    topic: Topic
    source: Source
    seq: Seq
    #: What must be delivered before it on its own topic; the message's own predecessor (seq − 1) is implied.
    deps: Annotated[tuple[Dependency, ...], Meta(max_length=DEPENDENCIES_MAX)] = ()
    payload: bytes = b""
    #: What must be delivered before it on other topics of its causal domain, by those who take them: (topic, source,
    #: seq) each. Who does not take a topic passes its entries on (`core.clocks.DomainFrontier`).
    across: Annotated[tuple[tuple[Topic, Source, Seq], ...], Meta(max_length=DEPENDENCIES_MAX)] = ()

    @property
    def id(self) -> TopicMessageId:
        return TopicMessageId(self.topic, self.source, self.seq)
