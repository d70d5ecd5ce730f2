"""A server that is killed and started again: nothing is lost, and nothing comes twice."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import nats
import pytest

from antecede import ConnectionLostError, PublishError
from antecede.logs import Batch, Bounds, connect
from antecede.logs.jetstream import close_client
from tests.logs.systems import LASTING, System, running


@pytest.mark.parametrize("name", LASTING)
def test_a_server_that_is_killed_twice(name: str, tmp_path: Path) -> None:
    async def publish(url: str, count: int) -> None:
        async with connect(url) as bus:
            for index in range(count):
                await bus.publish(f"{('orders', 'shipping')[index % 2]}/1", str(index).encode())

    async def read(url: str, count: int, some: asyncio.Queue[int]) -> list[int]:
        async with connect(url) as bus, bus.subscribe("#", since="0") as feed:
            read: list[int] = []
            while len(read) < count:
                message = await anext(feed)
                assert not message.out_of_order
                read.append(int(message.payload))
                some.put_nowait(len(read))
            return read

    async def story() -> None:
        async with asyncio.timeout(100):
            await system.create("orders", "shipping")
            url, some = system.url("orders", "shipping"), asyncio.Queue[int]()
            reading = asyncio.create_task(read(url, 600, some))
            publishing = asyncio.create_task(publish(url, 600))
            for kill_at in (100, 300):
                while await some.get() < kill_at:
                    pass
                await asyncio.to_thread(system.stop)
                await asyncio.sleep(0.5)
                await asyncio.to_thread(system.start)
            await publishing
            assert await reading == list(range(600))

    with running(name, tmp_path) as system:
        asyncio.run(story())


@pytest.mark.parametrize("name", LASTING)
def test_a_server_that_stays_away_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # How long a bus that closes waits for acknowledgements, and for answers.
    monkeypatch.setattr("antecede.logs.publishing._CLOSING_S", 0.5)
    monkeypatch.setattr("antecede.logs.jetstream._API_S", 1.0)

    async def story() -> None:
        async with asyncio.timeout(60):
            await system.create("orders")
            async with connect(system.url("orders"), patience_s=0.5) as bus, bus.subscribe("#") as feed:
                await asyncio.to_thread(system.stop)
                with pytest.raises(PublishError, match="it may still be delivered"):
                    await bus.publish("orders/1", b"", timeout_s=0.5)
                with pytest.raises(ConnectionLostError):
                    await anext(feed)

    with running(name, tmp_path) as system:
        asyncio.run(story())


def test_a_cluster_that_elects_a_leader_is_waited_for(system: System, logs: tuple[str, str]) -> None:
    async def story() -> None:
        async with asyncio.timeout(60):
            await system.create(*logs)
            async with connect(system.url(*logs)) as bus:
                await bus.publish(f"{logs[0]}/1", b"hello")
                bounds, silent = bus._adapter.bounds, iter(range(3))

                async def at_last(log: int) -> Bounds:
                    if next(silent, None) is not None:
                        raise ConnectionLostError("there is no leader")
                    return await bounds(log)

                bus._adapter.bounds = at_last  # type: ignore[method-assign]
                async with bus.subscribe("#", since="0") as feed:
                    assert (await anext(feed)).payload == b"hello"

    asyncio.run(story())


def test_connections_that_break_now_and_then_are_not_one_long_outage(lasting: System, logs: tuple[str, str]) -> None:
    """A quiet log, whose connection breaks and comes back, for longer than the feed's patience."""

    async def story() -> None:
        async with asyncio.timeout(60):
            await lasting.create(*logs)
            async with connect(lasting.url(*logs), patience_s=2.5) as bus:
                read, breaks = bus._adapter.read, dict[int, int]()

                async def breaking(log: int, after: int, most: int) -> AsyncGenerator[Batch, None]:
                    async with aclosing(read(log, after, most)) as reading:
                        async for batch in reading:
                            yield batch
                            breaks[log] = breaks.get(log, 0) + 1
                            if breaks[log] <= 3:
                                raise ConnectionLostError("it broke")

                bus._adapter.read = breaking  # type: ignore[method-assign]
                async with bus.subscribe("#") as feed:
                    while len(breaks) < 2 or min(breaks.values()) <= 3:
                        assert feed._error is None
                        await asyncio.sleep(0.05)
                    await bus.publish(f"{logs[0]}/1", b"hello")
                    assert (await anext(feed)).payload == b"hello"

    asyncio.run(story())


def test_a_consumer_that_jetstream_deleted_is_made_anew(tmp_path: Path) -> None:
    """A server deletes the consumer of a reader that paused for long. The reader asks, and nobody answers."""

    async def story() -> None:
        async with asyncio.timeout(60):
            await system.create("orders")
            client = await nats.connect(system.url("orders").partition("?")[0])
            js = client.jetstream()
            async with connect(system.url("orders")) as bus, bus.subscribe("#", since="0") as feed:
                await bus.publish("orders/1", b"before")
                assert (await anext(feed)).payload == b"before"
                (consumer,) = await js.consumers_info("orders")
                await js.delete_consumer("orders", consumer.name)
                await bus.publish("orders/1", b"after")
                assert (await anext(feed)).payload == b"after"
            await client.close()

    with running("nats", tmp_path) as system:
        asyncio.run(story())


class _Client:
    """A client of nats-py whose socket another task has waited for, and was cancelled."""

    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        await self.closed


def test_a_wait_that_the_library_cancelled_does_not_cancel_its_caller() -> None:
    async def story() -> None:
        gone = _Client()
        gone.closed.cancel()
        await close_client(gone)

        slow = asyncio.create_task(close_client(_Client()))
        await asyncio.sleep(0)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow

    asyncio.run(story())
