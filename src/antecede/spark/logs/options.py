"""Checks the options for reading logs: `.option("url", "nats://host:4222?streams=orders,shipping")`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from antecede.core import UsageError
from antecede.logs.address import parse_url
from antecede.logs.cursors import read_cursor
from antecede.protocols.logs import LogsCursor
from antecede.spark.topics.options import ROWS_PER_PARTITION, known_options, read_count, read_flag

_NAMES: Final = ("url", "token", "tls", "topics", "since", "until", "maxRowsPerBatch", "rowsPerPartition")
_NAMES_ALL: Final = (*_NAMES, "failOnDataLoss")


@dataclass(frozen=True)
class LogOptions:
    """The options of a table read from logs."""

    url: str
    token: str
    tls: str
    #: None: from the beginning in a batch query, from now on in a streaming query.
    since: str | None
    #: A cut or cursor to end at; empty: everything there is.
    until: str
    rows_max: int | None
    rows_per_partition: int
    fail_on_data_loss: bool

    @property
    def where(self) -> str:
        return parse_url(self.url).where

    @property
    def dense(self) -> bool:
        """Whether offsets count records. Those of Redis are times."""
        return urlsplit(self.url).scheme != "redis"

    def cursor(self, option: str) -> LogsCursor | None:
        """The cursor that `since` or `until` is, if it is one."""
        text = self.since if option == "since" else self.until
        return None if text in (None, "", "earliest", "latest") else read_cursor(str(text))


def log_options(found: Mapping[str, str]) -> LogOptions:
    given = known_options(found, _NAMES_ALL, "reading logs")
    topics = given.get("topics", "#")
    if topics != "#":
        remedy = "leave it out, order the rows, and choose then: .where(\"topic like 'orders/%'\")"
        raise UsageError("topics", topics, "would leave out rows that others wait for", remedy)
    options = LogOptions(
        url=given["url"],
        token=given.get("token", ""),
        tls=given.get("tls", ""),
        since=given.get("since"),
        until=given.get("until", ""),
        rows_max=read_count(given, "maxRowsPerBatch"),
        rows_per_partition=read_count(given, "rowsPerPartition") or ROWS_PER_PARTITION,
        fail_on_data_loss=read_flag(given, "failOnDataLoss", default=True),
    )
    parse_url(options.url)
    for name in ("since", "until"):
        options.cursor(name)
    if options.until == "earliest":
        raise UsageError("until", "earliest", "would read nothing", "give a cut, or leave it out")
    if options.rows_max is not None and not options.dense:
        remedy = "leave it out: a batch reads what there is"
        raise UsageError("maxRowsPerBatch", options.rows_max, "offsets of Redis are times, not counts", remedy)
    return options
