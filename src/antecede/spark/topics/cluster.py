"""Plans what a query reads from the nodes of a cluster, each partition from one of its homes.

The end of a batch is a frontier (`frontiers`), so a batch is the same set of messages at every home, and a query goes
on at any of them. A batch is divided into *slices* (`slices`): the messages of some partitions between two frontiers,
with the positions at which one home has them.

Rows of a partition come in causal order: a home gives them in the order of its deliveries, slices follow each other,
and the ends of batches are closed (`node.bulk.planning`). Rows of different partitions come as they are read.

In a cluster with one partition every node is a home. The query stays at one node, and goes on there by position, as
long as that node answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from antecede.core import UsageError
from antecede.core.partitions import stream_of
from antecede.spark.topics.frontiers import covers, highest, of_partitions, rows_between
from antecede.spark.topics.homes import DOWN, At, Homes, Wanted, in_words
from antecede.spark.topics.offsets import Mark, read_offset, to_offset
from antecede.spark.topics.options import Bound, SourceOptions
from antecede.spark.topics.slices import Past, Slice, lost
from antecede.wire.bulk import Cut, CutQuery, Planned

#: A position behind every delivery.
_LAST: Final = (1 << 63) - 1


class Nodes:
    """What a query asks of the nodes of a cluster. A context manager, for one call of Spark."""

    def __init__(self, options: SourceOptions, known: Sequence[str] = (), *, patient: bool = True) -> None:
        self._options = options
        self._homes = Homes(options.where, options.topics, known, patient=patient)

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *exception: object) -> None:
        self._homes.__exit__(*exception)

    def check(self) -> None:
        self._homes.check()

    @property
    def known(self) -> tuple[str, ...]:
        return self._homes.known

    # -- where to begin and to end -------------------------------------------------------------------------------------

    def at(self, bound: Bound, option: str) -> dict[str, Any]:
        partitions = self._homes.partitions()
        if bound.kind == "position":
            return to_offset(self._at_position(bound, option, partitions))
        if bound.kind == "earliest" and self._homes.several:
            return to_offset(self._oldest(partitions))
        query = {"earliest": (0, 0), "latest": (_LAST, 0), "time": (0, max(1, bound.time_us))}[bound.kind]
        return to_offset(_marks(self._homes.each(partitions, lambda store, group: store.cut(CutQuery(group, *query)))))

    def _at_position(self, bound: Bound, option: str, partitions: tuple[int, ...]) -> dict[int, Mark]:
        if bound.seen is not None:
            return {one: Mark(bound.node, bound.position, of_partitions(bound.seen, [one])) for one in partitions}
        if self._homes.several:
            problem = "is a position of one node, and the cluster has several partitions"
            raise UsageError(option, bound.position, problem, "use a message's cursor, a time, earliest or latest")
        cut = self._cut_at(self._homes.layout.node if bound.node < 0 else bound.node, bound.position)
        if option == "since" and cut.position < bound.position:
            problem = f"is ahead of the node, which is at {cut.position}"
            raise UsageError(option, bound.position, problem, "use latest for what comes next")
        if option == "since" and cut.position > bound.position:
            self._lost_positions(cut, bound.position)
        return {0: Mark(cut.node, cut.position, dict(cut.frontier))}

    def _oldest(self, partitions: tuple[int, ...]) -> dict[int, Mark]:
        """Before the oldest message that any home has."""
        layout = self._homes.layout
        found: list[At[Cut]] = []
        for slot, _, _ in layout.nodes:
            mine = tuple([one for one in partitions if slot in layout.homes[one]])
            try:
                found += [At(store, mine, store.cut(CutQuery(mine))) for store in [self._homes.at(slot)] if mine]
            except DOWN:
                continue  # the others are asked, below at the latest
        answered = {one for at in found for one in at.partitions}
        left = [one for one in partitions if one not in answered]
        found += self._homes.each(left, lambda store, group: store.cut(CutQuery(group)))
        lowest: dict[int, dict[int, int]] = {one: {} for one in partitions}
        for at in found:
            for one in at.partitions:
                for stream, seq in of_partitions(dict(at.answer.frontier), [one]).items():
                    lowest[one][stream] = min(seq, lowest[one].get(stream, seq))
        return {one: Mark(-1, 0, frontier) for one, frontier in lowest.items()}

    def _cut_at(self, node: int, position: int) -> Cut:
        """The frontier at a position of a node, in a cluster with one partition."""
        self._homes.stay_at(node)
        (found,) = self._homes.each((0,), lambda store, group: store.cut(CutQuery(group, position)))
        return found.answer

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def _marks(self, offset: Mapping[str, Any]) -> dict[int, Mark]:
        """How far an offset of a checkpoint is. Raises `UsageError` if it does not belong to this query."""
        found = read_offset(offset)
        if isinstance(found, tuple):
            return {0: self._old_mark(*found)}
        wanted = self._homes.partitions()
        lacking = [f"p{one}" for one in wanted if one not in found]
        if lacking:
            problem = f"has no offset of partition {', '.join(lacking)}: it was made for other topics"
            raise UsageError("checkpoint", "…", problem, "name the same topics, or begin with a new checkpoint")
        if not self._homes.several and not self._homes.layout.portable:
            self._homes.stay_at(found[0].node)
        return {one: found[one] for one in wanted}

    def _old_mark(self, node: int, position: int) -> Mark:
        """The offset of a checkpoint that counts positions of one node."""
        where, remedy = str(self._options.where), "begin with a new checkpoint"
        if self._homes.several:
            problem = f"has a checkpoint with positions of node {node}, which does not have all partitions"
            raise UsageError("url", where, problem, remedy)
        if node not in [slot for slot, _, _ in self._homes.layout.nodes]:
            problem = f"has a checkpoint with positions of node {node}, which is not in the cluster"
            raise UsageError("url", where, problem, remedy)
        cut = self._cut_at(node, position)
        if cut.position < position:
            problem = f"ends at position {cut.position}, the query's checkpoint is at {position}"
            raise UsageError("journal", where, problem, remedy)
        if cut.position > position:
            self._lost_positions(cut, position)
        self._homes.stay_at(None if self._homes.layout.portable else node)
        return Mark(node, cut.position, dict(cut.frontier))

    def _lost_positions(self, cut: Cut, after: int) -> None:
        what = f"positions {after + 1} to {cut.removed} of node {cut.node} were removed by retention"
        lost(self._options, what)

    # -- batches -------------------------------------------------------------------------------------------------------

    def advance(
        self, start: Mapping[str, Any], rows_max: int, bytes_max: int, target: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], int]:
        marks = self._marks(start)
        ends = None if target is None else self._marks(target)
        found = self._plan(self._wanted(marks, ends))
        rows = [_rows(at.answer, self._seen(marks, at)) for at in found]
        if rows_max or bytes_max:
            total = max(1, sum(rows))
            found = [
                one
                for at, share in zip(found, rows, strict=True)
                for one in self._limited(at, marks, ends, -(-rows_max * share // total), -(-bytes_max * share // total))
            ]
        moved: dict[int, Mark] = {}
        for at in found:
            for one in at.partitions:
                mark = Mark(at.store.node, at.answer.last, of_partitions(dict(at.answer.until), [one]))
                if self._is_behind(marks[one], mark):
                    moved[one] = mark
        return to_offset({**marks, **moved}) if moved else dict(start), sum(rows)

    def _limited(
        self, at: At[Planned], marks: Mapping[int, Mark], ends: Mapping[int, Mark] | None, rows: int, size: int
    ) -> list[At[Planned]]:
        """The same with at most so many rows and bytes. Nothing: there are none."""
        if not rows and not size:
            return []
        mine = {one: marks[one] for one in at.partitions}
        return self._plan(self._wanted(mine, ends, rows_max=rows, bytes_max=size), at.store.node)

    def parts(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        marks, ends = self._marks(start), self._marks(end)
        behind = {one: mark for one, mark in marks.items() if self._is_behind(mark, ends[one])}
        wanted = self._wanted(behind, ends, slice_rows=self._options.rows_per_partition)
        found: list[InputPartition] = []
        for at in self._plan(wanted, {one: ends[one].node for one in behind}):
            found += self._divide(at, wanted)
        return found

    def _divide(self, at: At[Planned], wanted: Wanted) -> Iterator[InputPartition]:
        planned, had = at.answer, of_partitions(wanted.had, at.partitions)
        until = highest(had, of_partitions(wanted.until or {}, at.partitions))
        layout = self._homes.layout
        address = next(address for slot, address, _ in layout.nodes if slot == planned.node)
        after = planned.after
        known = tuple(dict.fromkeys([address, *self.known]))
        if planned.lacking and not layout.portable:
            lost(self._options, in_words(planned.lacking))
        elif planned.lacking:
            reached = highest(had, {stream: last for stream, _, last in planned.lacking})
            yield Past(at.partitions, had, reached, known)
            had = reached
        for position, frontier in [*planned.slices, (planned.last, tuple(until.items()))]:
            reached = dict(frontier)
            if planned.ahead is not None or not covers(had, reached):
                yield Slice(
                    partitions=at.partitions,
                    had=had,
                    until=reached,
                    node=planned.node,
                    after=after,
                    last=position,
                    ahead=None if planned.ahead is None else dict(planned.ahead),
                    known=known,
                    several=self._homes.several,
                    portable=layout.portable,
                )
            had, after = reached, position

    def behind(self, reached: Mapping[str, Any] | None) -> dict[str, Any]:
        if reached is None:
            return self.at(Bound("latest"), "until")
        marks = self._marks(reached)
        ends: dict[int, Mark] = {}
        rows: dict[str, int] = {}
        size: dict[str, int] = {}
        for at in self._plan(self._wanted(marks, None)):
            present, sizes = dict(at.answer.present), dict(at.answer.sizes)
            for one in at.partitions:
                seen = highest(marks[one].seen, of_partitions(present, [one]))
                ends[one] = Mark(at.store.node, at.answer.last, seen)
                rows[f"p{one}"] = rows_between(marks[one].seen, seen)
                size[f"p{one}"] = rows[f"p{one}"] * sizes.get(stream_of(one, 0), 0)
        report = {**to_offset(ends), "rowsBehind": sum(rows.values()), "bytesBehind": sum(size.values())}
        if self._homes.several:
            report |= {"rowsBehindByPartition": rows, "bytesBehindByPartition": size}
        return report

    def _is_behind(self, mark: Mark, end: Mark) -> bool:
        if self._homes.layout.portable:
            return not covers(mark.seen, end.seen)
        return mark.position < end.position

    def _wanted(
        self,
        marks: Mapping[int, Mark],
        ends: Mapping[int, Mark] | None,
        *,
        rows_max: int = 0,
        bytes_max: int = 0,
        slice_rows: int = 0,
    ) -> Wanted:
        mine = None if ends is None else {one: ends[one] for one in marks}
        return Wanted(
            partitions=tuple(sorted(marks)),
            had=_joined(marks),
            until=None if mine is None else _joined(mine),
            rows_max=rows_max,
            bytes_max=bytes_max,
            slice_rows=slice_rows,
            positions=self._positions(marks),
            lasts=self._positions(mine or {}),
        )

    def _positions(self, marks: Mapping[int, Mark]) -> dict[int, int]:
        """In a cluster with one partition: the position, by node."""
        return {} if self._homes.several else {mark.node: mark.position for mark in marks.values()}

    def _plan(self, wanted: Wanted, prefer: Mapping[int, int] | int | None = None) -> list[At[Planned]]:
        """Plan at the homes. `prefer`: a node to ask first, or such a node by partition."""
        if prefer is None:  # with one partition: the node that was read; else the partitions are spread anew
            prefer = next(iter(wanted.positions), -1)
        first = dict.fromkeys(wanted.partitions, prefer) if isinstance(prefer, int) else prefer
        return self._homes.plan(wanted, first)

    @staticmethod
    def _seen(marks: Mapping[int, Mark], at: At[Planned]) -> dict[int, int]:
        return _joined({one: marks[one] for one in at.partitions})


def _joined(marks: Mapping[int, Mark]) -> dict[int, int]:
    return {stream: seq for mark in marks.values() for stream, seq in mark.seen.items()}


def _marks(found: Sequence[At[Cut]]) -> dict[int, Mark]:
    return {
        one: Mark(at.answer.node, at.answer.position, of_partitions(dict(at.answer.frontier), [one]))
        for at in found
        for one in at.partitions
    }


def _rows(planned: Planned, had: Mapping[int, int]) -> int:
    """How many rows were found, of whatever topic."""
    return rows_between(had, dict(planned.until)) if planned.ahead is None else planned.last - planned.after
