"""Lets code that is not asynchronous read logs: Spark's drivers and tasks."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Self, TypeVar

from antecede.logs.connect import connect_adapter
from antecede.logs.contract import Batch, Bounds
from antecede.logs.cutting import consistent_cut
from antecede.logs.reading import read_until
from antecede.spark.logs.options import LogOptions

_BATCH: Final = 2048
T = TypeVar("T")


class Logs:
    """A connection to the logs of a url; a context manager."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        #: The logs: by name, the number.
        self.numbers: dict[str, int] = {}

    def __enter__(self) -> Self:
        tls = None
        if self._options.tls:
            from antecede.spark.topics.stores import open_tls  # noqa: PLC0415 - cryptography is slow to load

            tls = open_tls(self._options.tls)
        self._loop = asyncio.new_event_loop()
        self._adapter = connect_adapter(self._options.url, name="spark", token=self._options.token, tls=tls)
        try:
            names = self._run(self._adapter.open())
        except BaseException:
            self._loop.close()
            raise
        self.numbers = {name: number for number, name in sorted(names.items(), key=lambda one: one[1])}
        return self

    def __exit__(self, *exception: object) -> None:
        self._run(self._adapter.close())
        self._run(self._loop.shutdown_asyncgens())
        self._loop.close()

    def bounds(self, name: str) -> Bounds:
        return self._run(self._adapter.bounds(self.numbers[name]))

    def cut(self) -> dict[str, int]:
        """The last offset of each log within a consistent cut."""
        ends = self._run(consistent_cut(self._adapter, sorted(self.numbers.values())))
        return {name: ends[number] for name, number in self.numbers.items()}

    def read(self, name: str, after: int, last: int) -> Iterator[Batch]:
        reading = read_until(self._adapter, self.numbers[name], after, last, _BATCH)
        try:
            while (batch := self._run(_next(reading))) is not None:
                yield batch
        finally:
            self._run(reading.aclose())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


async def _next(reading: Any) -> Batch | None:
    return await anext(reading, None)
