"""Nodes without TLS know each other by the cluster key: a local process without it cannot act as a node."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import antecede
from antecede import Node
from antecede.core import Message
from antecede.core.errors import RefusedError, UnreachableError
from antecede.node.config import DOMAIN
from antecede.node.joining import CODEC as ROSTER_CODEC
from antecede.node.joining import SPEAKS as ROSTER_SPEAKS
from antecede.node.joining import RosterClient, RosterTable, SlotRequest
from antecede.node.protocol import node_codec
from antecede.node.roster import Member, Roster
from antecede.protocols.vcube_ps.live import VCUBE
from antecede.protocols.vcube_ps.packets import Pub
from antecede.wire.address import join_address
from antecede.wire.cluster_key import ClusterKey, default_path
from antecede.wire.codec import HANDSHAKE, Hello, Refusal, Welcome
from antecede.wire.envelope import seal
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import greet
from tests.client.running import awaited, take, until
from tests.node.clusters import QUICK, cluster

CODEC = node_codec(VCUBE)


def node_hello(node: Node, slot: int, incarnation: int = 1) -> Hello:
    agreement = node.protocol.agreement
    return Hello(
        cluster="antecede",
        speaks=CODEC.name,
        shapes=CODEC.shapes,
        node=slot,
        incarnation=incarnation,
        agreement=agreement,
    )


async def say(node: Node, *frames: bytes) -> bytes:
    """Dial, write everything, read until the node closes."""
    reader, writer = await asyncio.open_connection(*node.listener.address)
    try:
        async with asyncio.timeout(10):
            writer.write(b"".join(frames))
            return await reader.read()
    finally:
        writer.close()


@asynccontextmanager
async def listening(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]) -> AsyncIterator[str]:
    """A process that listens on a port; its address."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)  # type: ignore[arg-type]
    try:
        yield join_address(*server.sockets[0].getsockname())
    finally:
        server.close()


@awaited
async def test_a_stranger_injects_nothing(tmp_path: Path) -> None:
    async with Node(port=0, slots=4, **QUICK) as node, node.connect() as bus, bus.subscribe("#") as feed:
        payload = seal("orders/1", b"forged", time_us=0)
        forged = CODEC.frame(Pub((Message(DOMAIN, 1, 1, (), payload),)))
        said = await say(node, HANDSHAKE.frame(node_hello(node, 1)), forged)
        assert b"cluster key" in said
        guess = msgspec.structs.replace(node_hello(node, 1), nonce=bytes(16))
        said = await say(node, HANDSHAKE.frame(guess), forged)
        assert b"challenge" in said
        assert node.transport.counts.refused == {"untrusted": 1, "malformed": 1}
        await bus.publish("t", b"x")
        assert [one.payload for one in await take(feed, 1)] == [b"x"]


@awaited
async def test_a_greeting_locks_no_node_out() -> None:
    async with cluster(2, slots=4) as nodes, nodes[1].connect() as bus, nodes[0].connect() as reads:
        await say(nodes[0], HANDSHAKE.frame(node_hello(nodes[0], 1, incarnation=1 << 60)))
        nodes[0].transport.forget(1)  # type: ignore[attr-defined]
        nodes[0].membership._set_peers(nodes[0].roster.others())
        async with reads.subscribe("#") as feed:
            await bus.publish("t", b"still here")
            assert (await take(feed, 1))[0].payload == b"still here"
        assert not nodes[1].driver.stopped.done()


@awaited
async def test_a_stranger_takes_no_slot_and_changes_no_roster() -> None:
    async with Node(port=0, slots=4) as node:
        hello = HANDSHAKE.frame(Hello(cluster="antecede", speaks=ROSTER_SPEAKS, role="roster"))
        lies = tuple(Member(slot=slot, name="x", key=0, address="127.0.0.1:1") for slot in range(4))
        said = await say(node, hello, ROSTER_CODEC.frame(RosterTable(4, lies, SlotRequest("x", 5))))
        assert b"refused" in said
        assert {member.name for member in node.roster.members.values()} == {node.name}
        assert not node.driver.stopped.done()


@awaited
async def test_a_stranger_at_the_address_of_a_seed_is_no_answer(tmp_path: Path) -> None:
    """It may claim the node's slot, or refuse it for good: the node waits for an answer with a proof."""
    lie = RosterTable(4, (Member(slot=0, name="x", key=0, address="127.0.0.1:1"),))
    answers = [
        HANDSHAKE.frame(Welcome(node=0)) + ROSTER_CODEC.frame(lie),
        HANDSHAKE.frame(Refusal(reason="settings", detail="go away")),
        HANDSHAKE.frame(Refusal(reason="stale", detail="a later life has been here")),
    ]
    async with Node(port=0, slots=4) as node:
        for answer in answers:

            async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes = answer) -> None:
                await reader.read(100)
                writer.write(said)
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()

            async with listening(speak) as address:
                roster = Roster(node.roster.key, 4)
                client = RosterClient(roster, cluster="antecede", name="n", key=node.credentials.key)
                with pytest.raises(UnreachableError, match="cluster key"):
                    await client.exchange(address)
                assert not roster.members


@awaited
async def test_a_stranger_at_the_address_of_a_peer_stops_no_node(tmp_path: Path) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        await reader.read(100)
        writer.write(HANDSHAKE.frame(Refusal(reason="stale", detail="incarnation 900 has been here")))
        writer.close()

    dialled = 0
    async with Node(port=0, slots=4, directory=tmp_path / "n0", **QUICK) as node, listening(speak) as address:
        node.membership.heard(node.roster.merge([Member(slot=1, name="gone", key=5, address=address, incarnation=1)]))
        await until(lambda: dialled > 2)
        assert not node.driver.stopped.done()
        async with node.connect() as bus:
            await bus.publish("t", b"x")


@awaited
async def test_nodes_with_different_keys_say_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Node(port=0, cluster_key=tmp_path / "one") as node:
        other = Node(port=0, cluster_key=tmp_path / "two", seeds=(node.address,))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other.start(), 1.0)
        assert any("another cluster key" in message for message in caplog.messages)
        async with Node(port=0, cluster_key=tmp_path / "one", seeds=(node.address,)) as second:
            assert second.slot == 1


@awaited
async def test_a_conversation_cannot_be_passed_on(tmp_path: Path) -> None:
    """A process where a node used to listen passes everything on to the node: the address dialled gives it away."""
    seen = bytearray()
    async with Node(port=0, cluster_key=tmp_path / "key", slots=4) as node:

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65536):
                    seen.extend(data)
                    writer.write(data)
            writer.close()

        async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            onward = await asyncio.open_connection(*node.listener.address)
            await asyncio.gather(carry(reader, onward[1]), carry(onward[0], writer))

        key = ClusterKey.at(tmp_path / "key")
        hello = msgspec.structs.replace(node_hello(node, 1), role="roster", speaks=ROSTER_SPEAKS)

        def adopt(connection: FrameConnection, welcome: Welcome) -> Owner:
            raise RefusedError("x", "welcomed", "")

        with pytest.raises(RefusedError, match="welcomed"):  # without the process in between
            await greet(*node.listener.address, hello, adopt, key=key)
        async with listening(between) as address:
            host, _, port = address.rpartition(":")
            with pytest.raises(UnreachableError, match="another cluster key"):
                await greet(host, int(port), hello, adopt, key=key)
        assert seen
        secret = bytes.fromhex((tmp_path / "key").read_text())
        assert secret not in seen
        assert secret.hex().encode() not in seen


def test_the_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "cluster.key"
    first, again = ClusterKey.at(path), ClusterKey.at(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["cluster.key"]
    assert first.prove("call", b"h", b"n", "a") == again.prove("call", b"h", b"n", "a")
    assert first.prove("call", b"h", b"n", "a") != first.prove("answer", b"h", b"n", "a")
    path.chmod(0o644)
    with pytest.raises(antecede.UsageError, match="chmod"):
        ClusterKey.at(path)
    path.chmod(0o600)
    path.write_text("secret")
    with pytest.raises(antecede.UsageError, match="not a key"):
        ClusterKey.at(path)


def test_where_the_key_is_by_default() -> None:
    assert default_path({"HOME": "/home/u"}) == Path("/home/u/.local/state/antecede/cluster.key")
    assert default_path({"HOME": "/home/u", "XDG_STATE_HOME": "/s"}) == Path("/s/antecede/cluster.key")


@awaited
async def test_without_a_place_for_the_key_a_node_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("ANTECEDE_CLUSTER_KEY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    async with Node(port=0) as node:
        assert any("no other node can join" in message for message in caplog.messages)
        with pytest.raises(antecede.UsageError, match="cluster_key"):
            await Node(port=0, seeds=(node.address,)).start()
