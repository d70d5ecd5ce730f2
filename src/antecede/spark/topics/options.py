"""What a user writes in `.option(…)`, checked before anything is opened.

A misspelt option would be ignored in silence by Spark, and a query over the wrong thing looks like one over the right
thing. So every name is checked too, and whatever is wrong is said with what to write in its place.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from antecede.client.message import parse_cursor
from antecede.core import UsageError
from antecede.wire.requests import FILTERS_MAX
from antecede.wire.topics import check_filter, check_topic

#: What Spark itself puts among the options of a reader or writer.
_SPARKS_OWN: Final = frozenset(["checkpointlocation", "path"])

_WHERE: Final = ("url", "journal", "token", "tls", "cluster")
_SOURCE: Final = (
    *_WHERE,
    "topics",
    "since",
    "until",
    "maxRowsPerBatch",
    "maxBytesPerBatch",
    "rowsPerPartition",
    "failOnDataLoss",
)

_SINK: Final = ("url", "token", "tls", "cluster", "topic", "producer", "batch", "patience")

#: Positions one task reads. A task costs some 40 ms, a quarter of a million rows a third of a second.
ROWS_PER_PARTITION: Final = 250_000

#: Seconds in which a node publishes a batch: some millions of messages.
PATIENCE_S: Final = 600

#: Characters in the name of a producer.
NAME_MAX: Final = 200


@dataclass(frozen=True)
class Where:
    """A node to ask, or the journal of one to read."""

    url: str = ""
    token: str = ""
    tls: str = ""
    cluster: str = "antecede"
    journal: str = ""

    def __str__(self) -> str:
        return self.journal or self.url


@dataclass(frozen=True)
class Place:
    """Where to begin or end: at either end, at a position (of a node, if it is named), or at a time."""

    kind: Literal["earliest", "latest", "position", "time"]
    position: int = 0
    node: int = -1
    time_us: int = 0


@dataclass(frozen=True)
class SourceOptions:
    """Of a table read from topics."""

    where: Where
    topics: tuple[str, ...]
    #: None: from the beginning in a batch query, from now on in a stream.
    since: Place | None
    #: Of a batch query: the last to read, or the time before which they were delivered. None: all there are.
    until: Place | None
    rows_max: int | None
    bytes_max: int | None
    rows_per_partition: int
    fail_on_data_loss: bool


def source_options(found: Mapping[str, str]) -> SourceOptions:
    options = _known(found, _SOURCE, "reading")
    return SourceOptions(
        where=_where(options),
        topics=_topics(options),
        since=_place(options, "since"),
        until=_place(options, "until"),
        rows_max=_count(options, "maxRowsPerBatch"),
        bytes_max=_count(options, "maxBytesPerBatch"),
        rows_per_partition=_count(options, "rowsPerPartition") or ROWS_PER_PARTITION,
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
    )


@dataclass(frozen=True)
class SinkOptions:
    """Of rows written to topics."""

    where: Where
    #: Of all rows; empty: there is a column that says.
    topic: str
    #: Whose batch it is; empty: the query's own id, or a name by chance.
    producer: str
    batch: int
    #: How long a batch may take to be published.
    patience_s: int


def sink_options(found: Mapping[str, str]) -> SinkOptions:
    if "journal" in found:
        raise UsageError("journal", found["journal"], "is only read", "write to its node: .option('url', …)")
    options = _known(found, _SINK, "writing")
    topic = options.get("topic", "")
    producer = options.get("producer", "")
    if len(producer) > NAME_MAX:
        raise UsageError("producer", f"{producer[:40]}…", "is too long", f"use at most {NAME_MAX} characters")
    if "batch" in options and not producer:
        raise UsageError("batch", options["batch"], "is a number of nobody", "say whose with .option('producer', …)")
    number = options.get("batch", "0")
    if not re.fullmatch(r"\d{1,18}", number):
        raise UsageError("batch", number, "is not a number", "count them from 0 on")
    return SinkOptions(
        where=_where(options),
        topic=check_topic(topic) if topic else "",
        producer=producer,
        batch=int(number),
        patience_s=_count(options, "patience") or PATIENCE_S,
    )


def _known(found: Mapping[str, str], names: tuple[str, ...], doing: str) -> dict[str, str]:
    """The options by their names as documented: Spark has put them into lower case."""
    by_lower = {name.lower(): name for name in names}
    options: dict[str, str] = {}
    for key, value in found.items():
        name = by_lower.get(key.lower())
        if name is not None:
            options[name] = value
        elif key.lower() == "path":
            raise UsageError("path", value, "is not how a node is named", "use .option('journal', …) or 'url'")
        elif key.lower() not in _SPARKS_OWN:
            raise UsageError("option", key, f"is not one for {doing} topics", f"use {', '.join(names)}")
    return options


def _where(options: dict[str, str]) -> Where:
    url, journal = options.get("url", ""), options.get("journal", "")
    if url and journal:
        raise UsageError("url", url, f"stands beside journal {journal!r}", "ask a node or read its journal, not both")
    if not url and not journal:
        remedy = ".option('url', 'antecede://host:7400'), or .option('journal', a node's directory)"
        raise UsageError("url", url, "neither a node nor a journal is named", remedy)
    if journal:
        for name in ("token", "tls"):
            if name in options:
                raise UsageError(name, "…", "is for asking a node", "leave it out with journal: files have permissions")
    if url and not url.startswith("antecede://"):
        raise UsageError("url", url, "is not a node's", "write antecede://host:port")
    if "," in url:
        raise UsageError("url", url, "names several nodes", "name one: positions and batches are a node's own")
    return Where(
        url=url,
        journal=journal,
        token=options.get("token", ""),
        tls=options.get("tls", ""),
        cluster=options.get("cluster", "antecede"),
    )


def _topics(options: dict[str, str]) -> tuple[str, ...]:
    """Filters, apart by commas. (A topic with a comma in it is had with `+` in its place, and `where`.)"""
    text = options.get("topics", "")
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise UsageError("topics", text, "no topic is named", "write for example 'rooms/+/chat,alerts/#', or '#'")
    if len(topics) > FILTERS_MAX:
        raise UsageError("topics", f"{text[:40]}…", f"names {len(topics)} filters", f"use at most {FILTERS_MAX}")
    for topic in topics:
        check_filter(topic)
    return topics


def _place(options: dict[str, str], name: str) -> Place | None:
    text = options.get(name, "").strip()
    if not text:
        return None
    if text == "earliest":
        return Place("earliest")
    if text == "latest":
        return Place("latest")
    if re.fullmatch(r"(\d+:)?\d+", text):
        node, position = parse_cursor(text)
        return Place("position", position=position, node=node)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        remedy = "write earliest, latest, a position such as 1200, a message's cursor, or 2026-11-15T09:00:00Z"
        raise UsageError(name, text, "is neither a position nor a time", remedy) from None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return Place("time", time_us=int(when.timestamp() * 1_000_000))


def _count(options: dict[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,17}", text.strip()):
        raise UsageError(name, text, "is not a count", "write a whole number from 1 on")
    return int(text)


def _flag(options: dict[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise UsageError(name, text, "is neither true nor false", "write one of them")
    return text.lower() == "true"
