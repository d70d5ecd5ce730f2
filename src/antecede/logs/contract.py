"""What an adapter does for one log system. `antecede.testing.check_adapter` tests an implementation.

A log is named by a number (`protocols.logs.log_number` of its name, or a number that the URL gives). Offsets are whole
numbers from 0 to 2**63 − 1 that ascend in the order in which the log stored its records. They may jump.

An adapter decides nothing about order. It reconnects by itself where its library does; otherwise it raises
`ConnectionLostError`, and the caller tries again.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

from antecede.core.errors import AntecedeError

#: The name of the header (NATS, Kafka) or field (Redis) that has a record's causal header.
HEADER_NAME = "Antecede"


class LogRecord(NamedTuple):
    """A record as a log has it."""

    offset: int
    #: The causal header; None for a record of a producer that knows nothing of us.
    header: bytes | None
    topic: str
    payload: bytes
    headers: dict[str, str]
    #: When the log stored it: microseconds since 1970.
    time_us: int


class Outgoing(NamedTuple):
    """A record to append."""

    topic: str
    payload: bytes
    headers: dict[str, str] | None
    header: bytes
    #: The same for every copy of the record, and for its tombstone. A log that can drops copies by it.
    name: str


class Batch(NamedTuple):
    """Records that were read from a log, in the order of their offsets."""

    records: list[LogRecord]
    #: Everything in the log up to this offset has been read.
    upto: int
    #: Retention removed records that were not read: this is the first offset left. 0: it did not.
    first: int = 0


def split_at_gaps(records: list[LogRecord], after: int, upto: int, kept: int) -> list[Batch]:
    """Batches of records that were read behind `after`, up to `upto`. A new one begins where retention removed records.

    For logs whose offsets are consecutive. `kept` is the first offset that the log has now. It may lie beyond some of
    the records, since retention goes on while they are on their way; or before them, on a replica that lags. Where it
    has passed the last record read, everything up to the next one counts as removed.
    """
    batches, part, first = list[Batch](), list[LogRecord](), 0
    for record in records:
        if after + 1 < min(kept, record.offset):
            if part:
                batches.append(Batch(part, after, first))
            part, first = [], record.offset
        part.append(record)
        after = record.offset
    if after < upto and after + 1 < kept:
        return [*batches, Batch(part, after, first), Batch([], upto, upto + 1)]
    return [*batches, Batch(part, upto, first)]


class Bounds(NamedTuple):
    """What a log has."""

    #: The first offset that retention has left: a reader behind it has missed records. If the log is empty: `last` + 1.
    first: int
    #: The last offset that was ever given; one less than the first possible offset in a new log.
    last: int
    #: Does it still have every record that was ever appended?
    whole: bool


class AppendError(AntecedeError):
    """A log did not take a record. `may_arrive`: it may have it all the same. `final`: trying again is no use."""

    def __init__(self, problem: str, *, may_arrive: bool, final: bool = False) -> None:
        self.may_arrive = may_arrive
        self.final = final
        super().__init__(problem)


class LogAdapter(Protocol):
    """One connection to a log system."""

    #: The URL without secrets, for error texts.
    where: str

    async def open(self) -> dict[int, str]:
        """Connect. Returns the logs: by number, the name."""

    def log_of(self, topic: str) -> int:
        """The log on which `topic` is published. Raises `UsageError` if there is none."""

    def logs_for(self, pattern: str) -> frozenset[int]:
        """The logs that may have topics which the filter `pattern` takes."""

    def check_durability(self, log: int, durability: str) -> None:
        """Raise `UsageError` unless an acknowledged append to `log` is as safe as `durability` says."""

    async def append(self, log: int, record: Outgoing) -> "asyncio.Future[int]":
        """Send a record. The future is its offset, or fails with `AppendError`. Appends keep the order of calls."""

    def read(self, log: int, after: int, most: int) -> AsyncGenerator[Batch, None]:
        """Batches of at most `most` records with offsets above `after`; waits for more at the end of the log.

        The next batch may be fetched while the caller handles one, but no more than that. A log that is quiet gives an
        empty batch every few seconds: the caller then knows that the connection is alive.
        """

    async def progress(self, log: int, after: int, upto: int) -> int:
        """An offset up to which the log has no record above `after` any more; `after`, if that cannot be proved.

        Asked when a record waits for `upto` and reading brings nothing. The answer must come from a server that
        knows of `upto`: a replica that lags knows too little.
        """

    async def bounds(self, log: int) -> Bounds:
        """What the log has now."""

    async def close(self) -> None:
        """Close the connection."""
