"""A real nats-server for the tests."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def nats_server() -> Iterator[str]:
    """Its URL. Without the program the tests that need it are left out, and say so."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("LEFT OUT: no nats-server here; to stand on one too: tests/system_packages.sh nats-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [program, "-a", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
