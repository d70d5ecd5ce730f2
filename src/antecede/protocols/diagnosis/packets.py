"""The packets of VCube's diagnosis: a test and its answer."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from antecede.core import Packet
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.core.message import Source

#: A count of tests, or how often a node's state has changed. Far below what a journal can store.
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 62)]


class Probe(Packet, frozen=True, gc=False, tag="diagnosis.probe"):
    """A test: asks for an answer, and for the news since version `since` of the receiver's incarnation `life`."""

    number: Count
    life: Count
    since: Count


class Reply(Packet, frozen=True, gc=False, tag="diagnosis.reply"):
    """The answer to test `number`, with the counters that changed since."""

    number: Count
    life: Count
    version: Count
    news: Annotated[tuple[tuple[Source, Count], ...], Meta(max_length=1 << CUBE_DIMENSION_MAX)]
