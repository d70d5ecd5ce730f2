"""The adapters, by the public suite; and the suite finds adapters that are wrong."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antecede.logs import Batch, LogAdapter
from antecede.logs.connect import connect_adapter
from antecede.testing import ConformanceError, check_adapter
from tests.logs.systems import System

Logs = tuple[str, str]


def check(system: System, logs: Logs, *, remove: bool = False, spoil: Any = None, step_s: float = 60) -> None:
    async def make() -> LogAdapter:
        adapter = connect_adapter(system.url(*logs))
        if spoil is not None:
            spoil(adapter)
        return adapter

    async def removed(topic: str, keep: int) -> None:
        await system.remove_until(topic.partition("/")[0], keep)

    async def story() -> None:
        await system.create(*logs)
        await check_adapter(make, [f"{log}/1" for log in logs], removed if remove else None, step_s=step_s)

    asyncio.run(story())


def test_conformance(system: System, logs: Logs) -> None:
    check(system, logs)


def test_conformance_with_retention(lasting: System, logs: Logs) -> None:
    check(lasting, logs, remove=True)


def test_an_adapter_that_proves_too_much_is_found(lasting: System, logs: Logs) -> None:
    def spoil(adapter: Any) -> None:
        async def progress(log: int, after: int, upto: int) -> int:
            return upto

        adapter.progress = progress

    with pytest.raises(ConformanceError, match="was proved over a record"):
        check(lasting, logs, spoil=spoil)


def test_an_adapter_that_skips_is_found(lasting: System, logs: Logs) -> None:
    def spoil(adapter: Any) -> None:
        read = adapter.read

        async def skipping(log: int, after: int, most: int) -> AsyncGenerator[Batch, None]:
            async for batch in read(log, after, most):
                yield batch._replace(records=batch.records[1:] or batch.records)

        adapter.read = skipping

    with pytest.raises(ConformanceError):
        check(lasting, logs, spoil=spoil, step_s=3)


def test_an_adapter_that_hides_gaps_is_found(lasting: System, logs: Logs) -> None:
    def spoil(adapter: Any) -> None:
        read = adapter.read

        async def silent(log: int, after: int, most: int) -> AsyncGenerator[Batch, None]:
            async for batch in read(log, after, most):
                yield batch._replace(first=0)

        adapter.read = silent

    with pytest.raises(ConformanceError, match="is told 0"):
        check(lasting, logs, remove=True, spoil=spoil)
