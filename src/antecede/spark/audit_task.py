"""What a worker does for the audit: judge whole runs, or buckets of a large one."""

import pickle
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from antecede.audit import Question
from antecede.audit.vectorised.graph import Graph
from antecede.audit.vectorised.ledger import Ledger
from antecede.audit.vectorised.source import DirectorySource, Source, TableSource
from antecede.audit.vectorised.survey import CausalSoFar
from antecede.audit.vectorised.tally import Tally
from antecede.audit.vectorised.verdict import (
    Extra,
    causal_of_bucket,
    full_graph,
    judge_run,
    read_ledger,
    survey_bucket,
)
from antecede.core import AntecedeError, UsageError
from antecede.sim import simulate
from antecede.spark.audit_targets import Subject
from antecede.spark.gc_freeze import freeze_once
from antecede.trace.files import read_trace

#: What a task is to do: some of (number of the subject, subject, question, bucket or None for all of it).
Assignment: TypeAlias = list[tuple[int, Subject, Question, int | None]]


class Trouble(msgspec.Struct, frozen=True):
    """An error of ours, on its way to the driver."""

    field: str
    value: str
    problem: str
    remedy: str

    def error(self) -> UsageError:
        return UsageError(self.field, self.value, self.problem, self.remedy)


def judge_assignment(task: bytes) -> bytes:
    """Outcomes of whole runs and surveys of buckets, each with its number and bucket; pickled, as is the assignment."""
    freeze_once()
    found: list[tuple[int, int | None, object]] = []
    todo: Assignment = pickle.loads(task)
    for index, subject, asked, bucket in todo:
        try:
            if bucket is None:
                found.append((index, None, judge_run(_source(subject), asked)))
            else:
                source, ledger = _opened(subject, asked)
                found.append((index, bucket, survey_bucket(source, ledger, asked, bucket)))
        except UsageError as error:
            found.append((index, bucket, Trouble(error.field, str(error.value), error.problem, error.remedy)))
        except (AntecedeError, MemoryError) as error:
            name = subject.path or subject.name
            found.append((index, bucket, Trouble("run", name, f"{type(error).__name__} {error}", "leave it out")))
    return pickle.dumps(found)


def causal_with(subject: Subject, asked: Question, extra: Extra, bucket: int, so_far: CausalSoFar) -> Tally:
    """The causal rule in one bucket, with edges the driver gathered from all of them."""
    about = (subject, asked)
    if about not in _completed:
        source, ledger = _open(subject, asked)
        ledger.add_strangers(extra.strangers)
        _completed.clear()
        _completed[about] = source, ledger, full_graph(ledger, extra, asked)
    source, ledger, graph = _completed[about]
    return causal_of_bucket(source, ledger, graph, extra, asked, bucket, so_far)


#: The run whose graph was completed last, in this worker.
_completed: dict[tuple[Subject, Question], tuple[Source, Ledger, Graph]] = {}


def _source(subject: Subject) -> Source:
    if subject.spec is not None:
        trace = simulate(subject.spec, trace=True, measure=False).trace
        assert trace is not None
        return TableSource(trace.table(subject.name))
    assert subject.path is not None
    path = Path(subject.path)
    return DirectorySource(path) if path.is_dir() else TableSource(read_trace(path))


def _open(subject: Subject, asked: Question) -> tuple[Source, Ledger]:
    source = _source(subject)
    return source, read_ledger(source, asked)


#: A worker judges several buckets of a run: the ledger and its graph are made once.
_opened = lru_cache(maxsize=1)(_open)
