"""How tasks write to the driver while the job goes on: an accumulator, which Spark hands over as each task ends.

Alone in its file, because workers import it and should not import the driver's side with it.
"""

from pyspark.accumulators import AccumulatorParam


class Letters(AccumulatorParam[list[bytes]]):
    """Lists that grow. Spark counts the updates of a result task once, however often it was tried."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:
        value1 += value2
        return value1
