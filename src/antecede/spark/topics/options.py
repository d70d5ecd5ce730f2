"""Checks what a user writes in `.option(…)`, before anything is opened.

Spark ignores a misspelt option silently, and a query over the wrong data looks like one over the right data. So names
are checked as well as values, and each error says what to write instead.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal
from urllib.parse import urlsplit

from antecede.core import UsageError
from antecede.wire.address import split_address
from antecede.wire.cursors import parse_cursor
from antecede.wire.requests import FILTERS_MAX
from antecede.wire.topics import check_filter, check_topic

#: Options that Spark itself adds to those of a reader or writer.
_SPARKS_OWN: Final = frozenset(["checkpointlocation", "path"])

#: Urls of logs that another system runs (`spark.logs`).
LOG_SCHEMES: Final = ("nats", "redis", "kafka")

_CONNECTION: Final = ("token", "tls", "clearToken", "cluster", "reconnect")
_SOURCE: Final = (
    "url",
    "journal",
    "topics",
    "since",
    "until",
    "maxRowsPerBatch",
    "maxBytesPerBatch",
    "minRowsPerBatch",
    "maxTriggerDelay",
    "rowsPerPartition",
    "failOnDataLoss",
    "oneNode",
    *_CONNECTION,
)

_SINK: Final = ("url", "topic", "producer", "batch", "patience", *_CONNECTION)

#: The number of positions that one task reads. A task costs some 40 ms, reading so many rows a third of a second.
ROWS_PER_PARTITION: Final = 250_000

#: How long a node may take to publish a batch, by default: enough for some millions of messages.
PATIENCE_S: Final = 600

#: How long a query waits for a node that is down, by default: enough for the restart of a node.
RECONNECT_S: Final = 60

#: How long a stream waits for `minRowsPerBatch`, by default, as Spark's source for Kafka does.
TRIGGER_DELAY_S: Final = 900

#: The longest name of a producer, in characters.
NAME_MAX: Final = 200


@dataclass(frozen=True)
class Where:
    """A node to ask, or a journal to read."""

    url: str = ""
    token: str = ""
    tls: str = ""
    cluster: str = "antecede"
    journal: str = ""
    #: Send the token to another machine without TLS too.
    clear_token: bool = False
    #: How long a running query waits for a node that does not answer.
    reconnect_s: int = RECONNECT_S

    def __str__(self) -> str:
        return self.journal or self.url

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that the url names: host:port each."""
        return tuple([one for one in self.url.removeprefix("antecede://").rstrip("/").split(",") if one])


@dataclass(frozen=True)
class Bound:
    """Where to begin or end reading: at either end, at a position (of a node, if it is named), or at a time."""

    kind: Literal["earliest", "latest", "position", "time"]
    position: int = 0
    node: int = -1
    time_us: int = 0
    #: With a position: by stream, the last message up to it. None: the position holds at its node only.
    seen: dict[int, int] | None = None


@dataclass(frozen=True)
class SourceOptions:
    """The options of a table read from topics."""

    where: Where
    topics: tuple[str, ...]
    #: None: from the beginning in a batch query, from now on in a streaming query.
    since: Bound | None
    #: The end of a batch query: the last position to read, or a time. None: everything there is.
    until: Bound | None
    rows_max: int | None
    bytes_max: int | None
    #: A stream waits for so many positions before it begins a batch, but no longer than the delay.
    rows_min: int
    delay_s: int
    rows_per_partition: int
    fail_on_data_loss: bool
    #: Read what one node has delivered, by its positions.
    one_node: bool


def source_options(found: Mapping[str, str]) -> SourceOptions:
    options = known_options(found, _SOURCE, "reading")
    one_node = read_flag(options, "oneNode", default=False)
    return SourceOptions(
        where=_where(options, several=not one_node),
        topics=_topics(options),
        since=_bound(options, "since"),
        until=_bound(options, "until"),
        rows_max=read_count(options, "maxRowsPerBatch"),
        bytes_max=read_count(options, "maxBytesPerBatch"),
        rows_min=read_count(options, "minRowsPerBatch") or 1,
        delay_s=read_count(options, "maxTriggerDelay") or TRIGGER_DELAY_S,
        rows_per_partition=read_count(options, "rowsPerPartition") or ROWS_PER_PARTITION,
        fail_on_data_loss=read_flag(options, "failOnDataLoss", default=True),
        one_node=one_node,
    )


@dataclass(frozen=True)
class SinkOptions:
    """The options of rows written to topics."""

    where: Where
    #: The topic of all rows; empty: a column names it.
    topic: str
    #: The producer of the batch; empty: the id of the query, or a random name.
    producer: str
    batch: int
    #: How long publishing a batch may take.
    patience_s: int


def sink_options(found: Mapping[str, str]) -> SinkOptions:
    if names_logs(found):
        raise UsageError(
            "url", found["url"], "is only read", "publish with antecede.connect(url), or with Spark's own writers"
        )
    if "journal" in found:
        raise UsageError("journal", found["journal"], "is only read", "write to its node: .option('url', …)")
    options = known_options(found, _SINK, "writing")
    topic = options.get("topic", "")
    producer = options.get("producer", "")
    if len(producer) > NAME_MAX:
        raise UsageError("producer", f"{producer[:40]}…", "is too long", f"use at most {NAME_MAX} characters")
    if "batch" in options and not producer:
        raise UsageError(
            "batch", options["batch"], "numbers a batch without a producer", "name one with .option('producer', …)"
        )
    number = options.get("batch", "0")
    if not re.fullmatch(r"\d{1,18}", number):
        raise UsageError("batch", number, "is not a number", "count them from 0 on")
    return SinkOptions(
        where=_where(options, several=True),
        topic=check_topic(topic) if topic else "",
        producer=producer,
        batch=int(number),
        patience_s=read_count(options, "patience") or PATIENCE_S,
    )


def names_logs(found: Mapping[str, str]) -> bool:
    """Whether the options of a reader or writer name logs of another system."""
    return any(key.lower() == "url" and urlsplit(value).scheme in LOG_SCHEMES for key, value in found.items())


def known_options(found: Mapping[str, str], names: tuple[str, ...], doing: str) -> dict[str, str]:
    """The options by their documented names; Spark gives them in lower case."""
    by_lower = {name.lower(): name for name in names}
    options: dict[str, str] = {}
    for key, value in found.items():
        name = by_lower.get(key.lower())
        if name is not None:
            options[name] = value
        elif key.lower() == "path":
            raise UsageError("path", value, "does not name a node", "use .option('journal', …) or .option('url', …)")
        elif key.lower() not in _SPARKS_OWN:
            raise UsageError("option", key, f"is not one for {doing} topics", f"use {', '.join(names)}")
    return options


def _where(options: dict[str, str], *, several: bool = False) -> Where:
    """`several`: the url may name several nodes, apart by commas."""
    url, journal = options.get("url", ""), options.get("journal", "")
    if url and journal:
        raise UsageError("url", url, f"stands beside journal {journal!r}", "ask a node or read its journal, not both")
    if not url and not journal:
        remedy = (
            ".option('url', 'antecede://host:7400'), or .option('journal', a node's directory); for a table whose "
            "columns were declared or saved: SELECT … FROM t WITH (url = '…', topics = '…')"
        )
        raise UsageError("url", url, "neither a node nor a journal is named", remedy)
    if journal:
        for name in ("token", "tls", "clearToken", "reconnect"):
            if name in options:
                raise UsageError(name, "…", "is for asking a node", "leave it out with journal: files have permissions")
    if url and not url.startswith("antecede://"):
        raise UsageError("url", url, "is not the address of a node", "write antecede://host:port")
    if "," in url and not several:
        raise UsageError("url", url, "names several nodes", "name one: oneNode reads the deliveries of one")
    for address in url.removeprefix("antecede://").rstrip("/").split(",") if url else ():
        split_address(address)
    return Where(
        url=url,
        journal=journal,
        token=options.get("token", ""),
        tls=options.get("tls", ""),
        cluster=options.get("cluster", "antecede"),
        clear_token=read_flag(options, "clearToken", default=False),
        reconnect_s=read_count(options, "reconnect") or RECONNECT_S,
    )


def _topics(options: dict[str, str]) -> tuple[str, ...]:
    """Filters, separated by commas. For a topic with a comma in its name use `+` for that level, and `where`."""
    text = options.get("topics", "")
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise UsageError("topics", text, "no topic is named", "write for example 'rooms/+/chat,alerts/#', or '#'")
    if len(topics) > FILTERS_MAX:
        raise UsageError("topics", f"{text[:40]}…", f"names {len(topics)} filters", f"use at most {FILTERS_MAX}")
    for topic in topics:
        check_filter(topic)
    return topics


def _bound(options: dict[str, str], name: str) -> Bound | None:
    text = options.get(name, "").strip()
    if not text:
        return None
    if text == "earliest":
        return Bound("earliest")
    if text == "latest":
        return Bound("latest")
    if re.fullmatch(r"(\d+(\.\d+)?:)?\d+(@[\d.,]*)?", text):
        cursor = parse_cursor(text)
        return Bound("position", position=cursor.position, node=cursor.node, seen=cursor.seen)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        remedy = "write earliest, latest, a position such as 1200, a message's cursor, or 2026-11-15T09:00:00Z"
        raise UsageError(name, text, "is neither a position nor a time", remedy) from None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return Bound("time", time_us=int(when.timestamp() * 1_000_000))


def read_count(options: dict[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,17}", text.strip()):
        raise UsageError(name, text, "is not a count", "write a whole number from 1 on")
    return int(text)


def read_flag(options: dict[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise UsageError(name, text, "is neither true nor false", "write true or false")
    return text.lower() == "true"
