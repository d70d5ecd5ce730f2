"""One Spark job over a list of tasks, whose results come in while it goes on.

Every task is a partition of its own, so tasks start in the order of the list and none waits behind another on a busy
core. A result reaches the driver when its task ends (`letters`), not when all do: progress can be shown, results can be
made safe, and Ctrl-C leaves what has come.
"""

import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from antecede.spark.task_reports import Letters

#: How often the driver looks for results that came in.
_LOOK_EVERY_S: Final = 0.05
_GROUP: Final = "antecede"


class WorkerDiedError(RuntimeError):
    """A worker died under a task, again and again."""

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
    """Do `work` for every task on the workers, and call `arrived` here with each result, in the order they come.

    `work` should not raise: what can go wrong with one task belongs into its result. Raises `WorkerDiedError` with the
    number of a task whose worker died. An exception out of `arrived`, or Ctrl-C, cancels the job.
    """
    context = session.sparkContext
    box = context.accumulator([], Letters())

    def do(task: bytes) -> None:
        box.add([work(task)])

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
            alive = thread.is_alive()  # asked before the box is emptied: what comes last is still read
            letters = box.value[read:]
            read += len(letters)
            for letter in letters:
                arrived(letter)
            if not alive:
                break
            time.sleep(_LOOK_EVERY_S)
    except BaseException:
        context.cancelJobGroup(_GROUP)
        raise
    if errors:
        raise _who_died(errors[0]) from errors[0]


def _who_died(error: BaseException) -> BaseException:
    said = str(error)
    found = re.search(r"Task (\d+) in stage \S+ failed", said)
    if found is None:
        return error
    reason = re.search(r"(?:Python worker exited unexpectedly|ExecutorLostFailure|exited unexpectedly)[^\n]*", said)
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception): .*)$", said, re.MULTILINE)
    return WorkerDiedError(int(found[1]), reason[0] if reason else raised[-1] if raised else "it did not say why")
