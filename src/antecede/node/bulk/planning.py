"""Says where a node has the messages between two frontiers, for readers that come from any node of the cluster.

A reader knows by stream what it has had (`wire.bulk.Plan`). This node finds the positions behind which the rest lies,
where a batch of a given size ends, and where to divide it among tasks. It also names messages that it does not have:
retention removed them, or it took the partition later. The reader then asks another home.

**Every end is closed**: with a message, it holds all messages of these partitions on which that depends. It is what
this node had delivered at some position, or the lower of two such frontiers. So whatever a reader gets first, at
whichever node, nothing that it gets later comes before it.

**A batch ends before messages that only this node has**, as long as another node is up: it could not be read again if
this node were lost.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from antecede.core import UsageError
from antecede.core.epochs import epoch_of
from antecede.core.partitions import split_stream, stream_of
from antecede.journal import JournalFile
from antecede.journal.lookup import StreamName
from antecede.wire.bulk import Cut, CutQuery, Layout, LayoutQuery, Pairs, Plan, Planned

if TYPE_CHECKING:
    from antecede.node.node import Node

T = TypeVar("T")


class InThread(Protocol):
    """Reads the journal in a thread."""

    def __call__(self, read: Callable[[JournalFile], T]) -> Awaitable[T]: ...


class _Span(NamedTuple):
    """Positions of this node, and the frontier at the end."""

    after: int
    last: int
    until: dict[int, int]
    ahead: dict[int, int] | None = None


class Planner:
    """Answers one reader."""

    def __init__(self, node: "Node", in_thread: InThread) -> None:
        self._node = node
        self._in_thread = in_thread

    async def answer(self, question: LayoutQuery | CutQuery | Plan) -> Layout | Cut | Planned:
        if isinstance(question, LayoutQuery):
            return self._layout()
        if isinstance(question, CutQuery):
            return await self._cut(question)
        return await self._plan(question)

    def _layout(self) -> Layout:
        node, process = self._node, self._node.process
        members = [one for one in node.roster.members.values() if not one.left]
        several = node.partitions.count > 1
        everywhere = tuple(sorted([one.slot for one in members]))
        return Layout(
            node=node.slot,
            partitions=node.partitions.count,
            levels=node.partitions.levels,
            portable=not node.hub.total,
            nodes=tuple([(one.slot, one.address, one.slot not in process.down) for one in members]),
            homes=tuple([node.taking.homes_of(one) if several else everywhere for one in range(node.partitions.count)]),
        )

    async def _cut(self, question: CutQuery) -> Cut:
        last, present = self._present(question.partitions)

        def read(file: JournalFile) -> tuple[int, int, dict[StreamName, int]]:
            position = file.before(question.time_us) if question.time_us else question.position
            removed = file.extent().removed
            position = min(last, max(position, removed))
            return position, removed, file.frontier_at(position, self._names(present))

        position, removed, found = await self._in_thread(read)
        return Cut(self._node.slot, position, removed, _pairs(self._streams(found)))

    async def _plan(self, question: Plan) -> Planned:
        last, present = self._present(question.partitions)
        wanted = frozenset(question.partitions)
        had = {at: seq for at, seq in question.had if split_stream(at)[0] in wanted}
        if question.until is None:
            last = await self._safe(question.partitions, last)
        span = await self._in_thread(lambda file: self._span(file, question, had, present, last))
        lacking = await self._lacking(question, had, span)
        slices = await self._in_thread(lambda file: self._slices(file, question, had, present, span))
        return Planned(
            node=self._node.slot,
            after=span.after,
            last=span.last,
            until=_pairs(span.until),
            present=_pairs(present),
            ahead=None if span.ahead is None else _pairs(span.ahead),
            lacking=tuple(lacking),
            slices=tuple(slices),
            sizes=tuple([(stream_of(one, 0), self._mean_size(one)) for one in question.partitions]),
        )

    # -- on the event loop ---------------------------------------------------------------------------------------------

    def _present(self, partitions: tuple[int, ...]) -> tuple[int, dict[int, int]]:
        """The last position, and by stream of these partitions what was delivered by then."""
        hub, wanted = self._node.hub, frozenset(partitions)
        if wanted and max(wanted) >= self._node.partitions.count:
            count = self._node.partitions.count
            raise UsageError("partition", max(wanted), f"is none of the {count} here", "ask for the layout first")
        return hub.position, {at: seq for at, seq in hub.delivered.items() if seq and split_stream(at)[0] in wanted}

    async def _safe(self, partitions: tuple[int, ...], last: int) -> int:
        """The position before the first message of this node that no other node has; `last`: there is none.

        Messages of other nodes are at their publishers at least.
        """
        node = self._node
        replicas, names = node.driver.replicas, node.partitions.names
        unsafe: dict[StreamName, int] = {}
        for name in [names[one] for one in partitions]:
            others = node.process.members(name) - node.process.down - {node.slot}
            if replicas is not None and others and node.protocol.live.forgets:
                copied = max([replicas.acknowledged(name, peer) for peer in others])
                published = node.hub.delivered.get(node.partitions.stream(name, node.slot), 0)
                if published > copied and not node.continuity.had_published(name, published):
                    unsafe[name, node.slot] = max(copied, node.continuity.published_before(name)) + 1
        if not unsafe:
            return last
        found = await self._in_thread(lambda file: file.locate(unsafe))
        return min([last, *[position for _, position in found.values()]])

    async def _lacking(self, question: Plan, had: Mapping[int, int], span: _Span) -> list[tuple[int, int, int]]:
        """(stream, first, last) of the messages up to the end of the span that this node does not have."""
        hub = self._node.hub
        if hub.total and question.position == span.after:
            return []  # it has all behind that position; numbers that are void or come later are not missing
        wanted = {at: seq for at, seq in span.until.items() if seq > had.get(at, 0)}
        names = self._names(wanted)
        found = self._streams(
            await self._in_thread(
                lambda file: file.locate({name: had.get(at, 0) + 1 for at, name in zip(wanted, names, strict=True)})
            )
        )
        lacking = []
        for stream, last in sorted(wanted.items()):
            first = had.get(stream, 0) + 1
            before = min(last, found[stream][0] - 1) if stream in found else last
            lacking += hub.ranges(stream, first, before)
        for gap in hub.history.gaps_from(span.after):
            if gap.position < span.last:
                for stream, low, high in await self._inside(gap.missing, wanted, had):
                    if not any(stream == at and first <= low <= last for at, first, last in lacking):
                        lacking.append((stream, low, high))
        return lacking

    async def _inside(
        self, missing: tuple[tuple[int, int, int], ...], wanted: Mapping[int, int], had: Mapping[int, int]
    ) -> list[tuple[int, int, int]]:
        """Those of a gap's messages that the reader wants. A gap of an earlier life does not name its messages."""
        if missing:
            bounds = [(at, max(one, had.get(at, 0) + 1), min(two, wanted.get(at, 0))) for at, one, two in missing]
            return [(at, low, high) for at, low, high in bounds if low <= high]
        name = self._node.partitions.stream_name

        def read(file: JournalFile) -> list[tuple[int, int, int]]:
            return [
                (at, low, high)
                for at, seq in wanted.items()
                for low, high in file.holes(name(at), had.get(at, 0), seq)
                if epoch_of(low) == epoch_of(high)
            ]

        return await self._in_thread(read)

    def _mean_size(self, partition: int) -> int:
        """About how many bytes a stored message of the partition takes."""
        node, counts = self._node, self._node.hub.counts
        delivered = counts.partition_delivered[partition]
        if delivered:
            return counts.partition_bytes[partition] // delivered
        assert node.journal is not None
        return node.journal.stored_bytes // max(1, node.journal.position - node.journal.removed)

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def _span(
        self, file: JournalFile, question: Plan, had: dict[int, int], present: dict[int, int], last: int
    ) -> _Span:
        ahead: dict[int, int] | None = None
        if question.until is not None:
            until = dict(question.until)
            present = {at: min(seq, until.get(at, 0)) for at, seq in present.items()}
        unread = {at: seq for at, seq in present.items() if seq > had.get(at, 0)}
        if question.until is not None:
            last = min(last, file.end_of(self._names(unread)) if question.last is None else question.last)
        if question.position is not None and (question.until is None) == (question.last is None):
            after = min(max(question.position, file.extent().removed), last)
            reached = self._streams(file.frontier_at(after, self._names(had)))
            ahead = {at: seq for at, seq in had.items() if seq > reached.get(at, 0)}
        else:
            after = min(last, file.first_of(self._names({at: had.get(at, 0) + 1 for at in unread}), last))
        end = last
        if question.rows_max:
            end = min(end, after + question.rows_max)
        if question.bytes_max and end > after:
            end = file.within(after, end, question.bytes_max)
        if question.until is None or end < last:
            reached = self._streams(file.frontier_at(end, self._names(present)))
            present = {at: min(seq, present[at]) for at, seq in reached.items()}
        return _Span(after, max(after, end), _highest(had, present), ahead)

    def _slices(
        self, file: JournalFile, question: Plan, had: dict[int, int], present: dict[int, int], span: _Span
    ) -> list[tuple[int, Pairs]]:
        """Where to divide the span, into nearly equal parts."""
        rows = span.last - span.after
        count = -(-rows // question.slice_rows) if question.slice_rows else 1
        found = []
        for number in range(1, count):
            position = span.after + rows * number // count
            reached = self._streams(file.frontier_at(position, self._names(present)))
            reached = {at: min(seq, span.until.get(at, 0)) for at, seq in reached.items()}
            found.append((position, _pairs(_highest(had, reached))))
        return found

    # -- names of streams ----------------------------------------------------------------------------------------------

    def _names(self, levels: Mapping[int, int]) -> dict[StreamName, int]:
        name = self._node.partitions.stream_name
        return {name(at): seq for at, seq in levels.items()}

    def _streams(self, found: Mapping[StreamName, T]) -> dict[int, T]:
        stream = self._node.partitions.stream
        return {stream(*name): value for name, value in found.items()}


def _highest(one: Mapping[int, int], two: Mapping[int, int]) -> dict[int, int]:
    return {at: max(one.get(at, 0), two.get(at, 0)) for at in sorted({*one, *two})}


def _pairs(levels: Mapping[int, int]) -> Pairs:
    return tuple(sorted(levels.items()))
