"""What a driver carries out at a time, and what it asks of a journal."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from antecede.core import Message, Packet
from antecede.core.process import Change


class Run(NamedTuple):
    """Publications made together, each of which is the delivery right behind it."""

    #: How many of the batch's changes, and of its deliveries, came before the first.
    before: int
    after: int
    length: int


@dataclass(slots=True, kw_only=True)
class Batch:
    """The outbox of one or several inputs. Whoever is given one only reads it."""

    #: The position of the first delivery; the others count on. Positions start at 1 and have no holes.
    first: int
    #: When, by the clock on the wall, in microseconds; never less than in the batch before.
    time_us: int
    deliveries: list[Message]
    #: Publications and memberships, each with the number of this batch's deliveries that came before it; but for
    #: publications that stand in `runs`.
    changes: list[Change]
    #: How long deliveries were held here, by their index; those not named came through at once.
    held_us: dict[int, int]
    #: Which of the deliveries, by their index, could not be given in the order promised.
    out_of_order: list[int] = field(default_factory=list)
    #: Counts batches since the node started.
    number: int = 0
    #: Does somebody want it on the disk itself?
    sync: bool = False
    kept: list[object] = field(default_factory=list)
    sends: list[tuple[int, Packet]] = field(default_factory=list)
    timers: list[tuple[int, Hashable]] = field(default_factory=list)
    #: Publications that were made together.
    runs: list[Run] = field(default_factory=list)

    def all_changes(self) -> list[Change]:
        """Changes with those that stand in runs, in order."""
        changes: list[Change] = []
        place = 0
        for run in self.runs:
            changes += self.changes[place : run.before]
            place = run.before
            for after in range(run.after, run.after + run.length):
                message = self.deliveries[after]
                changes.append(Change(after, "publish", message.topic, message))
        return changes + self.changes[place:]

    def in_order(self) -> Iterator[Message | Change]:
        """Deliveries and changes as they followed each other."""
        place = 0
        for change in self.all_changes():
            yield from self.deliveries[place : change.after]
            place = change.after
            yield change
        yield from self.deliveries[place:]


class Log(Protocol):
    """What a driver needs of a journal (`live.journal.Journal`)."""

    @property
    def position(self) -> int:
        """The position of the last delivery in it; 0 when there is none."""
        ...

    @property
    def time_us(self) -> int:
        """The time of its last batch."""
        ...

    async def kept(self) -> Sequence[object]:
        """The records for `Process.restore`, oldest first."""
        ...

    def append(self, batch: Batch, done: Callable[[Exception | None], None], *, sync: bool) -> None:
        """Make kept records, deliveries and changes durable, all or nothing; then call `done` on the event loop."""
        ...
