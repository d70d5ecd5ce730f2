"""Reads one slice of a batch, in a task: at the home for which it was planned, and elsewhere if that one is lost.

A slice is a set of messages: those of some partitions behind one frontier, up to another. The task notes how far it got
with each stream. So when the connection breaks, it reads the rest at other homes, without a gap or a repetition.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from antecede.core import UsageError
from antecede.core.errors import GapError, JournalError
from antecede.core.gc_pause import gc_paused
from antecede.core.partitions import split_stream
from antecede.journal.blocks import DamagedError
from antecede.spark.gc_freeze import freeze_once
from antecede.spark.topics.chunks import Chunk
from antecede.spark.topics.columns import Builder, any_of
from antecede.spark.topics.frontiers import Frontier, Window, covers, highest, of_partitions
from antecede.spark.topics.homes import DOWN, Homes, Wanted, in_words
from antecede.spark.topics.options import SourceOptions
from antecede.spark.topics.stores import NodeStore
from antecede.wire.bulk import PastPage

_Build: TypeAlias = Callable[[Chunk], pa.RecordBatch | None]

log = logging.getLogger("antecede.spark")


@dataclass
class Slice(InputPartition):
    """Messages of some partitions behind one frontier, up to another; and where one node has them."""

    partitions: tuple[int, ...]
    had: dict[int, int]
    until: dict[int, int]
    node: int
    after: int
    last: int
    #: None: the frontiers say which messages in this range are wanted. Else all are, but for those up to this one.
    ahead: dict[int, int] | None
    #: Addresses of nodes, that of the one to read first.
    known: tuple[str, ...]
    #: Has the cluster several partitions? And can the slice be read at another node?
    several: bool
    portable: bool


@dataclass
class Past(InputPartition):
    """Messages of some partitions behind one frontier, up to another, that no home has at a position."""

    partitions: tuple[int, ...]
    had: dict[int, int]
    until: dict[int, int]
    known: tuple[str, ...]


def read_past(options: SourceOptions, schema: StructType, part: Past) -> Iterator[pa.RecordBatch]:
    """Read messages by stream and number: those that a home has fetched from others when it became one."""
    freeze_once()
    with gc_paused(), Homes(options.where, options.topics, part.known) as homes:
        yield from _read_past(options, homes, part.had, part.until, Builder(schema, any_of(options.topics)).batch)


def _read_past(
    options: SourceOptions, homes: Homes, had: Frontier, until: Frontier, build: _Build
) -> Iterator[pa.RecordBatch]:
    while not covers(had, until):
        left = {split_stream(at)[0] for at, seq in until.items() if seq > had.get(at, 0)}
        ask = partial(_ask_past, had, of_partitions(until, [min(left)]))
        ((_, _, page),) = homes.each([min(left)], ask)
        if page.lacking:
            lost(options, in_words(page.lacking))
        had = dict(page.reached)
        batch = build(Chunk(page.pieces, -1, 0, 0)) if page.pieces else None
        if batch is not None:
            yield batch


def _ask_past(had: Frontier, until: Frontier, store: NodeStore, partitions: tuple[int, ...]) -> PastPage:
    return store.past(had, until)


def read_slice(options: SourceOptions, schema: StructType, part: Slice) -> Iterator[pa.RecordBatch]:
    """Read one slice."""
    freeze_once()
    build = Builder(schema, any_of(options.topics)).batch
    with gc_paused(), Homes(options.where, options.topics, part.known) as homes:
        if not part.portable:
            homes.stay_at(part.node)
        window = Window(part.had, part.until) if part.ahead is None else Window(part.ahead, None)
        had = part.had
        try:
            store = homes.dial(part.known[0])
            if store.node == part.node:
                yield from _read(store, part, part.after, part.last, window, build)
                return
        except (*DOWN, GapError) as error:
            log.warning("node %d is lost to this task, which reads on at another: %s", part.node, error)
            homes.forget(part.known[0])
        had = highest(had, window.reached)
        while not covers(had, part.until):
            left = {split_stream(at)[0] for at, seq in part.until.items() if seq > had.get(at, 0)}
            wanted = Wanted(tuple(sorted(left)), had, part.until)
            for at in homes.plan(wanted, {}):
                until = of_partitions(part.until, at.partitions)
                if at.answer.lacking:
                    past = highest(had, {stream: last for stream, _, last in at.answer.lacking})
                    yield from _read_past(options, homes, had, past, build)
                    had = past
                window = Window(of_partitions(had, at.partitions), until)
                try:
                    yield from _read(at.store, part, at.answer.after, at.answer.last, window, build)
                    had = highest(had, until)
                except (*DOWN, GapError) as error:
                    log.warning("node %d is lost to this task, too: %s", at.answer.node, error)
                    homes.hang_up(at.store)
                had = highest(had, window.reached)


def _read(
    store: NodeStore, part: Slice, after: int, last: int, window: Window, build: _Build
) -> Iterator[pa.RecordBatch]:
    try:
        for chunk in store.read(after, last, part.partitions if part.several else ()):
            batch = build(chunk._replace(window=window))
            if batch is not None:
                yield batch
    except DamagedError as error:
        raise JournalError(f"node {store.node}", f"cannot be read ({error})", "restore a copy") from None


def lost(options: SourceOptions, what: str) -> None:
    """Report messages that cannot be read any more: an error, unless failOnDataLoss is false."""
    if options.fail_on_data_loss:
        remedy = "begin with since=earliest, keep more at the nodes, or set failOnDataLoss=false to go on without them"
        raise UsageError("failOnDataLoss", True, f"{what} ({options.where})", remedy)
    log.warning("%s: left out", what)
