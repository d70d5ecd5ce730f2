"""Everything that reads bytes off a wire between nodes and clients: only `ProtocolError` may escape.

An input is a byte that chooses a reader, and what it is given: the body of a frame for a codec, an envelope, or a
stream for a connection, cut into reads at places the input itself names. What decodes must be of the declared types,
and must encode to something that decodes to the same. Seeds are records of every type, so the fuzzer begins where a
well-formed record ends.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import msgspec
from hypothesis import HealthCheck, Phase, given, settings

from antecede.client.bus import Bus
from antecede.client.feed import Feed
from antecede.client.message import Message
from antecede.client.options import Subscription
from antecede.client.past import Past
from antecede.core import ProtocolError
from antecede.core.errors import RefusedError
from antecede.node.joining import CODEC as TABLES
from antecede.node.protocol import node_codec
from antecede.protocols.live_registry import LIVE
from antecede.wire import bulk
from antecede.wire.codec import HANDSHAKE, HELLO_BYTES_MAX, Hello, RecordCodec, Refusal, Welcome
from antecede.wire.envelope import label, seal, unseal
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import Greeter
from antecede.wire.requests import TO_CLIENT, TO_NODE, Info, Items
from tests.wire.strategies import instances

#: Takes bytes; says what they were, or raises `ProtocolError`.
Reader: TypeAlias = Callable[[bytes], set[str]]
CODECS: list[RecordCodec[Any]] = [HANDSHAKE, TABLES, TO_NODE, TO_CLIENT, bulk.TO_NODE, bulk.TO_CALLER]
CODECS += [node_codec(LIVE[name]) for name in sorted(LIVE)]


def _codec(codec: RecordCodec[Any]) -> Reader:
    def read(body: bytes) -> set[str]:
        records = codec.decode(memoryview(body))
        assert all(type(record) in codec.types for record in records), records
        again = codec.body(records)
        assert codec.decode(again) == records or b"\xcb" in again, "there and back"  # a float may be no number
        for record in records:
            if isinstance(record, Items):
                _read(record)
        return {type(record).__name__ for record in records}

    return read


class _Nobody:
    """Stands for the connection of a feed that is given records and read."""

    def __init__(self) -> None:
        self._frontier = Past()

    def _credit(self, record: object) -> None: ...


def _read(items: Items) -> None:
    """As a client does."""
    wanted = Subscription(("#",), since=None, order="causal", policy="block", queue=64, over_gaps=False)
    feed = Feed(cast(Bus, _Nobody()), 1, wanted)
    feed._connected(Info(0, 0, 0))
    with contextlib.suppress(ProtocolError):
        feed._take(items)
    while feed.waiting:
        with contextlib.suppress(ProtocolError):
            message = _next(feed)
            assert message.topic
            assert str(message.id)
            assert message.cursor
            assert all(message.after)


def _next(feed: Feed) -> Message:
    """The next message, which is here: the iterator need not wait."""
    try:
        feed.__anext__().send(None)
    except StopIteration as given:
        return cast(Message, given.value)
    raise AssertionError("the iterator waits")


def _envelope(payload: bytes) -> set[str]:
    envelope = unseal(payload)
    assert label(payload) == envelope.topic
    return {"envelope", "headers" if envelope.headers else "none"}


class _Pipe(asyncio.Transport):
    """The socket's side of a connection: forgets what is written."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert data

    def close(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class _Reader:
    """Owns a connection once it was welcomed: the session of a node with a client, without the node."""

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        TO_NODE.decode(body)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        assert isinstance(error, ProtocolError)

    def writable(self, connection: FrameConnection) -> None:
        pass

    def closed(self, connection: FrameConnection) -> None:
        pass


def _judge(connection: FrameConnection, hello: Hello) -> tuple[Welcome, Callable[[], Owner], int]:
    if hello.role != "client":
        raise RefusedError("fuzz", "role", hello.role)
    return Welcome(node=0), _Reader, TO_NODE.frame_bytes_max


def _stream(data: bytes) -> set[str]:
    """A whole connection: handshake, then records. The first bytes say how long each read is."""
    cuts, stream = data[:4], data[4:]
    said: set[str] = set()
    greeter = Greeter(
        _judge, lambda *_: None, lambda connection: None, lambda connection, reason, detail: said.add(reason)
    )
    connection = FrameConnection(greeter, bytes_max=HELLO_BYTES_MAX)

    async def play() -> None:
        connection.connection_made(_Pipe())
        at, turn = 0, 0
        while at < len(stream) and connection.open:
            size = (cuts[turn % len(cuts)] if cuts else 0) or len(stream)
            connection.data_received(stream[at : at + size])
            at, turn = at + size, turn + 1
        connection.connection_lost(None)

    asyncio.run(play())
    return said | {type(connection.owner).__name__}


READERS: list[Reader] = [*map(_codec, CODECS), _envelope, _stream]


def read(data: bytes) -> set[str]:
    if not data:
        return set()
    reader = data[0] % len(READERS)
    try:
        return {f"{reader} {said}" for said in READERS[reader](data[1:])}
    except ProtocolError as error:
        return {f"{reader} {str(error).rpartition('decode: ')[2]}"}


def seeds() -> dict[str, bytes]:
    """A few records of every type, in every place where they may be read."""
    found: dict[str, bytes] = {}
    for reader, codec in enumerate(CODECS):
        for kind in codec.types:
            for number, record in enumerate(some(kind)):
                found[f"{reader}-{kind.__name__}-{number}"] = bytes([reader]) + codec.body([record])
    found["envelope"] = bytes([len(CODECS)]) + seal("a/b", b"body", time_us=1, headers={"k": "v"})
    hello = HANDSHAKE.frame(Hello(cluster="c", speaks="s", role="client"))
    asked = TO_NODE.frame(*[record for kind in TO_NODE.types for record in some(kind)[:1]])
    for name, stream in (
        ("client", hello + asked),
        ("node", HANDSHAKE.frame(Hello(cluster="c", speaks="s", node=1))),
        ("backwards", HANDSHAKE.frame(Welcome(node=1), Refusal(reason="r"))),
    ):
        found[f"stream-{name}"] = bytes([len(CODECS) + 1]) + b"\x00\x01\x07\x40" + stream
    return found


def some(kind: type[msgspec.Struct]) -> list[Any]:
    found: list[Any] = []

    @settings(
        max_examples=3,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(instances(kind))
    def draw(record: Any) -> None:
        found.append(record)

    draw()
    return [record for record in found if len(repr(record)) < 2000]
