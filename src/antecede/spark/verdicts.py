"""Judges any number of runs at once: one row per run and rule, with counts and the first violation as an example.

    audit(session, "out/").filter("verdict = 'violated'").show()

Small runs share a task; a large run is judged bucket by bucket, one task each. The driver then decides what a bucket
cannot know of the others (`audit.vectorised.verdict`). Tests hold the verdicts to the reference judge,
`antecede.audit`.
"""

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from antecede.audit import DEFAULT_RULES, Question
from antecede.audit.vectorised.source import DirectorySource
from antecede.audit.vectorised.survey import Survey
from antecede.audit.vectorised.tally import Tally
from antecede.audit.vectorised.verdict import Outcome, conclude, full_graph, graph_to_add, read_ledger
from antecede.core import UsageError
from antecede.spark.audit_targets import AuditTarget, find_targets
from antecede.spark.audit_task import (
    Assignment,
    TaskError,
    causal_with,
    judge_assignment,
    judge_table,
    rows_of,
    with_examples,
)
from antecede.spark.frames import as_traces, read_traces
from antecede.spark.jobs import run_tasks

#: Bytes of small runs that share a task. Starting a task costs as much as reading some hundred kilobytes.
_TOGETHER: Final = 4 << 20

_EXAMPLE: Final = pa.struct(
    [
        ("words", pa.string()),
        ("nodes", pa.list_(pa.int64())),
        ("messages", pa.list_(pa.string())),
        ("rows", pa.list_(pa.int64())),
    ]
)
AUDIT_SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("experiment", pa.string()),
        ("source", pa.string()),
        ("rule", pa.string()),
        ("verdict", pa.string()),
        ("checked", pa.int64()),
        ("violations", pa.int64()),
        ("reason", pa.string()),
        ("example", pa.string()),
        ("example_nodes", pa.list_(pa.int64())),
        ("example_messages", pa.list_(pa.string())),
        ("example_rows", pa.list_(pa.int64())),
        #: Every violation that was asked for, the first one included.
        ("examples", pa.list_(_EXAMPLE)),
        ("command", pa.string()),
    ]
)


class RunVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's verdict on one run."""

    target: AuditTarget
    outcome: Outcome

    @property
    def ok(self) -> bool:
        """The run could be judged, and no rule was violated."""
        return self.outcome.report is not None and self.outcome.report.ok

    def to_dict(self) -> dict[str, Any]:
        target, outcome = self.target, self.outcome
        report = None if outcome.report is None else outcome.report.to_dict()
        if outcome.report is not None and report is not None:
            for rule, told in zip(outcome.report.rules, report["rules"], strict=True):
                told["examples"] = [example.to_dict() for example in rule.examples]
        return {
            "run": target.name,
            "experiment": target.experiment,
            "source": target.path or "simulated again",
            "command": target.command,
            "ok": self.ok,
            "refused": outcome.refused,
            "report": report,
        }


def audit(
    traces: DataFrame | SparkSession,
    *paths: str | Path,
    across_topics: bool | None = None,
    rules: Sequence[str] = DEFAULT_RULES,
    broadcast_to: Sequence[int] = (),
    examples: int = 1,
) -> DataFrame:
    """Judge every run of a DataFrame, or under `paths` with a session; a DataFrame with a row for each run and rule.

    A DataFrame needs columns of a trace (`frames.as_traces`); the rows of a run are judged by one task.
    `across_topics`: causal order holds over all topics; by default it does, except where a run's spec says otherwise.
    The other arguments are those of `antecede.audit.audit`. A trace that contradicts itself has one row, with the
    verdict `refused` and the reason.
    """
    asked = Question(
        across_topics=across_topics is not False,
        rules=tuple(rules),
        broadcast_to=tuple(broadcast_to),
        examples=examples,
    )
    if isinstance(traces, SparkSession):
        targets = find_targets([Path(path) for path in paths])
        verdicts = judge(traces, targets, asked, across_topics=across_topics)
        return traces.createDataFrame(verdict_table(verdicts))
    if not isinstance(traces, DataFrame):
        traces = read_traces(traces, *paths)  # a remote session runs no tasks of ours, but queries
    elif paths:
        raise UsageError(
            "paths", str(paths[0]), "stands beside a DataFrame", "give a DataFrame, or a session and paths"
        )

    # Nested, so that Spark ships it with the values it refers to.
    def judge_rows(batches: pa.Table) -> pa.Table:
        return judge_frame(batches, asked)

    runs = as_traces(traces).groupBy("experiment", "run")
    return runs.applyInArrow(judge_rows, from_arrow_schema(AUDIT_SCHEMA))


def judge(
    session: SparkSession,
    targets: Sequence[AuditTarget],
    asked: Question,
    *,
    across_topics: bool | None = None,
    on_done: Callable[[int], None] = lambda runs: None,
) -> list[RunVerdict]:
    """Judge `targets` and return the verdicts in their order. `on_done` is called with the number of finished runs."""
    questions = [_question(target, asked, across_topics) for target in targets]
    tasks = _tasks(targets, questions)
    outcomes: dict[int, Outcome] = {}
    surveys: dict[int, dict[int, Survey]] = {}

    def arrived(report: bytes) -> None:
        for index, bucket, found in pickle.loads(report):
            if isinstance(found, TaskError):
                raise found.error()
            if bucket is None:
                outcomes[index] = found
                on_done(1)
                continue
            surveys.setdefault(index, {})[bucket] = found
            if len(surveys[index]) == targets[index].buckets:
                on_done(1)

    run_tasks(session, [pickle.dumps(task) for task in tasks], judge_assignment, arrived)
    for index, by_bucket in surveys.items():
        found = [by_bucket[bucket] for bucket in sorted(by_bucket)]
        outcomes[index] = _finish(session, targets[index], questions[index], found)
    return [
        RunVerdict(target=target, outcome=with_examples(outcomes[index], questions[index], partial(rows_of, target)))
        for index, target in enumerate(targets)
    ]


def verdict_table(verdicts: Sequence[RunVerdict]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for verdict in verdicts:
        target, outcome = verdict.target, verdict.outcome
        common = {
            "run": target.name,
            "experiment": target.experiment,
            "source": target.path or "simulated again",
            "command": target.command,
        }
        if outcome.report is None:
            rows.append({**common, "verdict": "refused", "checked": 0, "violations": 0, "reason": outcome.refused})
            continue
        for rule in outcome.report.rules:
            row: dict[str, Any] = {
                **common,
                "rule": rule.name,
                "verdict": rule.verdict.value,
                "checked": rule.checked,
                "violations": rule.violations,
                "reason": rule.reason,
            }
            found = [
                {
                    "words": example.words,
                    "nodes": list(example.nodes),
                    "messages": [f"{t}/{source}.{seq}" for t, source, seq in example.messages],
                    "rows": list(example.rows),
                }
                for example in rule.examples
            ]
            if found:
                first = found[0]
                row |= {"example": first["words"], "examples": found}
                row |= {f"example_{name}": first[name] for name in ("nodes", "messages", "rows")}
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=AUDIT_SCHEMA)


def judge_frame(rows: pa.Table, asked: Question) -> pa.Table:
    """Judge the rows of one run, on a worker. Returns its part of the table of verdicts."""
    name, experiment = rows["run"][0].as_py(), rows["experiment"][0].as_py()
    target = AuditTarget(name=name, experiment=experiment, path="DataFrame")
    return verdict_table([RunVerdict(target=target, outcome=judge_table(rows, asked))])


# -- on the driver ---------------------------------------------------------------------------------------------------


def _question(target: AuditTarget, asked: Question, across_topics: bool | None) -> Question:
    """The question for one run: what the run promises, unless the caller asked for something else."""
    if across_topics is None and target.across_topics is not None:
        asked = dataclasses.replace(asked, across_topics=target.across_topics)
    if target.promises is not None and asked.rules == DEFAULT_RULES:
        asked = dataclasses.replace(asked, rules=target.promises)
    return asked


def _tasks(targets: Sequence[AuditTarget], questions: Sequence[Question]) -> list[Assignment]:
    """Assign targets to tasks, heaviest first. Buckets of one run stay together: a worker keeps the ledger it read."""
    order = sorted(range(len(targets)), key=lambda index: -targets[index].weight)
    tasks: list[Assignment] = []
    together: Assignment = []
    weight = 0.0
    for index in order:
        target, question = targets[index], questions[index]
        if target.buckets > 1:
            tasks += [[(index, target, question, bucket)] for bucket in range(target.buckets)]
            continue
        together.append((index, target, question, None))
        weight += target.weight
        if weight >= _TOGETHER:
            tasks.append(together)
            together, weight = [], 0.0
    return [*tasks, together] if together else tasks


def _finish(session: SparkSession, target: AuditTarget, asked: Question, surveys: list[Survey]) -> Outcome:
    """Conclude on a large run from its buckets; judge the causal rule again if the graph turns out incomplete."""
    assert target.path is not None
    source = DirectorySource(Path(target.path))
    ledger = read_ledger(source, asked)
    extra = graph_to_add(ledger, surveys)
    if extra is None:
        return conclude(source, ledger, surveys, None, asked)
    shared = session.sparkContext.broadcast(extra)
    tallies: dict[int, Tally] = {}

    # Nested, so that Spark ships it with the values it refers to, and workers need not import this file.
    def work(task: bytes) -> bytes:
        bucket, so_far = pickle.loads(task)
        return pickle.dumps((bucket, causal_with(target, asked, shared.value, bucket, so_far)))

    def arrived(report: bytes) -> None:
        bucket, tally = pickle.loads(report)
        tallies[bucket] = tally

    tasks = [pickle.dumps((bucket, found.causal())) for bucket, found in enumerate(surveys)]
    run_tasks(session, tasks, work, arrived)
    shared.destroy()
    ledger.add_strangers(extra.strangers)
    for bucket, found in enumerate(surveys):
        found.tallies["causal"] = tallies[bucket]
    return conclude(source, ledger, surveys, full_graph(ledger, extra, asked), asked)
