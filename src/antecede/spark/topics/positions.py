"""Plans what a query reads from one node, by position: from its journal, or from the node itself (option `oneNode`).

An offset is a position with the node that counts it. The message at a position never changes. So a batch that is run
again reads the same rows, and a query that is killed continues without a gap or a repetition.

An offset that does not fit the checkpoint is an error: another node, or a journal that ends before the position
reached. Positions that retention has removed are an error too, unless `failOnDataLoss` is false.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from antecede.core import UsageError
from antecede.core.errors import GapError, JournalError
from antecede.core.gc_pause import gc_paused
from antecede.journal import Extent
from antecede.journal.blocks import DamagedError
from antecede.spark.gc_freeze import freeze_once
from antecede.spark.topics.columns import Builder, any_of
from antecede.spark.topics.offsets import position_offset, read_offset
from antecede.spark.topics.options import Bound, SourceOptions
from antecede.spark.topics.stores import Store, open_store

log = logging.getLogger("antecede.spark")


@dataclass
class Range(InputPartition):
    """Positions after `after` up to `last`, of `node`."""

    node: int
    after: int
    last: int


class OneNode:
    """What a query asks of a journal or a node. A context manager, for one call of Spark."""

    def __init__(self, options: SourceOptions, *, patient: bool) -> None:
        self._options = options
        self._store = open_store(options.where, options.topics, patient=patient)

    def __enter__(self) -> "OneNode":
        self._store.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._store.__exit__(*exception)

    @property
    def known(self) -> tuple[str, ...]:
        return ()

    def check(self) -> None:
        self._store.check()

    def at(self, bound: Bound, option: str) -> dict[str, Any]:
        store, extent = self._store, self._store.extent()
        position = begin(store, extent, bound) if option == "since" else end(store, extent, bound)
        return position_offset(store.node, position)

    def advance(
        self, start: Mapping[str, Any], rows_max: int, bytes_max: int, target: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], int]:
        store, extent = self._store, self._store.extent()
        after = max(self._position(extent, start), extent.removed)
        last = extent.position if target is None else max(after, min(target["position"], extent.position))
        if rows_max:
            last = min(last, after + rows_max)
        if bytes_max and last > after:
            last = store.within(after, last, bytes_max)
        return position_offset(store.node, last) if last > after else dict(start), last - after

    def parts(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        extent = self._store.extent()
        after, last = self._position(extent, start), self._position(extent, end)
        if after < min(last, extent.removed):
            after = lost(self._options, after, min(last, extent.removed))
        return list(ranges(self._store.node, after, last, self._options.rows_per_partition))

    def behind(self, reached: Mapping[str, Any] | None) -> dict[str, Any]:
        extent = self._store.extent()
        present = position_offset(self._store.node, extent.position)
        if reached is None:
            return present
        rows = extent.position - int(reached["position"])
        return {**present, "rowsBehind": rows, "bytesBehind": rows * self._store.mean_size()}

    def _position(self, extent: Extent, offset: Mapping[str, Any]) -> int:
        """The position of an offset. Raises `UsageError` if the offset does not belong to this journal."""
        found, where = read_offset(offset), str(self._options.where)
        if not isinstance(found, tuple):
            problem = "is one node, the query's checkpoint was made by asking the homes of partitions"
            raise UsageError("node", where, problem, "name url without oneNode, or begin with a new checkpoint")
        node, position = found
        if node != self._store.node:
            problem = f"is node {self._store.node}, the query's checkpoint counts positions of node {node}"
            raise UsageError("node", where, problem, "name that node alone, or begin with a new checkpoint")
        if position > extent.position:
            problem = f"ends at position {extent.position}, the query's checkpoint is at {position}"
            raise UsageError("journal", where, problem, "name the journal that was read, not an older copy")
        return position


def begin(store: Store, extent: Extent, since: Bound) -> int:
    """The position after which reading begins."""
    if since.kind == "earliest":
        return extent.removed
    if since.kind == "latest":
        return extent.position
    if since.kind == "time":
        return store.before(since.time_us)
    _check_cursor(store, "since", since)
    if since.position > extent.position:
        problem = f"is ahead of the node, which is at {extent.position}"
        raise UsageError("since", since.position, problem, "use latest for what comes next")
    return since.position


def end(store: Store, extent: Extent, until: Bound) -> int:
    """The last position to read."""
    if until.kind == "time":
        return store.before(until.time_us)
    if until.kind == "position":
        _check_cursor(store, "until", until)
        return min(until.position, extent.position)
    return extent.removed if until.kind == "earliest" else extent.position


def _check_cursor(store: Store, option: str, bound: Bound) -> None:
    if bound.node not in (-1, store.node):
        problem = f"is a cursor of node {bound.node}, this is node {store.node}"
        raise UsageError(option, f"{bound.node}:{bound.position}", problem, "read from that node")


def lost(options: SourceOptions, after: int, removed: int) -> int:
    """Report that retention removed positions after `after`; return where to go on if failOnDataLoss is false."""
    if options.fail_on_data_loss:
        raise UsageError(
            "failOnDataLoss",
            True,
            f"positions {after + 1} to {removed} of {options.where} were removed by retention and cannot be read",
            "begin with since=earliest, keep more at the node, or set failOnDataLoss=false to go on without them",
        )
    log.warning("positions %d to %d of %s were removed by retention: left out", after + 1, removed, options.where)
    return removed


def ranges(node: int, after: int, last: int, rows: int) -> Iterator[Range]:
    """Split the positions into ranges of about `rows`, nearly equal."""
    count = -(-(last - after) // rows)
    for number in range(count):
        yield Range(
            node=node,
            after=after + (last - after) * number // count,
            last=after + (last - after) * (number + 1) // count,
        )


def read_range(options: SourceOptions, schema: StructType, partition: Range) -> Iterator[pa.RecordBatch]:
    """Read one range, in a task."""
    freeze_once()
    build = Builder(schema, any_of(options.topics)).batch
    with gc_paused(), open_store(options.where, options.topics) as store:
        check_node(options, store, partition.node)
        after = partition.after
        while after < partition.last:
            try:
                for chunk in store.read(after, partition.last):
                    batch = build(chunk)
                    after = chunk.reached
                    if batch is not None:
                        yield batch
            except GapError as gap:
                after = lost(options, after, min(gap.first - 1, partition.last))
            except DamagedError as error:
                raise JournalError(str(options.where), f"cannot be read ({error})", "restore a copy") from None


def check_node(options: SourceOptions, store: Store, node: int) -> None:
    if store.node != node:
        problem = f"is node {store.node} now, the query reads positions of node {node}"
        raise UsageError("node", str(options.where), problem, "name that node")
