"""The messages that a feed does not give when their turn comes.

The reader has had a message already, before its turn (`early`) or at another node. Or the message is late: older than
the maximum age that the reader asked for (`max_age`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from antecede.node.history import Entry
from antecede.node.max_age import MaxAge
from antecede.wire.envelope import time_of


class LeftOut:
    """Decides for one feed."""

    __slots__ = ("_age", "_early", "_early_clock", "nothing", "seen")

    def __init__(self, seen: Iterable[tuple[int, int]] = ()) -> None:
        #: By stream: the reader has had the messages up to this one, which are yet to pass here.
        self.seen = dict(seen)
        #: What decides which messages are late; None: none is.
        self._age: MaxAge[Any] | None = None
        #: Messages given before their turn, which is to come, and the highest Lamport time of those.
        self._early: set[tuple[int, int]] = set()
        self._early_clock = 0
        #: Are all messages to be given? Most feeds ask this for every batch.
        self.nothing = not self.seen

    def limit(self, age: MaxAge[Any]) -> None:
        """Leave out messages that are late."""
        self._age = age
        self.nothing = False

    def reached(self, levels: Mapping[int, int]) -> None:
        """The messages up to these, by stream, have passed."""
        self.seen = {stream: seq for stream, seq in self.seen.items() if seq > levels.get(stream, 0)}
        self._look()

    def has(self, entry: Entry) -> bool:
        """Has the reader had this message, whose turn has not come?"""
        stream, seq = entry.stream, entry.message.seq
        return (stream, seq) in self._early or seq <= self.seen.get(stream, 0)

    def gave_early(self, entry: Entry) -> None:
        """The reader was given this message before its turn."""
        self._early.add((entry.stream, entry.message.seq))
        self._early_clock = max(self._early_clock, entry.message.clock)
        self.nothing = False

    def was_given(self, entry: Entry) -> bool:
        """Has the reader had this message, whose turn has come? To be asked once for each."""
        stream, seq = entry.stream, entry.message.seq
        if (stream, seq) in self._early:
            self._early.discard((stream, seq))
            if not self._early:
                self._early_clock = 0
                self._look()
            return True
        last = self.seen.get(stream)
        if last is None or entry.out_of_order:
            return False
        if seq >= last:
            del self.seen[stream]
            self._look()
        return seq <= last

    def is_late(self, entry: Entry, now_us: int) -> bool:
        """Is this message, whose turn has come, older than the maximum age?"""
        message = entry.message
        return self._age is not None and self._age.is_late(
            time_of(message.payload), message.clock, now_us, self._early_clock
        )

    def _look(self) -> None:
        self.nothing = not self._early and not self.seen and self._age is None
