"""Runs one Spark job over a list of tasks and hands over each result when its task ends.

Every task is a partition of its own, so tasks start in the order of the list and no task waits behind another on a busy
core. Results reach the driver through an accumulator (`task_reports`) while the job goes on. The caller can show
progress and save results at once, and Ctrl-C keeps what has arrived.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from antecede.spark.task_reports import TaskReports

#: How often the driver looks for new results.
_LOOK_EVERY_S: Final = 0.05
_GROUP: Final = "antecede"


class WorkerDiedError(RuntimeError):
    """A worker died in a task, and again when Spark tried the task once more."""

    def __init__(self, task: int, why: str) -> None:
        self.task = task
        self.why = why
        super().__init__(f"the worker died: {why}")


def run_tasks(
    session: SparkSession,
    tasks: Sequence[bytes],
    work: Callable[[bytes], bytes],
    arrived: Callable[[bytes], None],
) -> None:
    """Call `work` for every task on the workers, and `arrived` on the driver with each result, as they come.

    `work` should not raise: an error of one task belongs into its result. Raises `WorkerDiedError` with the number of a
    task whose worker died. An exception in `arrived`, or Ctrl-C, cancels the job.
    """
    context = session.sparkContext
    reports = context.accumulator([], TaskReports())

    def do(task: bytes) -> None:
        reports.add([work(task)])

    errors: list[BaseException] = []

    def submit() -> None:
        try:
            context.setJobGroup(_GROUP, _GROUP, interruptOnCancel=True)
            context.parallelize(tasks, len(tasks)).foreach(do)
        except BaseException as error:
            errors.append(error)

    if not tasks:
        return
    thread = InheritableThread(target=submit, daemon=True)
    thread.start()
    read = 0
    try:
        while True:
            alive = thread.is_alive()  # asked before the reports are read, so that the last ones are read too
            new = reports.value[read:]
            read += len(new)
            for report in new:
                arrived(report)
            if not alive:
                break
            thread.join(_LOOK_EVERY_S)
    except BaseException:
        context.cancelJobGroup(_GROUP)
        raise
    if errors:
        raise _worker_died(errors[0]) from errors[0]


def _worker_died(error: BaseException) -> BaseException:
    said = str(error)
    found = re.search(r"Task (\d+) in stage \S+ failed", said)
    if found is None:
        return error
    reason = re.search(r"(?:Python worker exited unexpectedly|ExecutorLostFailure|exited unexpectedly)[^\n]*", said)
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception): .*)$", said, re.MULTILINE)
    return WorkerDiedError(int(found[1]), reason[0] if reason else raised[-1] if raised else "no reason was given")
