"""Crowds at the door of a node: silent sockets, bad greetings, too few descriptors. Good clients get in."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import antecede
from antecede import Node
from antecede.wire.accepting import Acceptor, connections_within_limit
from antecede.wire.admission import AdmissionControl, AdmissionLimits, HandshakeQueue, origin
from antecede.wire.transport import Counts
from tests.client.running import awaited, until


@asynccontextmanager
async def silent_sockets(node: Node, count: int) -> AsyncIterator[None]:
    """Connections that say nothing, opened again as often as they are closed, as an attacker would."""
    writers: set[asyncio.StreamWriter] = set()

    async def stay() -> None:
        while True:
            reader, writer = await asyncio.open_connection(*node.listener.address)
            writers.add(writer)
            await reader.read()
            writers.discard(writer)
            writer.close()
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(stay()) for _ in range(count)]
    try:
        await until(lambda: node.listener.greeting >= min(count, 256))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.close()


async def greet_many(node: Node, count: int) -> int:
    """How many of so many clients, one after the other, are let in at the first attempt."""
    let_in = 0
    for _ in range(count):
        try:
            async with antecede.connect(node.url, timeout_s=20.0):
                let_in += 1
        except antecede.AntecedeError:
            pass
    return let_in


@awaited
async def test_silent_sockets_do_not_lock_out_good_clients() -> None:
    async with Node(port=0) as node, silent_sockets(node, 400):
        assert await greet_many(node, 40) == 40
        await until(lambda: "busy" in node.status()["refused"])  # more of them than the queue has room for make way


@awaited
async def test_bad_greetings_of_a_host_do_not_refuse_its_good_ones() -> None:
    async with Node(port=0) as node:
        for _ in range(40):
            reader, writer = await asyncio.open_connection(*node.listener.address)
            writer.write(b"\xff" * 8)
            await reader.read()
            writer.close()
        assert node.status()["refused"]["rate"] > 0
        assert await greet_many(node, 10) == 10


def test_a_host_with_few_handshakes_loses_none_to_a_host_with_many() -> None:
    queue = HandshakeQueue[int](64)
    for number in range(8):
        queue.enter(number, "quiet")
    for number in range(8, 108):
        queue.enter(number, "crowd")
    removed = queue.excess()
    assert [host for _, host in removed] == ["crowd"] * 44
    assert [number for number, _ in removed] == list(range(8, 52))  # the oldest
    assert len(queue) == 64
    assert queue.excess() == []


def test_part_of_the_queue_is_kept_for_known_hosts() -> None:
    queue = HandshakeQueue[int](64)
    queue.welcomed("member")
    for number in range(8):
        queue.enter(number, "member")
    for number in range(8, 1008):  # each of them has fewer than the member
        queue.enter(number, f"10.0.{number // 256}.{number % 256}")
    assert {host for _, host in queue.excess()}.isdisjoint({"member"})
    assert len(queue) == 64
    for number in range(2000, 2100):  # beyond its part, a known host makes way like others
        queue.enter(number, "member")
    assert {host for _, host in queue.excess()} == {"member"}
    assert [host for _, host in queue.make_room(None)] != ["member"]
    assert [host for _, host in queue.make_room("member")] == ["member"]
    assert queue.make_room("unknown") == []


def test_a_host_that_sends_nonsense_may_have_few_handshakes() -> None:
    queue = HandshakeQueue[int](64)
    for number in range(10):
        queue.enter(number, "noisy")
    assert queue.excess_of("noisy", 8) == [(0, "noisy"), (1, "noisy")]
    assert queue.excess_of("other", 8) == []
    queue.leave(0, "noisy")
    assert len(queue) == 8


def test_one_host_cannot_take_every_connection() -> None:
    admission = AdmissionControl(AdmissionLimits(connections_max=16), Counts())
    answers = [admission.admit("greedy") for _ in range(16)]
    assert answers == [None] * 14 + ["busy"] * 2
    assert [admission.admit("other") for _ in range(3)] == [None, None, "busy"]
    admission.left("greedy")
    assert admission.admit("third") is None


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("?", "?"),
    ],
)
def test_addresses_of_one_network_count_as_one_host(host: str, counted: str) -> None:
    assert origin(host) == counted


def test_the_bound_follows_the_limit_of_descriptors() -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections_within_limit(3) == 3
    assert connections_within_limit(limit) < limit - len(os.listdir("/dev/fd"))


def test_few_descriptors(tmp_path: Path) -> None:
    """A node that may open 128 descriptors: 200 silent sockets cost it a few lines of log, and clients get in."""
    config = tmp_path / "node.toml"
    config.write_text('directory = "n0"\nport = 0\nhttp_port = 0\n')
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "antecede.node", str(config)],
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)),  # noqa: PLW1509 - one thread
        )

    async def attack() -> None:
        assert process.stdout is not None
        ready = await asyncio.to_thread(process.stdout.readline)
        url = ready.split()[-1].decode()
        host, port = url.removeprefix("antecede://").split(":")
        sockets = [await asyncio.open_connection(host, int(port)) for _ in range(200)]
        await asyncio.sleep(1.5)  # what was logged again and again was logged every second
        async with antecede.connect(url, timeout_s=20.0) as bus:
            await bus.publish("t", b"x")
        for _, writer in sockets:
            writer.close()

    try:
        asyncio.run(asyncio.wait_for(attack(), 60))
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
    assert log.stat().st_size < 2000, log.read_text()[:2000]


@awaited
async def test_no_descriptor_left_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Descriptors of the process run out while it listens: it says so once, and accepts again when there are some."""
    accepted = []

    def accept(host: str) -> asyncio.Protocol:
        accepted.append(host)
        return asyncio.Protocol()

    acceptor = Acceptor(accept)
    port = await acceptor.start("127.0.0.1", 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await until(lambda: len(accepted) == 1)
    more = [asyncio.create_task(asyncio.open_connection("127.0.0.1", port)) for _ in range(4)]
    await asyncio.sleep(0)  # their sockets exist; none is accepted yet
    lowest = os.dup(0)  # of those that are free; higher ones may be taken
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        await until(lambda: "no connection can be accepted" in caplog.text)
        await asyncio.sleep(1.2)  # a second attempt
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await until(lambda: len(accepted) == 5)
    assert caplog.text.count("no connection can be accepted") == 1
    for _, opened in [(reader, writer), *[await task for task in more]]:
        opened.close()
    acceptor.close()
