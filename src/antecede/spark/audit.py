"""The judge over any number of runs at once: one row a run and rule, with counts and the first offending example.

    audit(session, "out/").filter("verdict = 'violated'").show()

A small run is judged within one task, many of them to a task; a large one bucket by bucket, a task each, where only
what buckets cannot know of each other comes back to the driver (`judging.verdict`). Verdicts are those of
`antecede.audit`, which is the oracle the tests hold this to.
"""

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from antecede.audit import DEFAULT_RULES, Question
from antecede.audit.vectorised.source import DirectorySource
from antecede.audit.vectorised.survey import Survey
from antecede.audit.vectorised.tally import Tally
from antecede.audit.vectorised.verdict import Outcome, conclude, full_graph, graph_to_add, read_ledger
from antecede.spark.audit_targets import Subject, find_subjects
from antecede.spark.audit_task import Assignment, Trouble, causal_with, judge_assignment
from antecede.spark.jobs import run_tasks

#: Small runs are put together up to so many bytes a task: a task costs as much as reading some hundred kilobytes.
_TOGETHER: Final = 4 << 20

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
        ("command", pa.string()),
    ]
)


class RunVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge says of one run."""

    subject: Subject
    outcome: Outcome

    @property
    def ok(self) -> bool:
        """It could be judged and no rule was violated."""
        return self.outcome.report is not None and self.outcome.report.ok

    def to_dict(self) -> dict[str, Any]:
        subject, outcome = self.subject, self.outcome
        return {
            "run": subject.name,
            "experiment": subject.experiment,
            "source": subject.path or "simulated again",
            "command": subject.command,
            "ok": self.ok,
            "refused": outcome.refused,
            "report": outcome.report.to_dict() if outcome.report else None,
        }


def audit(
    session: SparkSession,
    *paths: str | Path,
    across_topics: bool | None = None,
    rules: Sequence[str] = DEFAULT_RULES,
    broadcast_to: Sequence[int] = (),
) -> DataFrame:
    """Judge every run under `paths`; a DataFrame with a row for each run and rule.

    `across_topics`: causal order holds over all topics; by default it does, except where a run's spec says otherwise.
    The other arguments are those of `antecede.audit.audit`. A trace that contradicts itself has one row, with verdict
    `refused` and the reason.
    """
    asked = Question(across_topics=across_topics is not False, rules=tuple(rules), broadcast_to=tuple(broadcast_to))
    verdicts = judge(session, find_subjects([Path(path) for path in paths]), asked, across_topics=across_topics)
    return session.createDataFrame(verdict_table(verdicts))


def judge(
    session: SparkSession,
    subjects: Sequence[Subject],
    asked: Question,
    *,
    across_topics: bool | None = None,
    on_done: Callable[[int], None] = lambda runs: None,
) -> list[RunVerdict]:
    """Judge `subjects`, in their order. `on_done` is told how many more were finished."""
    questions = [_question(subject, asked, across_topics) for subject in subjects]
    tasks = _tasks(subjects, questions)
    outcomes: dict[int, Outcome] = {}
    surveys: dict[int, dict[int, Survey]] = {}

    def arrived(letter: bytes) -> None:
        for index, bucket, found in pickle.loads(letter):
            if isinstance(found, Trouble):
                raise found.error()
            if bucket is None:
                outcomes[index] = found
                on_done(1)
                continue
            surveys.setdefault(index, {})[bucket] = found
            if len(surveys[index]) == subjects[index].buckets:
                on_done(1)

    run_tasks(session, [pickle.dumps(task) for task in tasks], judge_assignment, arrived)
    for index, by_bucket in surveys.items():
        found = [by_bucket[bucket] for bucket in sorted(by_bucket)]
        outcomes[index] = _finish(session, subjects[index], questions[index], found)
    return [RunVerdict(subject=subject, outcome=outcomes[index]) for index, subject in enumerate(subjects)]


def verdict_table(verdicts: Sequence[RunVerdict]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for verdict in verdicts:
        subject, outcome = verdict.subject, verdict.outcome
        common = {
            "run": subject.name,
            "experiment": subject.experiment,
            "source": subject.path or "simulated again",
            "command": subject.command,
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
            if rule.example is not None:
                row["example"] = rule.example.words
                row["example_nodes"] = list(rule.example.nodes)
                row["example_messages"] = [f"{t}/{source}.{seq}" for t, source, seq in rule.example.messages]
                row["example_rows"] = list(rule.example.rows)
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=AUDIT_SCHEMA)


# -- the driver's side ------------------------------------------------------------------------------------------------


def _question(subject: Subject, asked: Question, across_topics: bool | None) -> Question:
    """What is asked of one run: what it promises, unless more or less was asked for."""
    if across_topics is None and subject.across_topics is not None:
        asked = dataclasses.replace(asked, across_topics=subject.across_topics)
    if subject.promises is not None and asked.rules == DEFAULT_RULES:
        asked = dataclasses.replace(asked, rules=subject.promises)
    return asked


def _tasks(subjects: Sequence[Subject], questions: Sequence[Question]) -> list[Assignment]:
    """Heaviest first. Buckets of one run stay together in the list, so that a worker meets a ledger it has read."""
    order = sorted(range(len(subjects)), key=lambda index: -subjects[index].weight)
    tasks: list[Assignment] = []
    together: Assignment = []
    weight = 0.0
    for index in order:
        subject, question = subjects[index], questions[index]
        if subject.buckets > 1:
            tasks += [[(index, subject, question, bucket)] for bucket in range(subject.buckets)]
            continue
        together.append((index, subject, question, None))
        weight += subject.weight
        if weight >= _TOGETHER:
            tasks.append(together)
            together, weight = [], 0.0
    return [*tasks, together] if together else tasks


def _finish(session: SparkSession, subject: Subject, asked: Question, surveys: list[Survey]) -> Outcome:
    """The verdict on a large run from its buckets; the causal rule once more if its graph was incomplete."""
    assert subject.path is not None
    source = DirectorySource(Path(subject.path))
    ledger = read_ledger(source, asked)
    extra = graph_to_add(ledger, surveys)
    if extra is None:
        return conclude(source, ledger, surveys, None, asked)
    shared = session.sparkContext.broadcast(extra)
    tallies: dict[int, Tally] = {}

    # Nested, so that it travels with what it refers to, and workers need not import this file.
    def work(task: bytes) -> bytes:
        bucket, so_far = pickle.loads(task)
        return pickle.dumps((bucket, causal_with(subject, asked, shared.value, bucket, so_far)))

    def arrived(letter: bytes) -> None:
        bucket, tally = pickle.loads(letter)
        tallies[bucket] = tally

    tasks = [pickle.dumps((bucket, found.causal())) for bucket, found in enumerate(surveys)]
    run_tasks(session, tasks, work, arrived)
    shared.destroy()
    ledger.add_strangers(extra.strangers)
    for bucket, found in enumerate(surveys):
        found.tallies["causal"] = tallies[bucket]
    return conclude(source, ledger, surveys, full_graph(ledger, extra, asked), asked)
