"""Attacks of one client on its node: each writes what a client of ours would never write, and reads no answers.

An attack yields bytes to write, for ever. The client writes them as fast as the node reads, on a few connections. If
the node does not read for some seconds, or closes a connection, the client hangs up and comes again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle, islice, repeat

from antecede.wire import bulk, requests
from antecede.wire.codec import HANDSHAKE, Hello
from antecede.wire.envelope import seal
from antecede.wire.requests import TO_NODE, Ask, FromClient, Publish, Subscribe, Unsubscribe

#: A message that no node will ever publish, many times over.
NEVER = tuple((1, (1 << 40) + number) for number in range(4096))
#: Connections of each attack, and how long they stand when the node does not read.
CONNECTIONS = 2
STALL_S = 5.0
#: Bytes that each attack has ready; then it says the same again.
ENCODED_BYTES = 4_000_000
BODY = seal("mine/1", bytes(16), time_us=1)
LARGE = seal("mine/1", bytes(60_000), time_us=1)


def frames(records: Iterator[FromClient], frame_bytes: int) -> Iterator[bytes]:
    """Join records into frames of about `frame_bytes` each, as large as a node would read."""
    filling: list[FromClient] = []
    size = 0
    for record in records:
        filling.append(record)
        size += len(TO_NODE.encode(record))
        if size >= frame_bytes:
            body = TO_NODE.body(filling)
            yield len(body).to_bytes(4, "big") + body
            filling, size = [], 0


def numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def waiting() -> Iterator[FromClient]:
    """Publications that wait for messages that never come, with as many bytes as they may have."""
    return (Publish(number, (BODY, LARGE), NEVER, timeout_ms=86_400_000) for number in numbers())


def unread() -> Iterator[FromClient]:
    """Publications that are refused, each with an answer."""
    body = seal("theirs/" + "x" * 1000, b"", time_us=1)
    return (Publish(number, (body,) * 30) for number in numbers())


def filters() -> Iterator[FromClient]:
    """Feeds with as many and as deep filters as they may have."""
    deep = [f"mine/{number}/" + "+/" * 58 + "#" for number in range(64)]
    return (Subscribe(number, tuple(f"mine/{number}/{one}" for one in deep), 1) for number in numbers())


def windows() -> Iterator[FromClient]:
    """Feeds that keep as many messages as they may, and publications to fill them."""
    for number in numbers():
        if number <= 100:
            yield Subscribe(number, ("#",) if number % 2 else ("mine/#",), 1, policy="drop_oldest", window=1 << 20)
        yield Publish(number, (LARGE,), level=0)


def subscriptions() -> Iterator[FromClient]:
    """Feeds that are opened and closed."""
    for number in numbers():
        yield Subscribe(number, ("mine/+/1",), 1, 0)
        yield Unsubscribe(number)


def asks() -> Iterator[FromClient]:
    return (Ask(number, "status") for number in numbers())


def singles() -> Iterator[FromClient]:
    """Small publications, each in a record of its own."""
    return (Publish(number, (BODY,), level=0) for number in numbers())


def copies() -> Iterator[FromClient]:
    """Publications that wait for more copies than there are nodes, and for as many."""
    return (Publish(number, (BODY,), level=6 if number % 2 else 2, timeout_ms=86_400_000) for number in numbers())


def feeds() -> Iterator[FromClient]:
    """More feeds than a client may have."""
    return (Subscribe(number, (f"mine/{number}",), 1) for number in numbers())


def pages() -> Iterator[bytes]:
    """Questions of a bulk client, each for a large page."""
    return repeat(bulk.TO_NODE.frame(bulk.Read(0, 1 << 40, ("#",))))


def client(records: Callable[[], Iterator[FromClient]], frame_bytes: int) -> Callable[[], Iterator[bytes]]:
    """The frames of an attack. They are encoded before it begins: it should cost the node more than its client."""

    @cache
    def encoded() -> tuple[bytes, ...]:
        return tuple(islice(frames(records(), frame_bytes), ENCODED_BYTES // frame_bytes))

    return lambda: cycle(encoded())


#: By name: the role of the client, and what it writes.
ATTACKS: dict[str, tuple[str, Callable[[], Iterator[bytes]]]] = {
    "waiting": (requests.ROLE, client(waiting, 60_000)),
    "unread": (requests.ROLE, client(unread, 60_000)),
    "filters": (requests.ROLE, client(filters, 60_000)),
    "windows": (requests.ROLE, client(windows, 60_000)),
    "pages": (bulk.ROLE, pages),
    "subscriptions": (requests.ROLE, client(subscriptions, 60_000)),
    "subscriptions-1MiB": (requests.ROLE, client(subscriptions, 1_000_000)),
    "asks": (requests.ROLE, client(asks, 60_000)),
    "asks-1MiB": (requests.ROLE, client(asks, 1_000_000)),
    "singles": (requests.ROLE, client(singles, 60_000)),
    "singles-1MiB": (requests.ROLE, client(singles, 1_000_000)),
    "copies": (requests.ROLE, client(copies, 60_000)),
    "feeds": (requests.ROLE, client(feeds, 60_000)),
}


def prepare(name: str) -> None:
    """Encode what an attack says."""
    next(ATTACKS[name][1]())


async def attack(name: str, address: str, token: str, seconds: float) -> None:
    """Run one attack for so long."""
    role, make = ATTACKS[name]
    speaks = bulk.SPEAKS if role == bulk.ROLE else requests.SPEAKS
    hello = HANDSHAKE.frame(Hello(cluster="antecede", speaks=speaks, role=role, name=name, token=token))
    host, _, port = address.rpartition(":")

    async def again_and_again() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await _once(host, int(port), hello, make())
            await asyncio.sleep(0.05)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*[again_and_again() for _ in range(CONNECTIONS)])


async def _once(host: str, port: int, hello: bytes, words: Iterator[bytes]) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(hello)
        await reader.readexactly(4)
        for word in words:
            await asyncio.sleep(0)  # other attacks have their turn
            writer.write(word)
            try:
                async with asyncio.timeout(STALL_S):
                    await writer.drain()
            except TimeoutError:
                return
    finally:
        writer.transport.abort()
