"""The batch that a driver carries out at a time, and what a driver asks of a journal."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from antecede.core import Message, Packet
from antecede.core.process import Change, LookUp


class Run(NamedTuple):
    """Publications made together, with numbers that follow each other; each is the delivery right behind it."""

    #: How many of the batch's changes, and of its deliveries, came before the first.
    before: int
    after: int
    length: int


@dataclass(slots=True, kw_only=True)
class Batch:
    """The outbox of one or several inputs. Its readers leave it as it is."""

    #: The position of the first delivery; the others count on. Positions start at 1 and have no holes.
    first: int
    #: The time of day, in microseconds since 1970, by a clock that may be wrong and may be set back.
    time_us: int
    deliveries: list[Message]
    #: Publications and memberships, each with the number of this batch's deliveries before it. Publications in `runs`
    #: are left out.
    changes: list[Change]
    #: How long deliveries were held here, by their index; the others were not held.
    held_us: dict[int, int]
    #: The indexes of deliveries that could not be made in the order promised.
    out_of_order: list[int] = field(default_factory=list)
    #: Counts batches since the node started.
    number: int = 0
    #: Must the commit reach the disk itself, to survive a power failure?
    sync: bool = False
    kept: list[object] = field(default_factory=list)
    sends: list[tuple[int, Packet]] = field(default_factory=list)
    timers: list[tuple[int, Hashable]] = field(default_factory=list)
    look_ups: list[LookUp] = field(default_factory=list)
    #: Publications that were made together.
    runs: list[Run] = field(default_factory=list)
    #: By topic that the node joined within the batch: how far it is with each source, at the end of the batch.
    reached: dict[str, dict[int, int]] = field(default_factory=dict)

    def all_changes(self) -> list[Change]:
        """The changes and the publications in runs, in order."""
        changes: list[Change] = []
        done_to = 0
        for run in self.runs:
            changes += self.changes[done_to : run.before]
            done_to = run.before
            for after in range(run.after, run.after + run.length):
                message = self.deliveries[after]
                changes.append(Change(after, "publish", message.topic, message))
        return changes + self.changes[done_to:]

    def in_order(self) -> Iterator[Message | Change]:
        """Deliveries and changes as they followed each other."""
        done_to = 0
        for change in self.all_changes():
            yield from self.deliveries[done_to : change.after]
            done_to = change.after
            yield change
        yield from self.deliveries[done_to:]


class Log(Protocol):
    """What a driver asks of a journal (`journal.Journal`)."""

    @property
    def position(self) -> int:
        """The position of the last delivery in it; 0 when there is none."""
        ...

    async def kept(self) -> Sequence[object]:
        """The records for `Process.restore`, oldest first."""
        ...

    async def messages(self, topic: str, source: int, first: int, last: int, *, bytes_max: int) -> list[Message]:
        """What was delivered of a source's messages `first` to `last`, by number, about `bytes_max` at most."""
        ...

    def append(self, batch: Batch, done: Callable[[Exception | None], None], *, sync: bool) -> None:
        """Make kept records, deliveries and changes durable, all or nothing; then call `done` on the event loop."""
        ...
