"""Who is not wanted: refused, counted, logged once, and the node goes on as if nothing had happened."""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import Node
from antecede.core import Message
from antecede.core.limits import FEEDS_MAX
from antecede.node.joining import CODEC as ROSTER_CODEC
from antecede.node.joining import SPEAKS as ROSTER_SPEAKS
from antecede.node.joining import RosterTable, SlotRequest
from antecede.node.protocol import node_codec
from antecede.protocols.vcube_ps.live import VCUBE
from antecede.protocols.vcube_ps.packets import Pub
from antecede.wire.codec import FRAME_BYTES_MAX, HANDSHAKE, Hello
from antecede.wire.envelope import seal
from antecede.wire.requests import SPEAKS, TO_CLIENT, TO_NODE, Answer, Ask, Ended, Failed, Publish, Subscribe
from antecede.wire.security import CertificateSet, client_tls, init_certificates, issue, new_token
from tests.client.running import awaited, take, until
from tests.node.clusters import QUICK, cluster


async def still_well(node: Node, **how: Any) -> None:
    async with antecede.connect(node.url, **how) as bus, bus.subscribe("well") as feed:
        await bus.publish("well", b"yes")
        await take(feed, 1)


async def send_raw(node: Node, *parts: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Dial, write, and read until the node closes; what it said."""
    host, port = node.listener.address
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        async with asyncio.timeout(10):
            for part in parts:
                writer.write(part)
                await writer.drain()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def hello(**more: Any) -> bytes:
    return HANDSHAKE.frame(Hello(**({"cluster": "antecede", "speaks": SPEAKS, "role": "client"} | more)))


@awaited
async def test_random_bytes_and_gigantic_lengths(caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(7)
    async with Node(port=0) as node:
        for _ in range(10):
            await send_raw(node, rng.randbytes(200))
        await send_raw(node, (0xFFFFFFFF).to_bytes(4, "big"))
        # After a good handshake too.
        await send_raw(node, hello(), (FRAME_BYTES_MAX + 1).to_bytes(4, "big") + b"x")
        await send_raw(node, hello(), (40).to_bytes(4, "big") + rng.randbytes(40))
        refused = node.transport.counts.refused
        assert refused["malformed"] == 13
        await still_well(node)
        assert node.status()["refused"]["malformed"] == 13
    assert len([record for record in caplog.records if "malformed" in record.getMessage()]) == 1


@awaited
async def test_records_that_break_the_rules() -> None:
    async with Node(port=0) as node:
        bad = [
            TO_NODE.frame(Publish(1, (b"not an envelope",))),
            TO_NODE.frame(Subscribe(1, ("a",), 1), Subscribe(1, ("a",), 1)),
        ]
        for frame in bad:
            await send_raw(node, hello(), frame)
        assert node.transport.counts.refused["malformed"] == len(bad)
        await still_well(node)


class Conversation:
    """A raw connection as a client: says records, reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def frame(self) -> bytes:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(size)

    async def answers(self, count: int) -> list[object]:
        found: list[object] = []
        while len(found) < count:
            found += [one for one in TO_CLIENT.decode(await self.frame()) if isinstance(one, Ended | Failed | Answer)]
        return found


@awaited
async def test_mistakes_of_a_client_are_answered() -> None:
    """They neither end the connection nor count as malformed input: a client that tries again is not locked out."""
    async with Node(port=0) as node:
        talk = Conversation(*await asyncio.open_connection(*node.listener.address))
        talk.writer.write(hello())
        await talk.frame()
        talk.writer.write(TO_NODE.frame(*[Subscribe(number, ("a",), 1) for number in range(1, FEEDS_MAX + 1)]))
        for number in range(50):  # more often than a host may send malformed greetings
            talk.writer.write(TO_NODE.frame(Subscribe(FEEDS_MAX + 1 + number, ("a",), 1)))
        assert {(type(one), one.kind) for one in await talk.answers(50) if isinstance(one, Ended)} == {(Ended, "limit")}
        payload = seal("a", b"x", time_us=0).replace(b"\xa1a", b"\xa1#", 1)  # a topic that no topic may be called
        talk.writer.write(TO_NODE.frame(Subscribe(5000, ("a/#/b",), 1), Publish(1, (payload,)), Ask(2, "status")))
        ended, failed, answer = await talk.answers(3)
        assert isinstance(ended, Ended)
        assert ended.kind == "filter"
        assert isinstance(failed, Failed)
        assert isinstance(answer, Answer)
        talk.writer.close()
        assert node.transport.counts.refused == {}
        await still_well(node)


@awaited
async def test_a_feed_too_many_is_an_error_of_that_feed() -> None:
    async with Node(port=0) as node, node.connect() as bus, contextlib.AsyncExitStack() as feeds:
        for _ in range(FEEDS_MAX):
            await feeds.enter_async_context(bus.subscribe("a"))
        with pytest.raises(antecede.UsageError, match="1024 open feeds"):
            async with bus.subscribe("a"):
                pass
        await bus.publish("a", b"x")


@awaited
async def test_nonsense_beyond_the_rate_of_a_host_is_only_counted() -> None:
    async with Node(port=0) as node:
        for _ in range(40):
            await send_raw(node, b"\xff" * 8)
        assert node.transport.counts.refused["rate"] > 0
        assert not node.driver.stopped.done()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    init_certificates(directory, cluster="antecede", nodes=("n0", "n1"), clients=("carol",))
    issue(directory, "late", role="node", hosts=("127.0.0.1",), days=1, starts_in_days=-3)
    return directory


@asynccontextmanager
async def secure_node(certificates: Path, tmp_path: Path, **more: Any) -> AsyncIterator[tuple[Node, str]]:
    tokens = tmp_path / "tokens.json"
    token = new_token(tokens, "carol", publish=("answers/#", "well"), subscribe=("answers/#", "well"))
    async with Node(port=0, tls=certificates, certificate="n0", tokens=tokens, slots=4, **(QUICK | more)) as node:
        yield node, token


@awaited
async def test_a_token_grants_topics_and_nothing_else(certificates: Path, tmp_path: Path) -> None:
    async with secure_node(certificates, tmp_path) as (node, token):
        async with antecede.connect(node.url, token=token, tls=certificates) as bus:
            assert (await bus.publish("answers/1", b"yes")).seq == 1
            with pytest.raises(antecede.DeniedError, match="questions/1"):
                await bus.publish("questions/1", b"no")
            with pytest.raises(antecede.DeniedError, match="#"):
                async with bus.subscribe("#"):
                    pass
            with pytest.raises(antecede.DeniedError, match="status"):
                await bus.status()
            async with bus.subscribe("answers/+", since="0") as feed:
                assert (await take(feed, 1))[0].payload == b"yes"
        assert node.hub.counts.refused == {"publish": 1, "subscribe": 1}
        for wrong in ("", "guess", token[:-1] + "x"):
            with pytest.raises(antecede.RefusedError, match="token"):
                async with antecede.connect(node.url, token=wrong, tls=certificates):
                    pass
        assert node.transport.counts.refused["untrusted"] == 3
        await still_well(node, token=token, tls=certificates)


@awaited
async def test_strangers_without_tls_or_from_another_authority(certificates: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    init_certificates(other, cluster="antecede", nodes=("n1",), clients=())
    async with secure_node(certificates, tmp_path) as (node, token):
        with pytest.raises(antecede.UnreachableError):
            async with antecede.connect(node.url, token=token, timeout_s=3):
                pass
        with pytest.raises(antecede.UnreachableError):
            async with antecede.connect(node.url, token=token, tls=other):
                pass
        stranger = client_tls(certificates / "authority.pem")
        stranger.load_cert_chain(other / "n1.pem", other / "n1.key")
        with contextlib.suppress(ssl.SSLError):
            await send_raw(node, hello(token=token), tls=stranger)
        await until(lambda: node.transport.counts.refused["tls"] >= 1)
        await still_well(node, token=token, tls=certificates)


async def node_hello(node: Node, certificates: Path, name: str | None, **more: Any) -> bytes:
    context = client_tls(certificates / "authority.pem")
    if name is not None:
        files = CertificateSet.of(certificates, name)
        context.load_cert_chain(files.certificate, files.key)
    codec = node_codec(VCUBE)
    fields = {"role": "node", "node": 1, "incarnation": 1} | more
    fields = {"speaks": codec.name, "shapes": codec.shapes} | fields
    try:
        return await send_raw(node, hello(**fields), HANDSHAKE.frame(), tls=context)
    except ssl.SSLError:
        return b""


@awaited
async def test_only_a_nodes_certificate_makes_a_node(certificates: Path, tmp_path: Path) -> None:
    async with secure_node(certificates, tmp_path) as (node, token):
        assert b"refused" in await node_hello(node, certificates, None)
        assert b"refused" in await node_hello(node, certificates, "carol")
        before = node.transport.counts.refused["untrusted"]
        assert before == 2
        # Nor does anything else give a place in the cube.
        context = client_tls(certificates / "authority.pem")
        wish = ROSTER_CODEC.frame(RosterTable(4, (), SlotRequest("mallory", 5)))
        said = await send_raw(node, hello(role="roster", speaks=ROSTER_SPEAKS), wish, tls=context)
        assert b"refused" in said
        assert set(node.roster.members) == {0}
        await still_well(node, token=token, tls=certificates)


@awaited
async def test_an_expired_certificate(certificates: Path, tmp_path: Path) -> None:
    async with secure_node(certificates, tmp_path) as (node, token):
        assert b"welcome" not in await node_hello(node, certificates, "late")
        await until(lambda: node.transport.counts.refused["tls"] >= 1)
        await still_well(node, token=token, tls=certificates)
    expired = Node(port=0, tls=certificates, certificate="late", tokens=tmp_path / "tokens.json", slots=4)
    async with expired:
        with pytest.raises(antecede.UnreachableError, match="expired"):
            async with antecede.connect(expired.url, token=token, tls=certificates):
                pass


@awaited
async def test_nodes_with_certificates_make_a_cluster(certificates: Path, tmp_path: Path) -> None:
    async with secure_node(certificates, tmp_path) as (first, token):
        tokens = tmp_path / "tokens.json"
        settings: dict[str, Any] = {"tls": certificates, "certificate": "n1", "tokens": tokens, "slots": 4} | QUICK
        async with (
            Node(port=0, seeds=(first.address,), **settings) as second,
            antecede.connect(first.url, token=token, tls=certificates) as one,
            antecede.connect(second.url, token=token, tls=certificates) as other,
            other.subscribe("answers/#") as feed,
        ):
            await one.publish("answers/1", b"across")
            assert (await take(feed, 1))[0].payload == b"across"


@awaited
async def test_a_message_in_our_name_and_a_frame_sent_again() -> None:
    """A peer that plays messages back, or invents them for us, changes nothing that was delivered."""
    async with (
        cluster(2) as nodes,
        nodes[1].connect() as bus,
        nodes[0].connect() as reads,
        reads.subscribe("#") as feed,
    ):
        await bus.publish("t", b"once")
        await take(feed, 1)
        original = nodes[0].hub.history.recent(0, 1)
        assert original is not None
        for _ in range(3):
            nodes[1].transport.send(0, Pub((original[0].message,)))
        nodes[1].transport.flush()
        await bus.publish("t", b"next")
        (following,) = await take(feed, 1)
        assert (following.payload, following.id.seq) == (b"next", 2)
        forged = Message(nodes[0].partitions.names[0], 0, 1, (), original[0].message.payload)
        nodes[1].transport.send(0, Pub((forged,)))
        nodes[1].transport.flush()
        await until(lambda: nodes[0].transport.counts.refused["malformed"] == 1)
        await bus.publish("t", b"last")  # the link broke, and is there again
        (last,) = await take(feed, 1)
        assert (last.payload, last.id.source) == (b"last", 1)
        assert nodes[0].hub.position == 3


def test_off_loopback_nothing_runs_without_protection(tmp_path: Path) -> None:
    with pytest.raises(antecede.UsageError, match="tokens"):
        Node(host="0.0.0.0", port=0)
    new_token(tmp_path / "tokens.json", "x")
    node = Node(host="0.0.0.0", port=0, tokens=tmp_path / "tokens.json")
    with pytest.raises(antecede.UsageError, match="TLS"):
        asyncio.run(node.start())
