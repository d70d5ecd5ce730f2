"""With TLS: slots belong to certificates, and messages are signed by the node that published them."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import antecede
from antecede import Node
from antecede.core import Message
from antecede.core.errors import JournalError, RefusedError
from antecede.node.continuity import Evidence
from antecede.node.identity import NodeIdentity
from antecede.node.joining import ROLE, RosterClient, RosterService
from antecede.node.protocol import node_codec
from antecede.node.roster import Member, Roster
from antecede.protocols.vcube_ps.live import VCUBE
from antecede.protocols.vcube_ps.packets import Pub
from antecede.wire.codec import HANDSHAKE, Hello
from antecede.wire.envelope import seal
from antecede.wire.security import CertificateSet, client_tls, init_certificates, node_tls
from tests.client.running import awaited, take, until
from tests.node.clusters import QUICK, until_all_have

NAMES = ("n0", "n1", "n2")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    init_certificates(directory, cluster="antecede", nodes=NAMES)
    return directory


def make(certificates: Path, number: int, *seeds: str, base: Path | None = None, **more: Any) -> Node:
    name = NAMES[number]
    directory = None if base is None else base / name
    settings = {"slots": 4, "tls": certificates, "certificate": name, "name": name, "seeds": seeds} | QUICK | more
    return Node(port=settings.pop("port", 0), directory=directory, **settings)


@contextlib.asynccontextmanager
async def three(certificates: Path, base: Path | None = None, **more: Any) -> AsyncIterator[list[Node]]:
    async with contextlib.AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(make(certificates, 0, base=base, **more))]
        for number in (1, 2):
            node = make(certificates, number, nodes[0].address, base=base, **more)
            nodes.append(await stack.enter_async_context(node))
        await until(lambda: all(set(node.roster.holders) == {0, 1, 2} for node in nodes))
        yield nodes


def thief(certificates: Path, node: Node, name: str) -> tuple[RosterClient, NodeIdentity]:
    """A caller with the certificate of `name`, and what it signs entries with."""
    files = CertificateSet.of(certificates, name)
    client = RosterClient(
        Roster(5, 4), cluster="antecede", name=name, tls=node_tls(files), agreement=node.protocol.agreement
    )
    return client, NodeIdentity(files, "antecede", None)


@awaited
async def test_a_slot_is_taken_by_its_certificate_only(certificates: Path, tmp_path: Path) -> None:
    async with three(certificates, tmp_path) as nodes:
        client, identity = thief(certificates, nodes[0], "n1")
        own = nodes[0].roster.members[0]
        lies = [
            replace(own, key=0),  # a lower key had precedence
            replace(own, incarnation=1 << 62, life=1),  # a later start had precedence
            replace(own, left=True),
            replace(own, address="127.0.0.1:1", incarnation=own.incarnation + 1),
        ]
        for lie in lies:
            for said in (lie, identity.sign(lie), replace(lie, signature=b"", certificate=b"")):
                for node in nodes:
                    await client.exchange(node.address, me=said)
        for node in nodes:
            assert node.roster.members[0] == own
            assert node.roster.clash is None
            assert not node.driver.stopped.done()
        await nodes[0].stop()
        again = make(certificates, 0, nodes[1].address, base=tmp_path)
        async with again:  # nor is it kept from starting again
            assert again.slot == 0


@pytest.mark.parametrize("slot", [2, 3])
@awaited
async def test_evidence_in_the_name_of_another_slot(certificates: Path, tmp_path: Path, slot: int) -> None:
    """A node that claims to know messages which another lacks stops it. It can do so in its own name only."""

    async with three(certificates, tmp_path) as nodes:
        victim, liar = nodes[0], nodes[1]
        client = victim.membership._client
        assert client is not None

        async def claim(slot: int) -> None:
            """The liar claims in the name of `slot` that it has a message of the victim which the victim lacks."""

            async def evidence(about: int) -> Evidence:
                return Evidence(slot, 1_000_000)

            service = RosterService(liar.roster, liar.membership.heard, evidence, liar.refused, secured=True)
            liar.listener.serve(ROLE, service.judge, members=True)
            await client.exchange(liar.address)
            await victim.membership._check_evidence()

        await claim(slot)
        assert not victim.driver.stopped.done()
        await claim(1)
        with pytest.raises(JournalError, match="node 1 has message 1000000"):
            await victim.stopped()


@awaited
async def test_a_link_in_the_name_of_another_slot(certificates: Path) -> None:
    async with three(certificates) as nodes:
        files = CertificateSet.of(certificates, "n1")
        context = client_tls(certificates / "authority.pem", files)
        codec = node_codec(VCUBE)
        hello = Hello(
            cluster="antecede",
            speaks=codec.name,
            shapes=codec.shapes,
            node=2,
            incarnation=1 << 60,
            agreement=nodes[0].protocol.agreement,
        )
        reader, writer = await asyncio.open_connection(
            *nodes[0].listener.address, ssl=context, server_hostname="localhost"
        )
        writer.write(HANDSHAKE.frame(hello))
        assert b"slot 2 belongs to n2, not to n1" in await reader.read()
        writer.close()
        assert nodes[0].transport.peers[2].incarnation < 1 << 60  # type: ignore[attr-defined]


def test_what_was_said_in_the_name_of_a_free_slot_is_forgotten(certificates: Path) -> None:
    roster, files = Roster(1, 4), CertificateSet.of(certificates, "n0")
    roster.bind(NodeIdentity(files, "antecede", None))
    entry = Member(slot=1, name="n1", key=9, address="127.0.0.1:7", incarnation=3, life=4)
    other = NodeIdentity(CertificateSet.of(certificates, "n1"), "antecede", None)
    assert roster.merge([entry]) == []
    assert roster.merge([NodeIdentity(files, "another cluster", None).sign(entry)]) == []
    assert roster.merge([other.sign(entry)]) != []
    assert roster.holders == {1: "n1"}
    assert roster.merge([replace(other.sign(entry), incarnation=9)]) == []  # changed behind its signature


def test_certificates_that_are_none_of_this_cluster(certificates: Path, tmp_path: Path) -> None:
    init_certificates(tmp_path / "other", cluster="antecede", nodes=("n1",))
    rng = random.Random(7)
    mine = NodeIdentity(CertificateSet.of(certificates, "n0"), "antecede", None)
    theirs = NodeIdentity(CertificateSet.of(certificates, "n1"), "antecede", None)
    member = Member(slot=1, name="n1", key=9, incarnation=3)
    good = theirs.sign(member)
    assert mine.holder(good) == "n1"
    client = NodeIdentity(CertificateSet.of(certificates, "client"), "antecede", None)
    foreign = NodeIdentity(CertificateSet.of(tmp_path / "other", "n1"), "antecede", None)
    wrong = [foreign.sign(member), client.sign(member), replace(good, signature=b""), replace(good, signing_key=b"x")]
    wrong += [replace(good, certificate=rng.randbytes(400)), replace(good, certificate=good.certificate[:-9])]
    for _ in range(200):  # every part of a certificate counts
        data = bytearray(good.certificate)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        wrong.append(replace(good, certificate=bytes(data)))
    assert [mine.holder(one) for one in wrong] == [None] * len(wrong)


@awaited
async def test_messages_are_signed_by_their_publisher(certificates: Path) -> None:
    async with three(certificates, signed=True) as nodes, nodes[0].connect() as bus:
        await bus.publish("t", b"true")
        await until_all_have(nodes, 1)
        async with nodes[2].connect() as reads, reads.subscribe("#") as feed:
            entry = nodes[1].hub.history.recent(0, 1)
            assert entry is not None
            true = entry[0].message
            assert true.proof
            payload = seal("t", b"forged", time_us=0)
            forged = [
                Message(true.topic, 0, 2, (), payload),
                replace(true, seq=2),
                replace(true, seq=2, payload=payload),
            ]
            mine = Message(true.topic, 0, 2, (), payload)
            assert nodes[1].driver.signer is not None
            nodes[1].driver.signer.sign([mine])
            for message in [*forged, mine]:
                refused = nodes[2].transport.counts.refused
                before = refused["malformed"]
                while refused["malformed"] == before:  # the link breaks each time, and what is sent meanwhile is lost
                    nodes[1].transport.send(2, Pub((message,)))
                    nodes[1].transport.flush()
                    await asyncio.sleep(0.05)
            await bus.publish("t", b"next")
            assert [one.payload for one in await take(feed, 1)] == [b"next"]
        assert [node.hub.position for node in nodes] == [2, 2, 2]


@pytest.mark.parametrize("protocol", ["vcube", "locamu", "gossip", "total"])
@awaited
async def test_every_protocol_carries_signatures(certificates: Path, protocol: str) -> None:
    async with three(certificates, protocol=protocol, signed=True) as nodes:
        async with nodes[1].connect() as one, nodes[2].connect() as other:
            for number in range(20):
                await one.publish("t", b"%d" % number)
                await other.publish("t", b"%d" % number)
        await until_all_have(nodes, 40)
        assert all(node.transport.counts.refused["malformed"] == 0 for node in nodes)


@awaited
async def test_messages_of_partitions_are_signed(certificates: Path, tmp_path: Path) -> None:
    async with three(certificates, tmp_path, partitions=4, signed=True) as nodes:
        async with nodes[2].connect() as reads, reads.subscribe("#") as feed, nodes[0].connect() as bus:
            for number in range(40):
                await bus.publish(f"rooms/{number}", b"%d" % number)
            assert {message.payload for message in await take(feed, 40)} == {b"%d" % number for number in range(40)}
        assert all(node.transport.counts.refused["malformed"] == 0 for node in nodes)


@awaited
async def test_what_a_journal_serves_is_still_signed(certificates: Path, tmp_path: Path) -> None:
    """The publisher is gone when a node fetches what it missed: another node's journal has the signatures."""
    async with three(certificates, tmp_path, signed=True) as nodes:
        port = nodes[2].listener.address[1]
        await nodes[2].stop()
        async with nodes[0].connect() as bus:
            for number in range(300):
                await bus.publish("t", b"%d" % number)
        await until_all_have(nodes[:2], 300)
        await nodes[0].stop()
        again = make(certificates, 2, nodes[1].address, base=tmp_path, port=port, signed=True)
        async with again:
            await until_all_have([again], 300)
            assert again.transport.counts.refused["malformed"] == 0


@awaited
async def test_nodes_must_agree_on_signatures(certificates: Path) -> None:
    async with make(certificates, 0, signed=True) as node:
        with pytest.raises(RefusedError, match="signed is 'True' at the one that answered"):
            await make(certificates, 1, node.address, signed=False).start()


def test_signatures_belong_to_certificates(certificates: Path) -> None:
    assert Node(tls=certificates, signed=True).config.signed
    with pytest.raises(antecede.UsageError, match="signed"):
        Node(signed=True)


def test_the_signing_key_stays(certificates: Path, tmp_path: Path) -> None:
    files = CertificateSet.of(certificates, "n0")
    first, again = (NodeIdentity(files, "antecede", tmp_path) for _ in range(2))
    assert first.signing_key.private_bytes_raw() == again.signing_key.private_bytes_raw()
    assert (tmp_path / "signing.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "signing.key").write_text("nonsense")
    with pytest.raises(antecede.UsageError, match=r"signing\.key"):
        NodeIdentity(files, "antecede", tmp_path)
