"""One subscription of one client, seen from the node: a position, a credit, and a policy for a reader that lags.

A feed is *live* while it has taken everything its filters match. Without room (the client's credit is used up, or its
socket is full) the policy decides:

  block        the feed falls behind and catches up from memory and journal. Nothing is lost, and no queue is held.
  drop_oldest  the newest `window` messages wait for room; older ones are dropped and counted, and the client is told.
  disconnect   as many messages wait; one more ends the feed.

A replay is a feed that is behind. So there is no seam between past and live: the feed reads until its position is the
node's, within one turn of the event loop.

**A reader from another node** says by stream which message it read last (`seen`). Positions are each node's own, so the
feed starts before the first message that the reader lacks, and leaves out those it has read. Should the node lack
messages that the reader lacks, too (they predate its join, or retention removed them), the feed ends with a gap that
names them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from antecede.core.errors import GapError, JournalError, StoppedError
from antecede.core.native import mypyc_attr
from antecede.node.feed_start import find_start
from antecede.node.history import NO_COLUMNS, Entry, Gap
from antecede.node.left_out import LeftOut
from antecede.node.shares import feed_bytes
from antecede.wire.requests import Begun, Ended, Subscribe
from antecede.wire.topics import TopicFilter

if TYPE_CHECKING:
    from antecede.node.hub import Hub
    from antecede.node.owners import FeedOwner

log = logging.getLogger("antecede.node")

#: Messages that a node does not have: (stream, first, last).
Missing: TypeAlias = tuple[tuple[int, int, int], ...]

#: Catching up goes in steps, and some of them at once. A step compares so many filters with topics, about, and looks at
#: no more entries.
_STEP: Final = 1024
_ENTRIES_MIN: Final = 32
_STEPS_AT_ONCE: Final = 2
#: What a step costs (`turns`), and what offering deliveries does.
_STEP_COST: Final = 16
_OFFER_COST: Final = 2
#: What closing does: in any case, for its memory, and for the messages that wait in it.
_CLOSE_COST: Final = 4
_BYTES_PER_COST: Final = 16 * 1024
_QUEUED_PER_COST: Final = 16
#: Deliveries that a feed whose reader lags takes in one step.
_OFFERS_MAX: Final = 48
#: Bytes of messages put into one record.
_ITEMS_BYTES_FULL: Final = 64 * 1024
#: What a queued message costs beside its payload.
_ENTRY_BYTES: Final = 256


@mypyc_attr(allow_interpreted_subclasses=True)
class Feed:
    """Made by a session, told of deliveries by the hub."""

    def __init__(self, session: "FeedOwner", hub: "Hub", wanted: Subscribe) -> None:
        self.session = session
        self.hub = hub
        self.number = wanted.feed
        self.patterns = wanted.filters
        self.order = wanted.order
        self.policy = wanted.policy
        self.credit = wanted.credit
        self.window = max(wanted.window, wanted.credit)
        self.over_gaps = wanted.over_gaps
        #: Every message up to here was given, or did not match.
        self.position = hub.position if wanted.since < 0 else wanted.since
        self._since = wanted.since
        self.live = False
        self.closed = False
        #: Called once, when it is closed.
        self.on_close: Callable[[], None] | None = None
        #: Does the node take all partitions that it needs? Until then it is not open.
        self._opened = False
        self.dropped = 0
        #: How old a message may be; 0: as old as it is.
        self.max_age_us = wanted.max_age_us
        #: May it be given messages before their turn?
        self.takes_early = self.order in ("fifo", "none") or self.max_age_us > 0
        #: The partitions in which there may be topics that it takes.
        self.partitions = frozenset().union(*map(hub.partitions.of_filter, wanted.filters))
        self._bytes = feed_bytes(wanted)
        self._step_entries = max(_ENTRIES_MIN, _STEP // len(wanted.filters))
        self._stepping = False
        self._matchers = [TopicFilter(pattern).matches for pattern in wanted.filters]
        self.left_out = LeftOut(wanted.seen)
        #: By stream, the last message that the reader had when it came from another node.
        self.had = dict(wanted.seen)
        #: The reader asked for all there is, and was given nothing yet.
        self.from_oldest = wanted.since == 0 and not wanted.seen
        #: The feed continues from a cursor. A feed without a cursor does not miss the messages before a join.
        self._behind_cursor = wanted.since >= 0 and not self.from_oldest
        #: The client knows that it has everything up to this position.
        self._told = 0
        #: Deliveries from this position on are offered in a later turn; None: all were offered.
        self._offers_from: int | None = None
        #: How many of these match.
        self._matched = 0
        self._queue: deque[Entry] = deque()
        self._outgoing: list[Entry] = []
        self._outgoing_bytes = 0
        self._reading: asyncio.Task[None] | None = None
        #: So many gaps of the history lie behind it: it was given the messages from elsewhere.
        self._gaps_before = 0
        #: Set when there may be room, while the feed is given a past that this node does not have.
        self._room = asyncio.Event()

    def open(self) -> None:
        """The node takes all partitions that this feed needs: begin."""
        if not self.closed:
            if self._since < 0:
                self.position = self.hub.position
            self.hub.open(self)

    def begin(self) -> None:
        self._opened = True
        if self.position > self.hub.position:
            self.end("usage", f"cursor {self.position} is ahead of the node, which is at {self.hub.position}")
        elif self._since < 0:
            self.tell(self.hub.delivered)
            self.catch_up()
        else:
            self._reading = asyncio.get_running_loop().create_task(self._supervised(partial(find_start, self)))

    def tell_progress(self) -> None:
        """Tell a client that was given nothing for a while how far it is: another node may have to go on from there."""
        behind = self.hub.position > max(self._told, self.position) and self._offers_from is None
        if behind and self.live and not self._queue and not self._outgoing and self.session.can_write:
            self.position = self.hub.position
            self.tell(self.hub.delivered)

    def tell(self, counts: Mapping[int, int]) -> None:
        self._told = self.position
        self.session.send(Begun(self.number, self.position, tuple(counts.items())))

    def takes(self, topic: str) -> bool:
        return any(matches(topic) for matches in self._matchers)

    # -- deliveries ----------------------------------------------------------------------------------------------------

    def offer(self, first: int) -> None:
        """Deliveries from position `first` on, some of which match; only while live."""
        if self.closed:
            return
        self.position = max(self.position, first - 1)  # everything before was looked at
        count = self.hub.position - self.position
        simple = not self._queue and self.left_out.nothing
        if simple and (self.policy == "block" or (self.credit >= count and self.session.can_write)):
            self._pass_on(count)
            if self.position < self.hub.position:
                self._fall_behind()
            return
        for entry in self.hub.history.recent(self.position, count) or ():
            if entry.topic is not None and self.takes(entry.topic) and not self.closed and self.live:
                self._offer_one(entry)

    @property
    def lagging(self) -> bool:
        """Do messages wait here: for a reader that has no room, or to be offered in a later turn?"""
        return bool(self._queue) or self._offers_from is not None

    def offer_later(self, first: int, counts: Mapping[str | None, int]) -> None:
        """`offer` in a later turn: the reader lags, or this client has many feeds. Others should not wait for that.

        `counts`: by topic, how many deliveries there are.
        """
        if self.closed:
            return
        if self.policy == "block":
            self.position = max(self.position, first - 1)
            self._fall_behind()
            self._catch_up_later()
            return
        self._matched += sum([count for topic, count in counts.items() if topic is not None and self.takes(topic)])
        if self._offers_from is None:
            self._offers_from = first
            self.hub.turns.add(self.session.client, self.take_offers)

    def take_offers(self) -> int:
        """Take some of the deliveries that were to be offered later; what that cost."""
        if self._offers_from is None or self.closed:
            return 0
        first = max(self._offers_from, self.position + 1)
        history = self.hub.history
        if first < history.first:
            first = self._skip_forgotten()
        last = min(self.hub.position, first + _OFFERS_MAX - 1)
        for entry in history.recent(first - 1, last + 1 - first) or ():
            if entry.topic is not None and self.takes(entry.topic) and not self.closed:
                self._matched -= 1
                self._offer_one(entry)
        self.position = max(self.position, last)
        self.flush()
        self._offers_from = None
        if last < self.hub.position and not self.closed:
            self._offers_from = last + 1
            self.hub.turns.add(self.session.client, self.take_offers)
        return _OFFER_COST + (last + 1 - first)

    def _skip_forgotten(self) -> int:
        """Memory has forgotten deliveries that were not offered yet: count them as dropped; the first there is."""
        first = self.hub.history.first
        there = [topic for topic in self.hub.history.topics(first - 1, self.hub.position) or () if topic is not None]
        forgotten = self._matched - len([topic for topic in there if self.takes(topic)])
        self._matched -= forgotten
        if forgotten and self.policy == "disconnect":
            self.end("slow", f"the reader is more than {len(self._queue)} messages behind")
        self.dropped += forgotten
        self.hub.counts.dropped += forgotten
        return first

    def _offer_one(self, entry: Entry) -> None:
        if self._leaves_out(entry):
            self.position = entry.position
        elif self.credit > 0 and self.session.can_write and not self._queue:
            self._put(entry)
        elif self.policy == "block":
            self.position = entry.position - 1  # everything before was looked at
            self._fall_behind()
        else:
            self._enqueue(entry)

    def _enqueue(self, entry: Entry) -> None:
        """Let a message wait for room: within the window, and within the bytes of this client's windows."""
        size = _entry_bytes(entry)
        while len(self._queue) >= self.window or not self.session.window_share.take(size):
            if self.policy == "disconnect":
                self.end("slow", f"the reader is more than {len(self._queue)} messages behind, the most that may wait")
                return
            self.dropped += 1
            self.hub.counts.dropped += 1
            if not self._queue:  # other feeds of this client hold all that it may
                return
            self._dequeue()
        self._queue.append(entry)

    def _dequeue(self) -> Entry:
        entry = self._queue.popleft()
        self.session.window_share.give_back(_entry_bytes(entry))
        return entry

    def offer_early(self, entry: Entry) -> None:
        """A message whose turn has not come, for a feed that `takes_early`. Without room it comes in its turn."""
        new = not self.lagging and not self.left_out.has(entry)
        if self.live and not self.closed and self.credit > 0 and self.session.can_write and new:
            self.left_out.gave_early(entry)
            position = self.position
            self._put(entry)
            self.position = position

    def room(self) -> None:
        """The client gave credit, or its socket takes more bytes."""
        if not self._opened:
            return
        self._room.set()
        if self._queue:
            while self._queue and self.credit > 0 and self.session.can_write:
                entry = self._dequeue()
                if not self._is_late(entry):
                    self._put(entry)
            self.flush()
        elif not self.live:
            self.catch_up()

    def flush(self) -> None:
        """Hand the messages that have gathered to the session, as one record."""
        if self._outgoing:
            outgoing, self._outgoing = self._outgoing, []
            self._outgoing_bytes = 0
            self._send(self.hub.history.columns(outgoing))
        elif self.dropped and self.max_age_us and self.session.can_write:
            self._send(NO_COLUMNS)  # no message may follow for long

    # -- catching up ---------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Read from memory as far as there is room; from the journal in a task of its own."""
        for _ in range(_STEPS_AT_ONCE):
            if not self._catch_up_some():
                break
        else:
            if self._has_room():
                self._catch_up_later()
        self.flush()

    def _catch_up_later(self) -> None:
        if not self._stepping:
            self._stepping = True
            self.hub.turns.add(self.session.client, self._take_turn)

    def _take_turn(self) -> int:
        self._stepping = False
        self.catch_up()
        return _STEP_COST * _STEPS_AT_ONCE

    def _catch_up_some(self) -> bool:
        """Do one step. False: that was all for now."""
        if self.live or not self._has_room():
            return False
        if self.position < self.hub.history.first - 1:
            self._reading = asyncio.get_running_loop().create_task(self._supervised(self._read_journal))
            return False
        if self.position < self.hub.position:
            self._pass_on(self._step_entries)
        if self.position >= self.hub.position and self._has_room():
            self._become_live()
        return not self.live

    def _has_room(self) -> bool:
        return not self.closed and self._reading is None and self.credit > 0 and self.session.can_write

    async def _read_journal(self) -> None:
        history = self.hub.history
        while not self.closed and self.credit > 0 and self.session.can_write and self.position < history.first - 1:
            try:
                entries, reached = await history.older(self.position, self.takes, self.patterns)
            except GapError as gap:
                if not self.from_oldest:
                    raise
                self.position = gap.first - 1  # retention was faster; the reader asked for all there still is
                continue
            self.from_oldest = False
            self._give(entries, reached)
            self.flush()

    # -- a past that this node does not have (`past.replay`) -----------------------------------------------------------

    async def room_for_past(self) -> None:
        """Return when the reader has room, or the feed is closed."""
        while not self.closed and not (self.credit > 0 and self.session.can_write):
            self.flush()
            self._room.clear()
            await self._room.wait()

    def give_past(self, entry: Entry) -> None:
        """Give a message that this node did not deliver at any position."""
        if not self.closed and not self._is_late(entry):
            self._put(entry)

    def goes_on_behind(self, position: int, levels: dict[int, int]) -> None:
        """The reader was given everything up to this position, which is `levels` by stream."""
        self.flush()
        self.position = position
        self.left_out.reached(levels)
        self._gaps_before = len(self.hub.history.gaps)
        self.from_oldest = False
        self.tell(levels)

    async def _supervised(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task of this feed, and tell the reader if it fails."""
        try:
            await work()
        except GapError as gap:
            self.end("gap", str(gap), gap.after, gap.first, gap.missing)
        except (JournalError, StoppedError) as error:
            self.end("stopped", str(error))
        except Exception as error:  # no one awaits this task: without an end the reader would wait for ever
            log.exception("a feed of client %r has failed", self.session.name)
            self.end("stopped", f"the node failed to read for this feed ({type(error).__name__}: {error})"[:2000])
        finally:
            self._reading = None
        self.catch_up()

    def _before_gap(self, end: int) -> int:
        """How far the feed may be given messages, of those up to `end`. At a gap it ends."""
        gaps = self.hub.history.gaps_from(self.position, self._gaps_before)
        gap = next((gap for gap in gaps if self.minds(gap)), None)
        if gap is None or gap.position >= end:
            return end
        if gap.position == self.position:
            self.end_at(gap)
        return gap.position

    def minds(self, gap: Gap) -> bool:
        """Does the reader lack messages of this gap? It may have read them at another node."""
        if self.over_gaps or gap.partition not in self.partitions or (gap.joined and not self._behind_cursor):
            return False
        return gap.lacked_by(self.had)

    def end_at(self, gap: Gap) -> None:
        """Tell the client that messages are missing behind the last one it was given."""
        remedy = "open the feed again with over_gaps=True to read on behind them"
        self.end("gap", f"{gap.in_words()}; {remedy}", gap.position, gap.position + 1)

    def _give(self, entries: list[Entry], reached: int) -> None:
        reached = self._before_gap(reached)
        for entry in entries:
            if entry.position > reached or self.closed:
                break
            if entry.position > self.position and entry.topic is not None and self.takes(entry.topic):
                if self._leaves_out(entry):
                    continue
                if self.credit <= 0 or not self.session.can_write:
                    self.position = max(self.position, entry.position - 1)
                    return
                self._put(entry)
        self.position = max(self.position, reached)

    def _become_live(self) -> None:
        self.live = True
        self.hub.caught_up(self)

    def _fall_behind(self) -> None:
        self.live = False
        self.hub.fell_behind(self)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, kind: str, text: str, after: int = 0, first: int = 0, missing: Missing = ()) -> None:
        """Tell the client that this feed is over, and why."""
        if not self.closed:
            self.flush()
            self.session.send(Ended(self.number, kind, text[:2000], after, first, missing))
            self.close()

    @property
    def closing_cost(self) -> int:
        """What closing it costs (`turns`): its part of the tree of filters is removed, and its queue."""
        return _CLOSE_COST + self._bytes // _BYTES_PER_COST + len(self._queue) // _QUEUED_PER_COST

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        while self._queue:
            self._dequeue()
        self.session.feeds_share.give_back(self._bytes)
        if self._reading is not None:
            self._reading.cancel()
        self.hub.drop(self)
        if self.session.feeds.pop(self.number, None) is not None and self.on_close is not None:
            self.on_close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _pass_on(self, limit: int) -> None:
        """Give messages from memory behind our position, as far as there is room, out of up to `limit` deliveries."""
        history = self.hub.history
        end = self._before_gap(min(self.position + limit, self.hub.position))
        while self.position < end and self.credit > 0 and self.session.can_write and not self.closed:
            topics = history.topics(self.position, end - self.position) or []
            called = set(topics)
            taken = {topic for topic in called if topic is not None and self.takes(topic)}
            if not taken:
                self.position = end
            elif len(taken) == len(called) and self.left_out.nothing:  # mostly: all of them
                count = min(len(topics), self.credit)
                piece, count = history.piece(self.position + 1, count, _ITEMS_BYTES_FULL)
                self.flush()
                self._send(piece)
                self.credit -= count
                self.position += count
            else:
                wanted = [position for position, topic in enumerate(topics, self.position + 1) if topic in taken]
                some = wanted[: self.credit + 1]
                self._give(
                    [history.entry(position) for position in some], end if len(some) == len(wanted) else some[-1]
                )

    def _send(self, piece: bytes) -> None:
        self.session.send_items(self.number, self.dropped, piece)
        self.dropped = 0

    def _put(self, entry: Entry) -> None:
        size = len(entry.message.payload)
        if self._outgoing_bytes + size > _ITEMS_BYTES_FULL and self._outgoing:
            self.flush()
        self._outgoing.append(entry)
        self._outgoing_bytes += size
        self.credit -= 1
        self.position = max(self.position, entry.position)

    def _leaves_out(self, entry: Entry) -> bool:
        """Is this message, whose turn has come, not to be given? To be asked once for each."""
        return self.left_out.was_given(entry) or self._is_late(entry)

    def _is_late(self, entry: Entry) -> bool:
        """Is this message older than the maximum age? Then it is counted."""
        if not self.max_age_us or not self.left_out.is_late(entry, self.hub.early.now_us()):
            return False
        self.dropped += 1
        self.hub.counts.late += 1
        return True


def _entry_bytes(entry: Entry) -> int:
    return len(entry.message.payload) + _ENTRY_BYTES
