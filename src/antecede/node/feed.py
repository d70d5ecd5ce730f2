"""One subscription of one client, seen from the node: a position, a credit, and what to do when the reader lags.

A feed is *live* while it has taken everything its filters match. Without room (the client's credit is used up, or its
socket is full) the policy decides:

  block        it falls behind and catches up from memory and journal. Nothing is lost; the node holds no queue for it.
  drop_oldest  the newest `window` messages wait for room; older ones are dropped and counted, and the client is told.
  disconnect   as many wait; one more ends the feed.

Replay is the state of being behind, so a feed that starts at a cursor has no seam where it becomes live: it reads until
its position is the node's, within one turn of the loop.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from antecede.core.errors import GapError, JournalError, StoppedError
from antecede.node.history import Entry, Gap, columns
from antecede.wire.requests import Begun, Ended, Subscribe
from antecede.wire.topics import TopicFilter

if TYPE_CHECKING:
    from antecede.node.hub import Hub
    from antecede.node.session import Session

log = logging.getLogger("antecede.node")

#: Entries looked at before others get a turn, and messages put into one record.
_STEP: Final = 512
_ITEMS_BYTES_FULL: Final = 64 * 1024


class Feed:
    """Made by a session, told of deliveries by the hub."""

    def __init__(self, session: "Session", hub: "Hub", wanted: Subscribe) -> None:
        self.session = session
        self.hub = hub
        self.number = wanted.feed
        self.patterns = wanted.filters
        self.order = wanted.order
        self.policy = wanted.policy
        self.credit = wanted.credit
        self.window = max(wanted.window, wanted.credit)
        self.over_gaps = wanted.over_gaps
        #: Everything up to here was given, or did not match.
        self.position = hub.position if wanted.since < 0 else wanted.since
        self.live = False
        self.closed = False
        self.dropped = 0
        #: Messages given ahead of their turn, on feeds that asked for less than causal order.
        self.early: set[tuple[int, int]] = set()
        self._matchers = [TopicFilter(pattern).matches for pattern in wanted.filters]
        self._seen = dict(wanted.seen)
        self._checked: set[int] = set()
        self._roaming = bool(wanted.seen)
        self._queue: deque[Entry] = deque()
        self._outgoing: list[Entry] = []
        self._outgoing_bytes = 0
        self._reading: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if self.position > self.hub.position:
            self.end("usage", f"cursor {self.position} is ahead of the node, which is at {self.hub.position}")
            return
        now = self.position == self.hub.position
        self.session.send(Begun(self.number, self.position, tuple(self.hub.delivered.items()) if now else ()))
        self.catch_up()

    def takes(self, topic: str) -> bool:
        return any(matches(topic) for matches in self._matchers)

    # -- deliveries ----------------------------------------------------------------------------------------------------

    def offer(self, first: int) -> None:
        """Deliveries from position `first` on, some of which match; only while live."""
        if self.closed:
            return
        self.position = max(self.position, first - 1)  # everything before was looked at
        count = self.hub.position - self.position
        simple = not self.early and not self._queue
        if simple and (self.policy == "block" or (self.credit >= count and self.session.can_write)):
            self._pass_on(count)
            if self.position < self.hub.position:
                self._fall_behind()
            return
        for entry in self.hub.history.recent(self.position, count) or ():
            if entry.topic is not None and self.takes(entry.topic) and not self.closed and self.live:
                self._offer_one(entry)

    def _offer_one(self, entry: Entry) -> None:
        if self.early and self._was_early(entry):
            self.position = entry.position
        elif self.credit > 0 and self.session.can_write and not self._queue:
            self._put(entry)
        elif self.policy == "block":
            self.position = entry.position - 1  # everything before was looked at
            self._fall_behind()
        else:
            self._queue.append(entry)
            if len(self._queue) > self.window:
                self._overflow()

    def offer_early(self, entry: Entry) -> None:
        """A message that is not deliverable yet, for feeds that do not mind. Without room it comes in its turn."""
        key = (entry.message.source, entry.message.seq)
        if self.live and not self.closed and self.credit > 0 and self.session.can_write and key not in self.early:
            self.early.add(key)
            position = self.position
            self._put(entry)
            self.position = position

    def room(self) -> None:
        """The client gave credit, or its socket takes more."""
        if self._queue:
            while self._queue and self.credit > 0 and self.session.can_write:
                self._put(self._queue.popleft())
            self.flush()
        elif not self.live:
            self.catch_up()

    def flush(self) -> None:
        """Hand what gathered to the session, as one record."""
        if self._outgoing:
            outgoing, self._outgoing = self._outgoing, []
            self._outgoing_bytes = 0
            self._send(columns(outgoing))

    # -- catching up ---------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Read from memory as far as there is room; from the journal in a task of its own."""
        history = self.hub.history
        steps = 0
        while not self.closed and self._reading is None and self.credit > 0 and self.session.can_write:
            if self.position >= self.hub.position:
                self._become_live()
                break
            if self._roaming or self.position < history.first - 1:
                self._reading = asyncio.get_running_loop().create_task(self._read_journal())
                break
            self._pass_on(_STEP)
            steps += 1
            if steps == 8:  # let others have a turn
                asyncio.get_running_loop().call_soon(self.room)
                break
        self.flush()

    async def _read_journal(self) -> None:
        try:
            while not self.closed and self.credit > 0 and self.session.can_write and self.position < self.hub.position:
                if self._roaming:
                    entries, reached = await self._unseen()
                else:
                    if self.position >= self.hub.history.first - 1:
                        break
                    entries, reached = await self.hub.history.older(self.position, self.takes)
                self._give(entries, reached)
                self.flush()
        except GapError as gap:
            self.end("gap", str(gap), gap.after, gap.first)
        except (JournalError, StoppedError) as error:
            self.end("stopped", str(error))
        except Exception as error:  # no one awaits this task: without an end the reader would wait for ever
            log.exception("a feed of client %r has failed", self.session.name)
            self.end("stopped", f"the node failed to read for this feed ({type(error).__name__}: {error})"[:2000])
        finally:
            self._reading = None
        self.catch_up()

    async def _unseen(self) -> tuple[list[Entry], int]:
        """The reader comes from another node: what is here that it has not read, by the sources' own numbers."""
        history = self.hub.history
        entries = history.recent(self.position, _STEP)
        if entries is None and history.journal is None and self.position < history.oldest:
            entries, reached = [], history.oldest  # whether that is a gap, the numbers that follow tell
        elif entries is None:
            removed = history.oldest
            entries, reached = await history.older(max(self.position, removed), lambda _: True)
        else:
            reached = entries[-1].position if entries else self.position
        unseen = []
        for entry in entries:
            source, seq = entry.message.source, entry.message.seq
            last = self._seen.get(source, 0)
            if source not in self._checked:
                # A source's numbers have no holes: if its first message here is not above the next, nothing is missing.
                if seq > last + 1:
                    raise GapError(0, entry.position)
                self._checked.add(source)
            if seq > last:
                unseen.append(entry)
        return unseen, reached

    def _before_gap(self, end: int) -> int:
        """How far the feed may be given messages, of those up to `end`. At a gap it ends."""
        gap = None if self.over_gaps else self.hub.history.gap_at(self.position)
        if gap is None or gap.position >= end:
            return end
        if gap.position == self.position:
            self.end_at(gap)
        return gap.position

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
                if self.early and self._was_early(entry):
                    continue
                if self.credit <= 0 or not self.session.can_write:
                    self.position = max(self.position, entry.position - 1)
                    return
                self._put(entry)
        self.position = max(self.position, reached)

    def _become_live(self) -> None:
        self.live = True
        self._roaming = False
        self.hub.caught_up(self)

    def _fall_behind(self) -> None:
        self.live = False
        self.hub.fell_behind(self)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, kind: str, text: str, after: int = 0, first: int = 0) -> None:
        """Tell the client that this feed is over, and why."""
        if not self.closed:
            self.flush()
            self.session.send(Ended(self.number, kind, text, after, first))
            self.close()

    def close(self) -> None:
        self.closed = True
        self._queue.clear()
        if self._reading is not None:
            self._reading.cancel()
        self.hub.drop(self)
        self.session.feeds.pop(self.number, None)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _pass_on(self, limit: int) -> None:
        """Give what memory has behind our position, as far as there is room, out of up to `limit` deliveries."""
        history = self.hub.history
        end = self._before_gap(min(self.position + limit, self.hub.position))
        while self.position < end and self.credit > 0 and self.session.can_write and not self.closed:
            topics = history.topics(self.position, end - self.position) or []
            taken = {topic for topic in set(topics) if topic is not None and self.takes(topic)}
            if not taken:
                self.position = end
            elif len(taken) == len(set(topics)) and not self.early:  # mostly: all of them
                count = min(len(topics), self.credit)
                piece, count = history.piece(self.position + 1, count, _ITEMS_BYTES_FULL)
                self.flush()
                self._send(piece)
                self.credit -= count
                self.position += count
            else:
                wanted = [place for place, topic in enumerate(topics, self.position + 1) if topic in taken]
                some = wanted[: self.credit + 1]
                self._give([history.entry(place) for place in some], end if len(some) == len(wanted) else some[-1])

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

    def _was_early(self, entry: Entry) -> bool:
        key = (entry.message.source, entry.message.seq)
        if key in self.early:
            self.early.discard(key)
            return True
        return False

    def _overflow(self) -> None:
        if self.policy == "drop_oldest":
            self._queue.popleft()
            self.dropped += 1
            self.hub.counts.dropped += 1
        else:
            self.end("slow", f"the reader is more than {self.window} messages behind")
