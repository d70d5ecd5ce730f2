"""Carries results from tasks to the driver while a job runs, through an accumulator updated as tasks end.

This file stands alone because workers import it: they should not load the driver's side.
"""

from pyspark.accumulators import AccumulatorParam


class TaskReports(AccumulatorParam[list[bytes]]):
    """An accumulator of lists. Spark counts the update of a task once, however often the task was tried."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:
        value1 += value2
        return value1
