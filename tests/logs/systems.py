"""Real log systems for the tests, behind one face: make logs, append as a producer that knows nothing of us, remove."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import nats

from tests.gateway.nats_server import free_port, nats_program


class System(Protocol):
    """A log system that runs. Names of logs are also the first level of their topics."""

    name: str
    #: What an acknowledged append is at least, and what it is not.
    safe: str
    unsafe: str

    def url(self, *logs: str) -> str: ...

    async def create(self, *logs: str) -> None: ...

    async def append_plain(self, topic: str, payload: bytes) -> None: ...

    async def remove_until(self, log: str, keep: int) -> None:
        """Retention: leave the last `keep` records of a log."""

    async def remove(self, log: str, offset: int) -> None:
        """Delete one record."""

    def stop(self) -> None: ...

    def start(self) -> None: ...


class Nats:
    name = "nats"
    safe, unsafe = "disk", "replicated(1)"

    def __init__(self, store: Path) -> None:
        self._store = store
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [nats_program(), "-js", "-sd", str(self._store), "-a", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def url(self, *logs: str) -> str:
        return f"nats://127.0.0.1:{self.port}?streams={','.join(logs)}"

    @contextlib.asynccontextmanager
    async def _jetstream(self) -> Any:
        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        try:
            yield client.jetstream()
        finally:
            await client.close()

    async def create(self, *logs: str) -> None:
        async with self._jetstream() as js:
            for log in logs:
                await js.add_stream(name=log, subjects=[log, f"{log}.>"])

    async def append_plain(self, topic: str, payload: bytes) -> None:
        async with self._jetstream() as js:
            await js.publish(topic.replace("/", "."), payload)

    async def remove_until(self, log: str, keep: int) -> None:
        async with self._jetstream() as js:
            await js.purge_stream(log, keep=keep)

    async def remove(self, log: str, offset: int) -> None:
        async with self._jetstream() as js:
            await js.delete_msg(log, offset)


SYSTEMS: dict[str, type[Nats]] = {"nats": Nats}


@contextmanager
def running(name: str, store: Path) -> Iterator[System]:
    system = SYSTEMS[name](store)
    system.start()
    try:
        yield system
    finally:
        system.stop()


def wait_for_port(port: int, seconds: float = 30) -> None:
    async def answers() -> None:
        async with asyncio.timeout(seconds):
            while True:
                with socket.socket() as dialled:
                    dialled.settimeout(0.5)
                    if dialled.connect_ex(("127.0.0.1", port)) == 0:
                        return
                await asyncio.sleep(0.05)

    asyncio.run(answers())
