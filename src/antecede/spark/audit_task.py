"""Judges, on a worker, whole runs or single buckets of a large run."""

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import msgspec
import pyarrow as pa

from antecede.audit import MESSAGES_MAX, Question, audit
from antecede.audit.vectorised.graph import Graph
from antecede.audit.vectorised.ledger import Ledger
from antecede.audit.vectorised.source import DirectorySource, Source, TableSource
from antecede.audit.vectorised.survey import CausalSoFar
from antecede.audit.vectorised.tally import Tally
from antecede.audit.vectorised.verdict import (
    Extra,
    Outcome,
    causal_of_bucket,
    full_graph,
    judge_run,
    read_ledger,
    survey_bucket,
)
from antecede.core import AntecedeError, UsageError
from antecede.sim import simulate
from antecede.spark.audit_targets import AuditTarget
from antecede.spark.gc_freeze import freeze_once
from antecede.trace import Row
from antecede.trace.directory import is_trace_directory, read_directory
from antecede.trace.files import read_trace, table_rows
from antecede.trace.tables import as_trace

#: The work of a task: a list of (number of the target, target, question, bucket or None for the whole run).
Assignment: TypeAlias = list[tuple[int, AuditTarget, Question, int | None]]


class TaskError(msgspec.Struct, frozen=True):
    """A `UsageError` on its way from a worker to the driver."""

    field: str
    value: str
    problem: str
    remedy: str

    def error(self) -> UsageError:
        return UsageError(self.field, self.value, self.problem, self.remedy)


def judge_assignment(task: bytes) -> bytes:
    """Judge a pickled assignment. Returns, pickled, outcomes of runs and surveys of buckets, with their numbers."""
    freeze_once()
    found: list[tuple[int, int | None, object]] = []
    todo: Assignment = pickle.loads(task)
    for index, target, asked, bucket in todo:
        try:
            if bucket is None:
                found.append((index, None, judge_run(_source(target), asked)))
            else:
                source, ledger = _opened(target, asked)
                found.append((index, bucket, survey_bucket(source, ledger, asked, bucket)))
        except UsageError as error:
            found.append((index, bucket, TaskError(error.field, str(error.value), error.problem, error.remedy)))
        except (AntecedeError, MemoryError) as error:
            name = target.path or target.name
            found.append((index, bucket, TaskError("run", name, f"{type(error).__name__} {error}", "leave it out")))
    return pickle.dumps(found)


def causal_with(target: AuditTarget, asked: Question, extra: Extra, bucket: int, so_far: CausalSoFar) -> Tally:
    """Judge the causal rule in one bucket again, with the edges that the driver gathered from all buckets."""
    about = (target, asked)
    if about not in _completed:
        source, ledger = _open(target, asked)
        ledger.add_strangers(extra.strangers)
        _completed.clear()
        _completed[about] = source, ledger, full_graph(ledger, extra, asked)
    source, ledger, graph = _completed[about]
    return causal_of_bucket(source, ledger, graph, extra, asked, bucket, so_far)


#: The run whose graph this worker completed last.
_completed: dict[tuple[AuditTarget, Question], tuple[Source, Ledger, Graph]] = {}


def _source(target: AuditTarget) -> Source:
    if target.spec is not None:
        trace = simulate(target.spec, trace=True, measure=False).trace
        assert trace is not None
        return TableSource(trace.table(target.name))
    assert target.path is not None
    path = Path(target.path)
    return DirectorySource(path) if is_trace_directory(path) else TableSource(read_trace(path, target.run))


def rows_of(target: AuditTarget) -> Iterator[Row]:
    """The rows of a run, in order, for the judge that reads row by row."""
    if target.spec is not None:
        trace = simulate(target.spec, trace=True, measure=False).trace
        assert trace is not None
        return trace.rows()
    assert target.path is not None
    path = Path(target.path)
    return table_rows(read_directory(path) if is_trace_directory(path) else read_trace(path, target.run))


def _open(target: AuditTarget, asked: Question) -> tuple[Source, Ledger]:
    source = _source(target)
    return source, read_ledger(source, asked)


def judge_table(rows: pa.Table, asked: Question) -> Outcome:
    """Judge the rows of one run, of a table with the columns of a trace and `row`."""
    trace = as_trace(rows, "the DataFrame")
    outcome = judge_run(TableSource(trace), asked)
    return with_examples(outcome, asked, lambda: table_rows(trace))


def with_examples(outcome: Outcome, asked: Question, rows: Callable[[], Iterable[Row]]) -> Outcome:
    """Add the violations after the first of each rule, if the caller asked for several.

    The judge that reads row by row finds them; in a run that is too large for it the first stays the only one.
    """
    report = outcome.report
    if report is None or report.ok or asked.examples == 1 or report.messages > MESSAGES_MAX:
        return outcome
    again = audit(
        rows(),
        across_topics=asked.across_topics,
        rules=report.violated,
        broadcast_to=asked.broadcast_to,
        examples=asked.examples,
    )
    rules = tuple(
        dataclasses.replace(rule, more=again.rule(rule.name).more) if rule.violations else rule for rule in report.rules
    )
    return Outcome(report=dataclasses.replace(report, rules=rules))


#: A worker judges several buckets of a run; it makes the ledger and its graph once.
_opened = lru_cache(maxsize=1)(_open)
