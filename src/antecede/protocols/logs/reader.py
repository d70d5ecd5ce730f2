"""The reader of several logs: it releases records in causal order across them.

Each log is read in the order of its offsets. An offset is *settled* when its record was released, is a copy (its number
was released or is held), is a tombstone, does not match the reader's filter, lies below the reader's start, or was
removed by retention. A record at (log, offset) is released when

* its number is the next of its writer on its channel, and
* for every (other, x) of its past that this reader reads, **its own log included**: everything in `other` up to x is
  settled.

Why it cannot deadlock: a record waits only for records that were appended before it, and for lower numbers of its own
writer, whose headers were fixed before. The rules and the variants that break are searched by `antecede search logs`.

*Proof of progress.* A reader that filters at the server does not see the other records. Before it may settle an offset
it needs the server's word that nothing more up to there is for it (`progress`).

*A writer met in mid-log* begins with the number met. A lower number that comes later was in flight at the reader's
start: it is released as soon as its past is settled and tagged `late`, never dropped. In a log that is not read whole a
retry is tagged too: its first copy may lie in the part that was not read, and records that depend on it may be out.

*Holes.* A writer that died may leave a hole in its numbers, and so may retention. The driver gives a hole up when it
stays for too long (`give_up`).

*Retention.* `removed` settles what the log no longer has, and a `Gap` tells the application. A record whose past names
a removed offset is tagged `incomplete`.

*Cursors.* A cursor states which releases and gaps the application has taken. It may be read between any two of them:
they are handed out one by one, and each moves the cursor by itself. A gap that waits to be taken is not behind it.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from antecede.core.errors import LimitError
from antecede.core.gate import Gate, Stream, Verdict
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.protocols.logs.header import Header
from antecede.protocols.logs.releases import ChannelCursor, Cursor, Gap, Hole, LogCursor, Release

R = TypeVar("R")

#: Channels of writers that are remembered, for each log. A writer that was silent for longer is met anew.
CHANNELS_MAX: Final = 65_536
#: Channels that a cursor names, for each log: those heard last.
CURSOR_CHANNELS_MAX: Final = 64

#: How far back a cursor names numbers that were given up.
GIVEN_UP_MAX: Final = 64
#: Gaps remembered for each log: records that name an offset in one of them are tagged.
GAPS_MAX: Final = 16

#: A writer and the key of its channel.
WriterKey: TypeAlias = tuple[int, str]


class _Marks:
    """Which offsets of a log are dealt with, where offsets ascend and may jump."""

    __slots__ = ("_done", "_open", "position")

    def __init__(self, position: int) -> None:
        #: Everything up to here was seen.
        self.position = position
        self._open: deque[int] = deque()
        self._done: set[int] = set()

    @property
    def low(self) -> int:
        """Everything up to here is dealt with."""
        return self._open[0] - 1 if self._open else self.position

    def see(self, offset: int) -> None:
        self.position = offset
        self._open.append(offset)

    def finish(self, offset: int) -> None:
        if not self._done and self._open and self._open[0] == offset:
            self._open.popleft()
            return
        self._done.add(offset)
        while self._open and self._open[0] in self._done:
            self._done.discard(self._open.popleft())

    def skip_to(self, position: int) -> None:
        self.position = max(self.position, position)

    def beyond(self) -> tuple[int, ...]:
        return tuple(sorted(self._done))


class _Channel:
    """The numbers of one writer on one channel."""

    __slots__ = ("generation", "given_up", "late", "late_below", "late_taken", "taken")

    def __init__(self, late_below: int, taken: int, generation: int) -> None:
        #: A lower number was in flight when this reader met the writer in mid-log, if it comes at all.
        self.late_below = late_below
        #: Such numbers that came, and those of them that the application took.
        self.late: set[int] = set()
        self.late_taken: set[int] = set()
        #: Numbers that an earlier reader gave up.
        self.given_up: set[int] = set()
        #: The last number that the application took.
        self.taken = taken
        #: How many gaps the log had when the writer was last heard.
        self.generation = generation


class _Log:
    def __init__(self, start: LogCursor, *, whole: bool) -> None:
        self.settled = _Marks(start.low)
        self.taken = _Marks(start.low)
        #: Taken before this reader started.
        self.before = set(start.beyond)
        #: Is it read from its first record? Then every writer begins with number 1.
        self.whole = whole
        self.channels: OrderedDict[WriterKey, _Channel] = OrderedDict()
        #: The last gaps, and how many there were.
        self.gaps: list[Gap] = []
        self.generation = 0


class _Held(NamedTuple, Generic[R]):
    log: int
    offset: int
    header: Header
    key: str
    record: R
    matches: bool
    late: bool = False


class Reader(Generic[R]):
    """Takes the records of several logs, each in the order of its offsets; gives them back in causal order."""

    def __init__(
        self, starts: Mapping[int, LogCursor], *, whole: frozenset[int] = frozenset(), held_max: int = HELD_MESSAGES_MAX
    ) -> None:
        """`starts`: the logs, and where each begins. `whole`: the logs that are read from their first record."""
        self._gate: Gate[_Held[R]] = Gate(held_max=held_max)
        self._logs = {log: _Log(start, whole=log in whole) for log, start in starts.items()}
        self._ready: deque[Release[R] | Gap | _Held[R]] = deque()
        self._held: dict[tuple[int, int], _Held[R]] = {}
        #: Logs whose counters at the gate are behind. Only while nothing is held.
        self._behind: set[int] = set()
        self._any_gaps = any(start.gaps for start in starts.values())
        for log, start in starts.items():
            self._gate.floor(_settled(log), start.low + 1)
            self._logs[log].gaps = [Gap(log, first, last) for first, last in start.gaps]
            for at in start.channels:
                channel = self._meet(log, (at.writer, at.key), at.late_below, at.taken)
                channel.late.update(at.late)
                channel.late_taken.update(at.late)
                channel.given_up.update(at.given_up)
                channel.generation -= at.stale

    # -- what comes in -------------------------------------------------------------------------------------------------

    def arrived(
        self, log: int, offset: int, header: Header | None, record: R, *, key: str = "", matches: bool = True
    ) -> None:
        """The record at `offset` was read. Offsets that were skipped hold nothing. `header`: None, if it has none."""
        state = self._logs[log]
        if offset <= state.settled.position:
            return  # read twice, after a reconnection
        if header is not None and not self._held and self._next_in_turn(log, offset, header, record, key, matches):
            return
        self._catch_up()
        state.settled.skip_to(offset - 1)
        state.taken.skip_to(offset - 1)
        state.settled.see(offset)
        state.taken.see(offset)
        if header is None:
            self._arrived_plain(log, offset, record, matches=matches)
        else:
            self._arrived(_Held(log, offset, header, key, record, matches))
        self._advance(log)

    def progress(self, log: int, upto: int) -> None:
        """The server says that nothing more up to `upto` is for this reader."""
        state = self._logs[log]
        state.settled.skip_to(upto)
        state.taken.skip_to(upto)
        if self._held:
            self._advance(log)
        else:
            self._behind.add(log)

    def removed(self, log: int, first: int) -> None:
        """Retention: `first` is the lowest offset that the log still has."""
        state = self._logs[log]
        if first - 1 <= state.settled.position:
            return
        self._catch_up()
        gap = Gap(log, state.settled.position + 1, first - 1)
        state.gaps = [*state.gaps, gap][-GAPS_MAX:]
        state.generation += 1
        self._any_gaps = True
        state.whole = False
        state.settled.skip_to(first - 1)
        state.taken.see(gap.first)  # until the application is told
        state.taken.skip_to(gap.last)
        self._ready.append(gap)
        # A number that a held record waits for may be among what was removed.
        for held in [one for one in self._held.values() if one.log == log and not one.late]:
            self._gate.skip(_numbers(log, held), held.header.number - 1)
        self._advance(log)

    def give_up(self, hole: "Hole") -> None:
        """Wait no longer for the numbers of a hole: their writer died before it could repeat them or append tombstones.

        Should one of them come after all, it is released and tagged `late`.
        """
        self._gate.skip((hole.log, hole.writer, hole.key), hole.upto)
        self._advance(hole.log)

    # -- what goes out -------------------------------------------------------------------------------------------------

    def take(self) -> Release[R] | Gap | None:
        """The next release or gap; None when there is none now. The cursor moves with it."""
        while self._ready:
            ready = self._ready.popleft()
            if isinstance(ready, Gap):
                self._logs[ready.log].taken.finish(ready.first)
                return ready
            if isinstance(ready, Release):
                self._logs[ready.log].taken.finish(ready.offset)
                return ready
            behind_hole = self._done(ready)
            if ready.matches and not ready.header.tombstone:
                return self._release(ready, behind_hole=behind_hole)
        return None

    @property
    def whole(self) -> frozenset[int]:
        """The logs that were read from their first record, without a gap."""
        return frozenset(log for log, state in self._logs.items() if state.whole)

    @property
    def ready(self) -> int:
        """Records that may be taken."""
        return len(self._ready)

    @property
    def held(self) -> int:
        """Records that were read and wait for others."""
        return self._gate.held

    def holes(self) -> list["Hole"]:
        """The numbers that held records wait for. The driver gives one up when it has stayed the same for too long."""
        found: dict[Stream, Hole] = {}
        for held in self._held.values():
            stream = _numbers(held.log, held)
            reached = self._gate.reached(stream)
            if not held.late and stream not in found and reached < held.header.number - 1:
                found[stream] = Hole(held.log, held.header.writer, held.key, reached + 1, held.header.number - 1)
        return list(found.values())

    def awaited(self) -> dict[int, int]:
        """By log: the offset up to which held records wait for it, as far as it lies beyond what was read."""
        found = {}
        for log, state in self._logs.items():
            upto = self._gate.missing().get(_settled(log), 0) - 1
            if upto > state.settled.position:
                found[log] = upto
        return found

    def waiting(self) -> list[R]:
        """The records that wait for others."""
        return [held.record for held in self._held.values()]

    def cursor(self, channels_max: int = CURSOR_CHANNELS_MAX) -> Cursor:
        """What the application has taken. A reader that starts from it is given the rest, each record once.

        `channels_max`: of each log, the channels that were heard last are named.
        """
        return {log: self._log_cursor(log, state, channels_max) for log, state in self._logs.items()}

    # -- inside --------------------------------------------------------------------------------------------------------

    def _log_cursor(self, log: int, state: _Log, channels_max: int) -> LogCursor:
        low = state.taken.low
        beyond = {offset for offset in state.before if offset > low} | set(state.taken.beyond())
        recent = list(state.channels.items())[-channels_max:]
        channels = [
            ChannelCursor(
                writer,
                key,
                channel.taken,
                channel.late_below,
                tuple(sorted(channel.late_taken)),
                self._given_up(log, writer, key, channel),
                channel.generation < state.generation,
            )
            for (writer, key), channel in recent
        ]
        gaps = tuple([(gap.first, gap.last) for gap in state.gaps])
        return LogCursor(low, tuple(sorted(beyond)), tuple(channels), gaps)

    def _given_up(self, log: int, writer: int, key: str, channel: _Channel) -> tuple[int, ...]:
        """Numbers of a channel that may still come late: given up, and not taken since."""
        stream = (log, writer, key)
        recent = range(max(1, channel.taken - GIVEN_UP_MAX), channel.taken)
        lately = [number for number in recent if self._gate.gave_up(stream, number)]
        return tuple(sorted({*lately, *channel.given_up} - channel.late_taken))

    def _arrived_plain(self, log: int, offset: int, record: R, *, matches: bool) -> None:
        """A producer that knows nothing of us: no past, in the order of the log."""
        state = self._logs[log]
        state.settled.finish(offset)
        if not matches or offset in state.before:
            state.taken.finish(offset)
        else:
            self._ready.append(Release(log, offset, record, ()))

    def _arrived(self, held: _Held[R]) -> None:
        log, offset, number = held.log, held.offset, held.header.number
        state = self._logs[log]
        channel = state.channels.get((held.header.writer, held.key))
        if channel is None:
            first = 1 if state.whole else number + (offset in state.before)
            channel = self._meet(log, (held.header.writer, held.key), first, first - 1)
        state.channels.move_to_end((held.header.writer, held.key))
        stream = _numbers(log, held)
        if channel.generation < state.generation:  # as if it were met anew: what came before may have been removed
            channel.generation = state.generation
            self._gate.skip(stream, number - 1)
        if offset in state.before:  # taken, or a copy of a record that may not be taken yet
            self._finish(held)
            return
        late = number not in channel.late and (number < channel.late_below or number in channel.given_up)
        if self._gate.gave_up(stream, number):
            late = True
            self._gate.mark_settled(stream, number)
        if late:
            # Numbers that follow were released; its own past is waited for all the same.
            channel.late.add(number)
            held = held._replace(late=True)
            stream, number = (log, offset, "late"), 1
        verdict = self._gate.offer(held, ((stream, number),), self._needs(held))
        if verdict is Verdict.FULL:
            raise LimitError("records held", self._gate.held, HELD_MESSAGES_MAX, "a log that others wait for is stuck")
        if verdict is Verdict.DUPLICATE:
            self._finish(held)
        else:
            self._held[log, offset] = held

    def _next_in_turn(self, log: int, offset: int, header: Header, record: R, key: str, matches: bool) -> bool:
        """Release a record that waits for nothing, while nothing is held: most records, in few steps.

        On False nothing has changed. The gate's counters of logs are left behind; `_catch_up` raises them before they
        are needed.
        """
        logs = self._logs
        state = logs[log]
        channel = state.channels.get((header.writer, key))
        if channel is None or channel.generation != state.generation or offset in state.before:
            return False
        for other, reached in header.past:
            named = logs.get(other)
            if named is not None and named.settled.position < reached:
                return False
        if not self._gate.admit((log, header.writer, key), header.number):
            return False
        state.settled.position = offset  # nothing is held, so everything up to here is settled
        state.taken.see(offset)
        state.channels.move_to_end((header.writer, key))
        self._behind.add(log)
        self._ready.append(_Held(log, offset, header, key, record, matches))
        return True

    def _catch_up(self) -> None:
        if self._behind:
            for log in self._behind:
                self._gate.floor(_settled(log), self._logs[log].settled.low + 1)
            self._behind.clear()

    def _meet(self, log: int, writer: WriterKey, late_below: int, taken: int) -> _Channel:
        state = self._logs[log]
        channel = state.channels[writer] = _Channel(late_below, taken, state.generation)
        self._gate.floor((log, *writer), taken)
        if len(state.channels) > CHANNELS_MAX:
            forgotten, _ = state.channels.popitem(last=False)
            self._gate.forget((log, *forgotten))
        return channel

    def _needs(self, held: _Held[R]) -> list[tuple[Stream, int]]:
        return [(_settled(log), offset + 1) for log, offset in held.header.past if log in self._logs]

    def _finish(self, held: _Held[R]) -> None:
        """A copy, or a record taken before: nothing is given to the application."""
        state = self._logs[held.log]
        state.settled.finish(held.offset)
        state.taken.finish(held.offset)

    def _advance(self, log: int) -> None:
        """Raise what is settled, and release what waited for it, until nothing moves."""
        self._gate.floor(_settled(log), self._logs[log].settled.low + 1)
        while True:
            ready = self._gate.drain()
            if not ready:
                return
            for held in ready:
                self._held.pop((held.log, held.offset), None)
                if held.late:
                    self._gate.forget((held.log, held.offset, "late"))
                self._ready.append(held)
                marks = self._logs[held.log].settled
                marks.finish(held.offset)
                self._gate.floor(_settled(held.log), marks.low + 1)

    def _done(self, held: _Held[R]) -> bool:
        """The application takes it. Returns whether numbers right before it were given up."""
        state = self._logs[held.log]
        state.taken.finish(held.offset)
        channel = state.channels.get((held.header.writer, held.key))
        if channel is None:
            return False
        number, before = held.header.number, channel.taken
        if held.late:
            channel.late_taken.add(number)
            return False
        channel.taken = max(before, number)
        return number > before + 1

    def _release(self, held: _Held[R], *, behind_hole: bool) -> Release[R]:
        incomplete = self._any_gaps and any(
            gap.first <= offset <= gap.last
            for log, offset in held.header.past
            if log in self._logs
            for gap in self._logs[log].gaps
        )
        copy = held.header.retry and not self._logs[held.log].whole
        return Release(held.log, held.offset, held.record, held.header.past, held.late, incomplete, copy, behind_hole)


def _settled(log: int) -> Stream:
    return log


def _numbers(log: int, held: _Held[R]) -> Stream:
    return (log, held.header.writer, held.key)
