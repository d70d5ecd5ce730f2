"""Ids of messages, and cursors, from which a feed goes on.

A message is numbered within its *source*: what one node publishes in one partition of the topics. The source of a
message is the slot of its node, plus 1024 for each partition before its own (`core.partitions`). A cluster has one
partition unless it was founded with more.

A cursor names the node a message came from, its position there, and by source the last message up to it:

    2:1045@0.310,1.7,2.728

At the same node a feed goes on by the position. At any other it goes on by the messages: each node has positions of
its own, but the messages of a source have one order everywhere. A node without a journal forgets its positions when it
stops, so its cursors name its life, too (`2.81985529216486895:1045@…`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from antecede.core import ProtocolError, UsageError
from antecede.core.errors import LostHistoryError
from antecede.core.limits import PARTITIONS_MAX, SLOTS_MAX
from antecede.core.partitions import message_name, split_stream, stream_of
from antecede.wire.requests import SOURCES_SEEN_MAX, Begun, Info, Items, Seen

#: The streams that a cluster may have.
_STREAMS_MAX: Final = PARTITIONS_MAX * SLOTS_MAX

#: A cursor names each of its sources once, in 27 characters at most.
CURSOR_CHARACTERS_MAX: Final = 27 * SOURCES_SEEN_MAX


class MessageId(NamedTuple):
    """The id of a message: its source, and its number among the messages of that. As text: `3.17`, or `p5/3.17` where
    its partition is not the first."""

    source: int
    seq: int

    @property
    def slot(self) -> int:
        """The slot of the node that published it."""
        return split_stream(self.source)[1]

    @property
    def partition(self) -> int:
        """The partition of its topic."""
        return split_stream(self.source)[0]

    def __str__(self) -> str:
        return message_name(self.source, self.seq)

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        found = re.fullmatch(r"(?:p(\d{1,3})/)?(\d{1,6})\.([1-9]\d{0,18})", text)
        if found is None:
            raise UsageError("message id", text, "is not source.seq", "write for example 3.17")
        source = stream_of(int(found[1] or 0), int(found[2]))
        if source >= _STREAMS_MAX:
            raise UsageError("message id", text, "names a source that no cluster has", "use message.id as it was given")
        return cls(source, int(found[3]))


class Trail:
    """The messages before some that came together: enough to write the cursor of each when it is asked for."""

    __slots__ = ("_epoch", "_ids", "_node", "_seen", "_tagged")

    def __init__(
        self,
        node: int,
        epoch: int,
        seen: dict[int, int] | None,
        ids: tuple[tuple[int, int, int], ...],
        tagged: frozenset[int],
    ) -> None:
        """`seen`: by source, the last message before these; None: that is not known. `ids`: (source, first, how many)
        of these. `tagged`: the indexes of those that came out of order."""
        self._node = node
        self._epoch = epoch
        self._seen = None if seen is None else seen.copy()
        self._ids = ids
        self._tagged = tagged

    def cursor(self, index: int, position: int) -> str:
        """The cursor of the message at `index`, whose position is `position`."""
        if self._seen is None:
            return cursor_text(self._node, self._epoch, position, None)
        seen = self._seen.copy()
        at = 0
        for source, first, count in self._ids:
            for one in range(at, min(at + count, index + 1)):
                if one not in self._tagged:
                    seen[source] = first + one - at
            at += count
        return cursor_text(self._node, self._epoch, position, seen)

    def cursors(self, positions: Iterable[int]) -> Iterator[str]:
        """The cursors of all of these messages, in their order; `positions`: those of the messages."""
        seen = None if self._seen is None else self._seen.copy()
        names = ((source, first + one) for source, first, count in self._ids for one in range(count))
        for index, ((source, seq), position) in enumerate(zip(names, positions, strict=True)):
            if seen is not None and index not in self._tagged:
                seen[source] = seq
            yield cursor_text(self._node, self._epoch, position, seen)


def cursor_text(node: int, epoch: int, position: int, seen: Mapping[int, int] | None) -> str:
    """A cursor as text. `seen`: by source, the last message up to it; None: it holds at its own node only."""
    where = f"{node}.{epoch}:{position}" if epoch else f"{node}:{position}"
    if seen is None:
        return where
    return f"{where}@{','.join(f'{source}.{seq}' for source, seq in sorted(seen.items()))}"


class Cursor(NamedTuple):
    """A cursor, taken apart."""

    position: int
    #: −1: any node. "0" is everything that the node which is asked still has.
    node: int = -1
    #: The life of a node without a journal; 0 for one with a journal. None: the cursor does not say.
    epoch: int | None = None
    #: By source: the last message before it. None: the cursor does not say, and holds at its own node only.
    seen: dict[int, int] | None = None


_CURSOR: Final = re.compile(
    r"(?:(?P<node>\d{1,5})(?:\.(?P<epoch>\d{1,19}))?:)?(?P<position>\d{1,19})"
    r"(?:@(?P<seen>\d{1,6}\.\d{1,19}(?:,\d{1,6}\.\d{1,19})*)?)?"
)


def parse_cursor(text: str) -> Cursor:
    """Raises `UsageError` for a text that is no cursor."""
    found = _CURSOR.fullmatch(text) if isinstance(text, str) and len(text) <= CURSOR_CHARACTERS_MAX else None
    if found is None:
        shown = text[:100] if isinstance(text, str) else text
        raise UsageError("cursor", shown, "is not one", 'use message.cursor, or "0" for everything the node still has')
    node, epoch, seen = found["node"], found["epoch"], found["seen"]
    pairs = [pair.split(".") for pair in (seen or "").split(",") if pair]
    highest = max([int(source) for source, _ in pairs], default=0)
    if highest >= _STREAMS_MAX:
        raise UsageError("cursor", text[:100], f"names source {highest}, which no cluster has", "use message.cursor")
    return Cursor(
        position=int(found["position"]),
        node=-1 if node is None else int(node),
        epoch=int(epoch) if epoch else None,
        seen={int(source): int(seq) for source, seq in pairs} if "@" in text else None,
    )


class ReaderPosition:
    """Where the reader of a feed is: the position at its node, and by source the last message it has.

    A position holds at one node only. The messages say where to go on at another.
    """

    __slots__ = ("_info", "_opening", "moved", "position", "seen")

    def __init__(self) -> None:
        self._info: Info | None = None
        self.position = -1
        #: By source, the last message that the reader has; None: that is not known.
        self.seen: dict[int, int] | None = None
        #: The feed has gone on at another node.
        self.moved = False
        #: A subscription was sent, and the node has not said yet where it begins.
        self._opening = False

    def begin_at(self, info: Info, cursor: Cursor | None) -> tuple[int, Seen]:
        """Begin at the node of `info`, behind a cursor or now: `since` and `seen` of the subscription.

        Raises `UsageError` for a cursor that holds at another node only, `LostHistoryError` for one of an earlier life.
        """
        self._info, self._opening = info, True
        if cursor is None:
            return -1, ()
        if cursor.node not in (-1, info.node):
            if cursor.seen is None:
                problem = f"belongs to node {cursor.node}, this is node {info.node}"
                where = f"{cursor.node}:{cursor.position}"
                raise UsageError("cursor", where, problem, "connect to that node, or use a newer cursor")
            self.seen = dict(cursor.seen)
            self.moved = True
            return 0, self._seen_for(info)
        if cursor.node == info.node and cursor.epoch not in (None, info.epoch):
            raise LostHistoryError(f"node {info.node} has no journal, and was started anew since; read on from now")
        if cursor.seen is None:
            return cursor.position, ()
        self.seen = dict(cursor.seen)
        self.moved = True
        return cursor.position, self._seen_for(info)

    def go_on_at(self, info: Info) -> tuple[int, Seen]:
        """Go on at the node of `info`, because the connection broke. Raises `LostHistoryError`."""
        before, self._info, self._opening = self._info, info, True
        assert before is not None
        here = before.node == info.node and before.epoch == info.epoch
        if here and self.position >= 0:
            # This node may yet deliver messages that the reader had at another one, or may have got from there.
            return self.position, self._seen_for(info) if self.moved or self.seen else ()
        if self.seen is None or (before.node == info.node and not here):
            raise LostHistoryError("the node does not remember this feed; open it again to read on from now")
        self.position = -1
        self.moved = True
        return 0, self._seen_for(info)

    def _seen_for(self, info: Info) -> Seen:
        assert self.seen is not None
        # An empty list would mean that the feed does not come from another node.
        return tuple(self.seen.items()) or ((info.node, 0),)

    def begun(self, record: Begun) -> None:
        """The feed is open, behind `record.position`; or, later on: it has taken everything up to there."""
        if self._opening:
            self._opening = False
            self.position = record.position
            if self.seen is None and (record.counts or not record.position):
                self.seen = {}
        else:
            self.position = max(self.position, record.position)
        if self.seen is not None:
            for source, seq in record.counts:
                self.seen[source] = max(seq, self.seen.get(source, 0))

    def take(self, record: Items, positions: list[int]) -> Trail:
        """The reader has these messages, too. `positions`: of each."""
        assert self._info is not None
        tagged = frozenset(record.out_of_order)
        trail = Trail(self._info.node, self._info.epoch, self.seen, record.ids, tagged)
        self.position = max(self.position, max(positions, default=0))
        if self.seen is not None:
            at = 0
            for source, first, run in record.ids:
                # A message that came out of order may be followed by an earlier one of its source. It is not counted:
                # after a move it comes again, and the earlier one is not missed.
                last = next((one for one in range(run - 1, -1, -1) if at + one not in tagged), None)
                if last is not None:
                    self.seen[source] = first + last
                at += run
        return trail

    @property
    def cursor(self) -> str:
        """The cursor behind everything that the reader has."""
        assert self._info is not None
        return cursor_text(self._info.node, self._info.epoch, self.position, self.seen)


def positions_of(record: Items) -> list[int]:
    """The position of each message. Raises `ProtocolError` when the columns of the record do not agree."""
    count = len(record.payloads)
    placed, named = sum([run[1] for run in record.positions]), sum([run[2] for run in record.ids])
    if not placed == named == count:
        raise ProtocolError(f"{count} messages came with {placed} positions and {named} ids")
    return [one for first, run in record.positions for one in (range(first, first + run) if first else [0] * run)]
