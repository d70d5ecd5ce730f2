"""What is said between a node and one who reads or publishes in bulk. One question at a time; each has one answer.

**Reading.** `ExtentQuery` asks what there is, `Read` for a page of it. Pages are blocks of the journal as stored:
the node neither opens nor copies them, unless its clients may not read everything.

**Publishing.** `Stage` gives rows that are kept and shown to nobody; when all of a batch are there, `Release` publishes
them, in order. A batch has the name of its producer and a number; a number that is not above the producer's last is
done already. So everything may be asked again after any failure, and `Discard` is only good manners.

**Whose they are.** Parts and producers belong to the client whose token staged or released them, by its name in the
token file: others may use the same names for parts and producers of their own, and reach nobody else's. Without tokens
all clients are one.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core.limits import DEPENDENCIES_MAX, TOPIC_BYTES_MAX
from antecede.core.message import Dependency
from antecede.wire.codec import RecordCodec
from antecede.wire.envelope import BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX
from antecede.wire.requests import FILTERS_MAX

#: The role named in the hello, and what is spoken. The number goes up with every change below other than optional
#: fields appended to a record.
ROLE: Final = "bulk"
SPEAKS: Final = "bulk/2"

#: How the name of a producer begins that was drawn at random, and is forgotten after a day.
UNNAMED: Final = "once/"

#: Bytes of blocks that are gathered in a page; blocks that are larger are split. Questions are frames like any other.
PAGE_BYTES: Final = 4 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 4 * PAGE_BYTES

#: Bytes of rows that are gathered in a stage. With the largest row behind them they fit a frame.
STAGE_BYTES: Final = 256 * 1024

#: Parts of one batch: tasks of a job. Their names fit a frame.
PARTS_MAX: Final = 16_384

_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Text: TypeAlias = Annotated[str, Meta(max_length=2048)]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
_Part: TypeAlias = Annotated[str, Meta(min_length=1, max_length=40)]
_Word: TypeAlias = Annotated[str, Meta(max_length=HEADER_BYTES_MAX)]


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of all."""


class Row(Record, frozen=True, gc=False):
    """A message to be. `after`: what this node must have delivered before it is published."""

    topic: Annotated[str, Meta(min_length=1, max_length=TOPIC_BYTES_MAX)]
    body: Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)]
    headers: Annotated[dict[_Word, _Word], Meta(max_length=HEADERS_MAX)] = {}
    after: Annotated[tuple[Dependency, ...], Meta(max_length=DEPENDENCIES_MAX)] = ()


# -- questions ---------------------------------------------------------------------------------------------------------


class ExtentQuery(Record, frozen=True, gc=False, tag="l"):
    """What is there? And with `time_us`: the last position delivered before that time; with `bytes_max`: how far to
    read from `after`, at most to `last`, for about so many bytes."""

    time_us: _Number = 0
    after: _Number = 0
    last: _Number = 0
    bytes_max: _Number = 0


class Read(Record, frozen=True, gc=False, tag="r"):
    """A page of what was delivered after position `after` up to `last`, of what the filters take or more."""

    after: _Number
    last: _Number
    filters: Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=FILTERS_MAX)]


class Stage(Record, frozen=True, gc=False, tag="s"):
    """Keep rows: those numbered `index` of `part`, a name that nobody else uses. `rows`: an array of `Row`."""

    part: _Part
    index: _Number
    rows: bytes


class Release(Record, frozen=True, gc=False, tag="p"):
    """Publish these parts, each with how many stages it has, as batch number `batch` of `producer`.

    Answered when all of it is in the journal; after `patience_ms` at the latest, with why it is not.
    """

    producer: _Name
    batch: _Number
    parts: Annotated[tuple[tuple[_Part, _Number], ...], Meta(max_length=PARTS_MAX)]
    patience_ms: _Number = 60_000


class Discard(Record, frozen=True, gc=False, tag="d"):
    """These parts will not be released."""

    parts: Annotated[tuple[_Part, ...], Meta(max_length=PARTS_MAX)]


class Cancel(Record, frozen=True, gc=False, tag="c"):
    """Publish no more of batch `batch` of `producer`, whose release is under way. What was published stays so.

    Answered with how many of its messages that is. A cancelled batch of which nothing was published may be released
    again under its number; any other is refused for good.
    """

    producer: _Name
    batch: _Number


# -- answers -----------------------------------------------------------------------------------------------------------


class ExtentReply(Record, frozen=True, gc=False, tag="i"):
    """To `ExtentQuery`: the node, what can be read (after `removed`, up to `position`), and what else was asked."""

    node: _Number
    removed: _Number
    position: _Number
    before: _Number = 0
    within: _Number = 0


class Piece(Record, frozen=True, gc=False):
    """Deliveries made together (`journal.blocks`): at positions from `first` on, or `first` plus each of `places`."""

    first: _Number
    time_us: _Number
    block: bytes
    places: tuple[_Number, ...] | None = None


class Page(Record, frozen=True, gc=False, tag="b"):
    """To `Read`: everything wanted up to position `reached`."""

    reached: _Number
    pieces: tuple[Piece, ...]


class Done(Record, frozen=True, gc=False, tag="k"):
    """To `Stage`, `Release`, `Discard`, `Cancel`. `count`: messages published by this very release, or before the
    cancellation."""

    count: _Number = 0


class Failed(Record, frozen=True, gc=False, tag="f"):
    """It came to nothing. With `kind` "gap": positions from `after` + 1 to `first` − 1 are gone."""

    kind: _Text
    text: _Text
    after: _Number = 0
    first: _Number = 0


Question: TypeAlias = ExtentQuery | Read | Stage | Release | Discard | Cancel
Answer: TypeAlias = ExtentReply | Page | Done | Failed

TO_NODE: Final = RecordCodec[Question]((ExtentQuery, Read, Stage, Release, Discard, Cancel))
TO_CALLER: Final = RecordCodec[Answer]((ExtentReply, Page, Done, Failed), frame_bytes_max=ANSWER_BYTES_MAX)

encode_rows = msgspec.msgpack.Encoder().encode
decode_rows = msgspec.msgpack.Decoder(list[Row]).decode


class _Topic(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The first field of a row; the decoder skips the rest."""

    topic: str


_decode_topics = msgspec.msgpack.Decoder(list[_Topic]).decode


def topics_of_rows(block: bytes) -> set[str]:
    """The topics of rows that were decoded before."""
    return {row.topic for row in _decode_topics(block)}
