"""Bulk readers that hang up in the middle of a read: the node that serves them lives on."""

import asyncio
import random
import threading
from pathlib import Path

import pytest

import antecede
from antecede.core.errors import StoppedError
from antecede.journal import JournalFile
from antecede.node.bulk import service
from antecede.node.local_cluster import LocalCluster
from antecede.wire import bulk as records
from antecede.wire.bulk import ExtentQuery, Question, Read
from tests.client.running import awaited
from tests.node.test_security import hello

#: Before the fix a node died within 3 to 180 of them.
HANGUPS = 300


async def hang_up(port: int, question: Question, after_s: float) -> None:
    """Ask, and close the connection without reading the answer."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(hello(role=records.ROLE, speaks=records.SPEAKS) + records.TO_NODE.frame(question))
    await writer.drain()
    await asyncio.sleep(after_s)
    writer.transport.abort()


def test_a_file_that_a_thread_reads_is_closed_by_that_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite ends the process when a connection is closed while a thread uses it: seldom, so the end is not awaited."""
    closed: list[threading.Thread] = []

    class File:
        def __init__(self, path: Path) -> None:
            pass

        def close(self) -> None:
            closed.append(threading.current_thread())

    reading, hung_up = threading.Event(), threading.Event()

    def read(file: JournalFile) -> None:
        reading.set()
        assert hung_up.wait(60)

    monkeypatch.setattr(service, "JournalFile", File)
    reader = service._Reader(tmp_path)
    thread = threading.Thread(target=reader.use, args=(read,))
    thread.start()
    assert reading.wait(60)
    reader.close()
    assert closed == []
    hung_up.set()
    thread.join(60)
    assert closed == [thread]
    with pytest.raises(StoppedError):
        reader.use(read)


@awaited
async def test_readers_that_hang_up_do_not_kill_the_node(tmp_path: Path) -> None:
    rng = random.Random(7)
    async with LocalCluster(tmp_path, nodes=1) as cluster:
        async with antecede.connect(cluster.url(0)) as bus:
            futures = [bus.publish_nowait("t", bytes(1000)) for _ in range(4000)]
            await asyncio.gather(*futures)
            position = (await bus.status())["position"]
        for _ in range(HANGUPS // 6):
            questions: list[Question] = [
                *[Read(0, position, ("#",)), Read(rng.randrange(position), position, ("t",))] * 2,
                *[ExtentQuery(after=0, last=position, bytes_max=1 << 40), ExtentQuery(time_us=1)],
            ]
            await asyncio.gather(*[hang_up(cluster.ports[0], one, rng.uniform(0.001, 0.02)) for one in questions])
            process = cluster.processes[0]
            assert process.returncode is None, f"the node ended with {process.returncode}"
        async with antecede.connect(cluster.url(0)) as bus, bus.subscribe("t") as feed:
            await bus.publish("t", b"alive")
            assert (await anext(feed)).payload == b"alive"
