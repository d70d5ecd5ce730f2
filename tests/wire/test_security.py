"""Certificates, TLS and tokens, on real sockets: who should get in does, nobody else, and the node goes on."""

import asyncio
import ssl
import stat
from pathlib import Path

import pytest

from antecede.core import UsageError
from antecede.core.errors import RefusedError, UnreachableError
from antecede.wire.codec import HANDSHAKE, Hello
from antecede.wire.frames import FrameConnection
from antecede.wire.handshake import greet
from antecede.wire.security import (
    ANYBODY,
    CertificateSet,
    TokenFile,
    client_tls,
    init_certificates,
    issue,
    new_token,
    node_tls,
)
from antecede.wire.tcp import TcpTransport

from .helpers import CODEC, QUICK, Recorded, bundle, introduce, until
from .test_strangers import Session


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    init_certificates(directory, cluster="test", nodes=("one", "two"), clients=("carol",))
    issue(directory, "late", role="node", days=1, starts_in_days=-30)
    issue(directory, "early", role="node", starts_in_days=30)
    init_certificates(directory / "other", cluster="test", nodes=("one",), clients=())
    return directory


def secured(directory: Path, name: str, node: int) -> TcpTransport:
    tls = node_tls(CertificateSet.of(directory, name))
    return TcpTransport(node, CODEC, cluster="test", limits=QUICK, tls=tls)


def test_nodes_with_certificates_of_one_authority_link(certificates: Path) -> None:
    async def test() -> None:
        one, two = secured(certificates, "one", 0), secured(certificates, "two", 1)
        told = [Recorded(), Recorded()]
        await one.start(told[0])
        await two.start(told[1])
        introduce([one, two])
        for seq in range(1, 3001):
            one.send(1, bundle(seq))
            two.send(0, bundle(seq))
            if seq % 100 == 0:
                one.flush()
                two.flush()
                await asyncio.sleep(0)
        await until(lambda: all(len(heard.packets) == 3000 for heard in told))
        assert {len(set(heard.seqs)) for heard in told} == {3000}
        await asyncio.gather(one.close(), two.close())

    asyncio.run(test())


@pytest.mark.parametrize("who", ["late", "early", "carol", "other/one", "nobody"])
def test_others_do_not_and_the_node_goes_on(certificates: Path, who: str) -> None:
    async def test() -> None:
        one, two = secured(certificates, "one", 0), secured(certificates, "two", 1)
        await one.start(told := Recorded())
        await two.start(Recorded())
        if who == "nobody":
            stranger = TcpTransport(2, CODEC, cluster="test", limits=QUICK)
        else:
            directory = certificates / "other" if who.startswith("other/") else certificates
            stranger = secured(directory, who.removeprefix("other/"), 2)
        await stranger.start(Recorded())
        stranger.set_peer(0, *one.address)
        one.set_peer(2, *stranger.address)
        stranger.connect(0)
        one.connect(2)
        await until(lambda: bool(one.counts.refused) and one.peers[2].failures > 0)
        assert stranger.peers[0].link is None
        assert set(one.counts.refused) <= {"tls", "untrusted", "by peer: untrusted", "malformed"}
        introduce([one, two])
        two.send(0, bundle(1))
        two.flush()
        await until(lambda: told.seqs == [1])
        assert told.links == [(1, 1)]
        await asyncio.gather(one.close(), two.close(), stranger.close())

    asyncio.run(test())


def test_clients_need_no_certificate_and_cannot_be_nodes(certificates: Path) -> None:
    async def test() -> None:
        node = secured(certificates, "one", 0)
        node.listener.serve("client", lambda connection, hello: Session)
        await node.start(told := Recorded())
        host, port = node.address
        client = Hello(cluster="test", speaks="x", role="client")
        authority = certificates / "authority.pem"

        def adopt(connection: FrameConnection, welcome: object) -> Session:
            return Session()

        for tls in (client_tls(authority), client_tls(authority, CertificateSet.of(certificates, "carol"))):
            connection = await greet(host, port, client, adopt, tls=tls)
            assert connection.certificate() is not None
            connection.close()
            with pytest.raises(RefusedError, match="untrusted"):
                await greet(
                    host, port, Hello(cluster="test", speaks=CODEC.name, shapes=CODEC.shapes, node=5), adopt, tls=tls
                )
        with pytest.raises(UnreachableError):  # without TLS
            await greet(host, port, client, adopt)
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await greet(host, port, client, adopt, tls=client_tls(certificates / "other" / "authority.pem"))
        with pytest.raises(UnreachableError):  # a name the certificate does not have
            await greet("127.0.0.2", port, client, adopt, tls=client_tls(authority))
        assert told.links == []
        await node.close()

    asyncio.run(test())


def test_plain_words_to_a_tls_port(certificates: Path) -> None:
    async def test() -> None:
        node = secured(certificates, "one", 0)
        await node.start(Recorded())
        reader, writer = await asyncio.open_connection(*node.address)
        writer.write(HANDSHAKE.frame(Hello(cluster="test", speaks=CODEC.name, shapes=CODEC.shapes, node=5)))
        await asyncio.wait_for(reader.read(), 20)
        writer.close()
        await until(lambda: node.counts.refused["tls"] == 1)
        await until(lambda: node.listener.admission.inside == 0)
        await node.close()

    asyncio.run(test())


def test_the_files_of_a_set(certificates: Path) -> None:
    for name in ("authority", "one", "carol"):
        assert stat.S_IMODE((certificates / f"{name}.key").stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="has an authority already"):
        init_certificates(certificates, cluster="test")
    with pytest.raises(UsageError, match="has a certificate"):
        issue(certificates, "one", role="node")
    for name in ("../evil", "", "authority", "a" * 64):
        with pytest.raises(UsageError, match="cannot name a certificate"):
            issue(certificates, name, role="node")
    with pytest.raises(UsageError, match="not all different"):
        init_certificates(certificates / "new", cluster="test", nodes=("x",), clients=("x",))


def test_files_that_cannot_be_used(tmp_path: Path, certificates: Path) -> None:
    with pytest.raises(UsageError, match=r"has no authority\.pem"):
        issue(tmp_path, "one", role="node")
    with pytest.raises(UsageError, match=r"authority .* cannot be used"):
        client_tls(tmp_path / "authority.pem")
    with pytest.raises(UsageError, match="or its key cannot be used"):
        node_tls(CertificateSet.of(certificates, "missing"))
    mixed = CertificateSet(certificates / "authority.pem", certificates / "one.pem", certificates / "two.key")
    with pytest.raises(UsageError, match="or its key cannot be used"):
        node_tls(mixed)
    (tmp_path / "authority.pem").write_text("nonsense")
    (tmp_path / "authority.key").write_text("nonsense")
    with pytest.raises(UsageError, match="cannot be read"):
        issue(tmp_path, "one", role="node")
    with pytest.raises(UsageError, match="cannot be used"):
        client_tls(tmp_path / "authority.pem")


def test_old_versions_are_not_spoken(certificates: Path) -> None:
    tls = node_tls(CertificateSet.of(certificates, "one"))
    for context in (tls.server, tls.client, client_tls(certificates / "authority.pem")):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    carol = new_token(path, "carol", publish=("answers/+",), subscribe=("questions/#", "answers/python"), status=True)
    dave = new_token(path, "dave")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert carol not in text
    assert dave not in text
    tokens = TokenFile.read(path)
    grants = tokens.find(carol)
    assert grants is not None
    assert (grants.name, grants.may_ask) == ("carol", True)
    assert [grants.may_publish(topic) for topic in ("answers/c", "answers/c/d", "questions/c")] == [True, False, False]
    asked = ("questions/a/#", "questions", "#", "answers/python", "answers/+")
    assert [grants.may_subscribe(pattern) for pattern in asked] == [True, True, False, True, False]
    nothing = tokens.find(dave)
    assert nothing is not None
    assert not nothing.may_publish("a")
    assert not nothing.may_ask
    for wrong in ("", carol[:-1], carol + "x", "\ud800", carol.swapcase()):
        assert tokens.find(wrong) is None
    assert ANYBODY.may_publish("a/b")
    assert ANYBODY.may_subscribe("#")
    with pytest.raises(UsageError, match="already"):
        new_token(path, "carol")
    with pytest.raises(UsageError, match="before its end"):
        new_token(path, "erin", publish=("a/#/b",))
    with pytest.raises(UsageError, match="empty or too long"):
        new_token(path, "")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        '{"clients": [{"name": "x", "token_sha256": "short"}]}',
        '{"clients": [{"name": "x"}]}',
        '{"clients": [{"name": "x", "token_sha256": "%s", "extra": 1}]}' % ("0" * 64),
        '{"clients": [{"name": "", "token_sha256": "%s"}]}' % ("0" * 64),
    ],
)
def test_token_files_that_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(UsageError, match="is not one"):
        TokenFile.read(tmp_path / "tokens")


def test_more_token_files_that_are_refused(tmp_path: Path) -> None:
    entry = '{"name": "x", "token_sha256": "%s"}' % ("0" * 64)
    (tmp_path / "tokens").write_text(f'{{"clients": [{entry}, {entry}]}}')
    with pytest.raises(UsageError, match="name a client twice"):
        TokenFile.read(tmp_path / "tokens")
    with pytest.raises(UsageError, match="cannot be read"):
        TokenFile.read(tmp_path / "missing")
