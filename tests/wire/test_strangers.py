"""What strangers send: nonsense, giants, silence and crowds. Refused, counted, said once; the node unharmed."""

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from antecede.core import ProtocolError
from antecede.core.errors import RefusedError, UnreachableError
from antecede.wire.admission import AdmissionControl, AdmissionLimits
from antecede.wire.codec import HANDSHAKE, HELLO_BYTES_MAX, LENGTH_BYTES, SIGN_OF_LIFE, Hello, Refusal, Welcome
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import greet
from antecede.wire.tcp import TcpTransport
from antecede.wire.transport import Counts

from .helpers import CODEC, QUICK, Recorded, bundle, introduce, tcp, until

HELLO = Hello(cluster="test", speaks=CODEC.name, shapes=CODEC.shapes, node=9, incarnation=1)


async def say(node: TcpTransport, *words: bytes) -> bytes:
    """Dial as a stranger, say these words, and return all that is answered until the connection closes."""
    reader, writer = await asyncio.open_connection(*node.address)
    for word in words:
        writer.write(word)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def answer(data: bytes) -> object:
    (record,) = HANDSHAKE.decode(data[LENGTH_BYTES:])
    return record


async def works(node: TcpTransport, told: Recorded) -> None:
    """Another node still gets through."""
    friend = tcp(1)
    await friend.start(Recorded())
    introduce([node, friend])
    before = len(told.packets)
    friend.send(node.node, bundle(1))
    friend.flush()
    await until(lambda: len(told.packets) == before + 1)
    await friend.close()


NONSENSE: dict[str, Callable[[], bytes]] = {
    "random": lambda: random.Random(1).randbytes(5000),
    "gigantic": lambda: b"\xff\xff\xff\xff" + bytes(100),
    "too large for a hello": lambda: (HELLO_BYTES_MAX + 1).to_bytes(4, "big"),
    "http": lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "a welcome": lambda: HANDSHAKE.frame(Welcome(node=1)),
    "two hellos": lambda: HANDSHAKE.frame(HELLO, HELLO),
    "an empty array": lambda: b"\0\0\0\x01\x90",
    "packets first": lambda: CODEC.frame(bundle(1)),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_before_a_hello(kind: str) -> None:
    async def test() -> None:
        node = tcp(0)
        await node.start(told := Recorded())
        assert await say(node, NONSENSE[kind]()) == b""
        assert node.counts.refused == {"malformed": 1}
        assert told.links == []
        await works(node, told)
        await node.close()

    asyncio.run(test())


@pytest.mark.parametrize(
    "kind", [*(kind for kind in NONSENSE if kind != "too large for a hello"), "half a frame and the end"]
)
def test_nonsense_after_a_hello(kind: str) -> None:
    async def test() -> None:
        node = tcp(0)
        await node.start(told := Recorded())
        words = NONSENSE[kind]() if kind in NONSENSE else CODEC.frame(bundle(1))[:-3]
        reader, writer = await asyncio.open_connection(*node.address)
        writer.write(HANDSHAKE.frame(HELLO))
        assert isinstance(answer(await reader.read(4096)), Welcome)
        writer.write(words)
        if kind not in NONSENSE:
            writer.close()
        if kind != "packets first":
            await until(lambda: told.links == [(9, 1), (9, None)])
        else:
            await until(lambda: told.seqs == [1])
        harmless = kind in ("packets first", "an empty array", "half a frame and the end")
        assert node.counts.refused["malformed"] == (0 if harmless else 1)
        writer.close()
        node.forget(9)
        await works(node, told)
        await node.close()

    asyncio.run(test())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 1, "oldest": 1}, "version"),
        ({"version": 9, "oldest": 8}, "version"),
        ({"shapes": {}}, "packets"),
        ({"cluster": "other"}, "cluster"),
        ({"speaks": "other"}, "packets"),
        ({"role": "gardener"}, "role"),
        ({"node": 0}, "self"),
        ({"node": -1}, "self"),
    ],
)
def test_a_hello_that_is_refused_is_told_why(change: dict[str, object], reason: str) -> None:
    async def test() -> None:
        node = tcp(0)
        await node.start(Recorded())
        said = {field: getattr(HELLO, field) for field in HELLO.__struct_fields__} | change
        reply = answer(await say(node, HANDSHAKE.frame(Hello(**said))))  # type: ignore[arg-type]
        assert isinstance(reply, Refusal)
        assert reply.reason == reason
        assert node.counts.refused == {reason: 1}
        await node.close()

    asyncio.run(test())


def test_bytes_one_by_one_and_signs_of_life() -> None:
    async def test() -> None:
        node = tcp(0)
        await node.start(told := Recorded())
        reader, writer = await asyncio.open_connection(*node.address)
        for byte in HANDSHAKE.frame(HELLO):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0)
        assert isinstance(answer(await reader.read(4096)), Welcome)
        for byte in SIGN_OF_LIFE + CODEC.frame(bundle(1)) + SIGN_OF_LIFE * 2 + CODEC.frame(bundle(2), bundle(3)):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0)
        await until(lambda: told.seqs == [1, 2, 3])
        writer.close()
        await node.close()

    asyncio.run(test())


def test_nonsense_beyond_the_rate_of_a_host_is_only_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        limits = replace(QUICK, admission=AdmissionLimits(malformed_burst=5, malformed_per_s=20.0))
        node = tcp(0, limits=limits)
        await node.start(told := Recorded())
        for _ in range(40):
            await say(node, os.urandom(64))
        refused = node.counts.refused
        assert refused["malformed"] >= 5
        assert refused["rate"] > 0
        assert refused["malformed"] + refused["rate"] == 40
        await works(node, told)
        await node.close()

    asyncio.run(test())
    assert sum("further ones are only counted" in line for line in caplog.messages) == 2  # one of each kind


def test_too_many_connections_and_too_many_in_their_handshake() -> None:
    async def test() -> None:
        limits = replace(QUICK, admission=AdmissionLimits(connections_max=3, handshakes_max=2))
        node = tcp(0, limits=limits)
        await node.start(Recorded())
        silent = [await asyncio.open_connection(*node.address) for _ in range(4)]
        await until(lambda: node.counts.refused["busy"] == 2)
        for number, (_, writer) in enumerate(silent[2:]):  # the oldest made way
            writer.write(HANDSHAKE.frame(structs.replace(HELLO, node=10 + number)))
        await until(lambda: node.counts.links_up == 2)
        third = await asyncio.open_connection(*node.address)
        await until(lambda: node.listener.admission.inside == 3)
        fourth = await asyncio.open_connection(*node.address)
        assert await asyncio.wait_for(third[0].read(), 20) == b""  # silent, it makes way for the fourth
        assert node.counts.refused["busy"] == 3
        fourth[1].write(HANDSHAKE.frame(structs.replace(HELLO, node=12)))
        await until(lambda: node.counts.links_up == 3)
        await say(node, b"")  # all three are inside: none makes way
        assert node.counts.refused["busy"] == 4
        for _, writer in [*silent, third, fourth]:
            writer.close()
        await until(lambda: node.listener.admission.inside == 0)
        assert node.listener.greeting == 0
        await node.close()

    asyncio.run(test())


def test_silence_in_a_handshake_and_on_a_link() -> None:
    async def test() -> None:
        limits = replace(QUICK, alive_s=0.02, silent_s=0.1, admission=AdmissionLimits(handshake_s=0.1))
        node = tcp(0, limits=limits)
        await node.start(told := Recorded())
        assert await say(node) == b""
        assert node.counts.refused == {"silent": 1}
        reader, writer = await asyncio.open_connection(*node.address)
        writer.write(HANDSHAKE.frame(HELLO))
        heard = await asyncio.wait_for(reader.read(), 20)  # a welcome, signs of life, the end
        assert heard.endswith(SIGN_OF_LIFE)
        await until(lambda: told.links == [(9, 1), (9, None)])
        assert node.counts.refused == {"silent": 2}
        writer.close()
        await node.close()

    asyncio.run(test())


def test_a_quiet_link_stays_up() -> None:
    async def test() -> None:
        limits = replace(QUICK, alive_s=0.02, silent_s=2.0)  # a busy machine stops both for a while
        one, other = tcp(0, limits=limits), tcp(1, limits=limits)
        told = Recorded()
        await one.start(told)
        await other.start(Recorded())
        introduce([one, other])
        one.connect(1)
        await asyncio.sleep(2.5)
        assert told.links == [(1, 1)]
        await asyncio.gather(one.close(), other.close())

    asyncio.run(test())


class Session:
    """What a client's connection becomes: it echoes."""

    def __init__(self) -> None:
        self.ended = 0
        self.bodies: list[bytes] = []

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        self.bodies.append(bytes(body))
        connection.write(len(body).to_bytes(4, "big") + bytes(body))

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None: ...
    def writable(self, connection: FrameConnection) -> None: ...
    def closed(self, connection: FrameConnection) -> None:
        self.ended += 1


def test_other_roles_are_served_on_the_same_port() -> None:
    async def test() -> None:
        node = tcp(0)
        sessions: list[Session] = []

        def judge(connection: FrameConnection, hello: Hello) -> Callable[[], Owner]:
            if hello.token != "open sesame":
                raise RefusedError(connection.host, "untrusted", "no such token")

            def begin() -> Owner:
                sessions.append(Session())
                return sessions[-1]

            return begin

        node.listener.serve("client", judge)
        await node.start(Recorded())

        class Parrot(Session):
            def frame(self, connection: FrameConnection, body: memoryview) -> None:
                self.bodies.append(bytes(body))

        client = Parrot()
        hello = Hello(cluster="test", speaks="client/1", role="client", token="open sesame")
        connection = await greet(*node.address, hello, lambda connection, welcome: client)
        connection.write(b"\0\0\0\x03abc")
        await until(lambda: client.bodies == [b"abc"])
        connection.close()
        await until(lambda: sessions[0].ended == 1 and client.ended == 1)
        with pytest.raises(RefusedError, match="untrusted"):
            await greet(*node.address, Hello(cluster="test", speaks="x", role="client"), lambda c, w: client)
        await node.close()
        with pytest.raises(UnreachableError, match="cannot be reached"):
            await greet(*node.address, hello, lambda c, w: client)

    asyncio.run(test())


def test_dialling_something_else() -> None:
    async def test() -> None:
        async def serve(words: bytes) -> asyncio.Server:
            async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(words)
                if words != b"wait":
                    writer.close()
                else:
                    await reader.read()

            return await asyncio.start_server(speak, "127.0.0.1", 0)

        for words, problem in (
            (b"SSH-2.0-OpenSSH_9\r\n", "does not speak antecede"),
            (b"", "without an answer"),
            (HANDSHAKE.frame(HELLO), "does not speak antecede"),
            (HANDSHAKE.frame(Welcome(node=1, version=9)), "does not speak antecede"),
            (b"wait"[:2], "without an answer"),
        ):
            server = await serve(words)
            host, port = server.sockets[0].getsockname()
            with pytest.raises(UnreachableError, match=problem):
                await greet(host, port, HELLO, lambda connection, welcome: Session())
            server.close()
        server = await serve(b"wait")
        host, port = server.sockets[0].getsockname()
        with pytest.raises(UnreachableError, match=r"does not speak antecede|no answer within"):
            await greet(host, port, HELLO, lambda connection, welcome: Session(), timeout_s=0.1)
        server.close()

    asyncio.run(test())


def test_admission_control_forgets_the_oldest_not_the_newest() -> None:
    counts = Counts()
    admission = AdmissionControl(AdmissionLimits(malformed_burst=2), counts)
    for number in range(3000):
        host = f"10.0.{number // 256}.{number % 256}"
        assert admission.record_malformed(host, 0.0) == "malformed"
        assert admission.record_malformed(host, 0.0) == "malformed"
        admission.refused(host, "malformed", "")
    assert not admission.penalised("10.0.0.1", 0.0)
    assert admission.penalised("10.0.11.183", 0.0)
    assert admission.record_malformed("10.0.11.183", 0.0) == "rate"
    assert not admission.penalised("10.0.11.183", 2.0)
    assert counts.refused["malformed"] == 3000
