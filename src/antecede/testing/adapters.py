"""What an adapter of a log system owes the bus over it: `check_adapter` for whoever adds one.

    async def make() -> LogAdapter: return MyAdapter(...)    # over logs that no other test uses
    asyncio.run(check_adapter(make, ["orders/1", "shipping/1"]))

The topics must lie in different logs. Removal by retention is checked if `remove` is given: it must leave the last
`keep` records of a log.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Final

from antecede.logs import Batch, LogAdapter, LogRecord, Outgoing
from antecede.logs.bus import LogBus
from antecede.protocols.logs import Header, encode_header
from antecede.testing.world import ConformanceError

#: How long one step may take on a busy machine.
_STEP_S: Final = 60.0
_RECORDS: Final = 300

MakeAdapter = Callable[[], Awaitable[LogAdapter]]
Remove = Callable[[str, int], Awaitable[None]]


async def check_adapter(
    make: MakeAdapter, topics: list[str], remove: Remove | None = None, *, step_s: float = _STEP_S
) -> None:
    """Raises `ConformanceError`, which says what is wrong. Each check has a connection of its own."""
    for check in (_appends, _reads_from_any_offset, _waits_at_the_end, _proves_progress):
        await _play(make, partial(check, topics=topics), step_s)
    if remove is not None:
        await _play(make, partial(_retention, topic=topics[0], remove=remove), step_s)
    try:
        async with asyncio.timeout(step_s):
            await _carries_a_bus(await make(), topics)
    except TimeoutError:
        raise ConformanceError(f"a bus over the adapter does nothing within {step_s:g} s") from None


async def _play(make: MakeAdapter, check: Callable[[LogAdapter], Awaitable[None]], step_s: float) -> None:
    adapter = await make()
    await adapter.open()
    try:
        async with asyncio.timeout(step_s):
            await check(adapter)
    except TimeoutError:
        raise ConformanceError(f"{check}: nothing happened within {step_s:g} s") from None
    finally:
        await adapter.close()


def _expect(true: bool, problem: str) -> None:
    if not true:
        raise ConformanceError(problem)


def _record(topic: str, number: int, writer: int = 1) -> Outgoing:
    header = encode_header(Header(writer, number, ((7, number), (1 << 26, 3))))
    return Outgoing(topic, f"{number}".encode(), {"lang": "en"}, header, f"{writer:016x}-{topic}-{number}")


async def _take(adapter: LogAdapter, log: int, after: int, count: int) -> list[LogRecord]:
    found: list[LogRecord] = []
    async with aclosing(adapter.read(log, after, 50)) as reading:
        while len(found) < count:
            batch: Batch = await anext(reading)
            _expect(len(batch.records) <= 50, "a batch has more records than were asked for")
            found += batch.records
            _expect(not found or batch.upto >= found[-1].offset, "a batch ends before its last record")
    return found


async def _appends(adapter: LogAdapter, topics: list[str]) -> None:
    """Appends in flight together keep their order, and every part of a record comes back as it was."""
    log = adapter.log_of(topics[0])
    start = (await adapter.bounds(log)).last
    futures = [await adapter.append(log, _record(topics[0], number, 2)) for number in range(1, _RECORDS + 1)]
    offsets = [await future for future in futures]
    _expect(offsets == sorted(set(offsets)), "the offsets of appends do not ascend in the order of the calls")
    read = await _take(adapter, log, start, _RECORDS)
    _expect([record.offset for record in read] == offsets, "offsets that were acknowledged are not those that are read")
    for number, record in enumerate(read, 1):
        sent = _record(topics[0], number, 2)
        came = (record.topic, record.payload, record.headers, record.header)
        _expect(came == (sent.topic, sent.payload, sent.headers, sent.header), f"{sent} came back as {record}")
    bounds = await adapter.bounds(log)
    _expect(bounds.last >= offsets[-1], f"the log says that it ends at {bounds.last}, before {offsets[-1]}")
    _expect(bounds.first <= offsets[0], f"the log says that it begins at {bounds.first}, behind {offsets[0]}")


async def _reads_from_any_offset(adapter: LogAdapter, topics: list[str]) -> None:
    log = adapter.log_of(topics[0])
    start = (await adapter.bounds(log)).last
    offsets = [await (await adapter.append(log, _record(topics[0], number, 3))) for number in range(1, 21)]
    for index in (0, 7, 18):
        read = await _take(adapter, log, offsets[index], 19 - index)
        _expect([record.offset for record in read] == offsets[index + 1 :], f"reading behind {offsets[index]} is wrong")
    read = await _take(adapter, log, start, 20)
    _expect([record.offset for record in read] == offsets, "reading from where the log ended before is wrong")


async def _waits_at_the_end(adapter: LogAdapter, topics: list[str]) -> None:
    log = adapter.log_of(topics[1])
    start = (await adapter.bounds(log)).last
    async with aclosing(adapter.read(log, start, 50)) as quiet:
        batch = await anext(quiet)
    _expect(batch == Batch([], start), f"a quiet log gives {batch}, not an empty batch")
    reading = asyncio.create_task(_take(adapter, log, start, 1))
    await asyncio.sleep(0.5)
    _expect(not reading.done(), "a read at the end of a log does not wait")
    offset = await (await adapter.append(log, _record(topics[1], 1, 4)))
    _expect([record.offset for record in await reading] == [offset], "a read that waited is not given what came")


async def _proves_progress(adapter: LogAdapter, topics: list[str]) -> None:
    """It proves nothing about records that are there, or that are not appended yet."""
    log = adapter.log_of(topics[0])
    start = (await adapter.bounds(log)).last
    offset = await (await adapter.append(log, _record(topics[0], 1, 5)))
    proved = await adapter.progress(log, start, offset)
    _expect(start <= proved < offset, f"progress to {proved} was proved over a record at {offset}")
    proved = await adapter.progress(log, offset, offset + 1000)
    _expect(proved < offset + 1000, f"progress to {proved} was proved, and the log ends at {offset}")


async def _carries_a_bus(adapter: LogAdapter, topics: list[str]) -> None:
    """A bus over it yields what is published across logs in that order."""
    async with LogBus(adapter, patience_s=_STEP_S) as bus, bus.subscribe(*topics) as feed:
        sent = [await bus.publish(topics[number % 2], f"{number}".encode()) for number in range(20)]
        read = [(await anext(feed)).id for _ in sent]
    _expect(read == sent, f"a bus reads {read} where {sent} was published")


async def _retention(adapter: LogAdapter, topic: str, remove: Remove) -> None:
    log = adapter.log_of(topic)
    start = (await adapter.bounds(log)).last
    offsets = [await (await adapter.append(log, _record(topic, number, 6))) for number in range(1, 11)]
    await remove(topic, 4)
    bounds = await adapter.bounds(log)
    _expect(bounds.first == offsets[6], f"retention left {offsets[6]} and behind; the log says {bounds.first}")
    _expect(not bounds.whole, "a log that lost records says that it is whole")
    async with aclosing(adapter.read(log, start, 50)) as reading:
        batch = await anext(reading)
        while not batch.records:
            batch = await anext(reading)
    _expect(batch.first == offsets[6], f"a reader that missed records is told {batch.first}, not {offsets[6]}")
    _expect(batch.records[0].offset == offsets[6], "reading does not go on at the first record left")
    proved = await adapter.progress(log, start, offsets[5])
    _expect(proved == offsets[5], f"only {proved} of the removed offsets up to {offsets[5]} is proved to be gone")
