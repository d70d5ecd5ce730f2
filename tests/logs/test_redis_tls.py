"""Redis over TLS: every connection of the adapter uses the context that the client gave."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import UnreachableError
from antecede.wire.security import CertificateSet, client_tls, init_certificates
from tests.gateway.nats_server import free_port
from tests.logs.stories import play, take
from tests.logs.systems import wait_for_port


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    init_certificates(tmp_path / "tls", cluster="redis", nodes=("node",), clients=("client",))
    return tmp_path / "tls"


@pytest.fixture
def url(tmp_path: Path, certificates: Path) -> Iterator[str]:
    """A Redis that takes TLS alone, and asks clients for a certificate."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("LEFT OUT: no redis-server here; to stand on one too: tests/system_packages.sh redis-server")
    files, port = CertificateSet.of(certificates, "node"), free_port()
    words = [program, "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path]
    words += ["--tls-cert-file", files.certificate, "--tls-key-file", files.key, "--tls-ca-cert-file", files.authority]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for_port(port)
        yield f"redis://127.0.0.1:{port}?streams=orders,shipping"
        process.kill()


def test_publish_read_and_cut(url: str, certificates: Path) -> None:
    files = CertificateSet.of(certificates, "client")
    tls = client_tls(files.authority, files)

    async def story() -> None:
        async with antecede.connect(url, tls=tls) as bus, bus.subscribe("#", since="0") as feed:
            await bus.publish("orders/1", b"question")
            (question,) = await take(feed, 1)
            await bus.publish("shipping/1", b"answer")
            cut = await bus.cut()
            (answer,) = await take(feed, 1)
            assert (question.payload, answer.payload) == (b"question", b"answer")
            assert question.id in answer.after
            async with bus.subscribe("#", since=cut) as behind:
                await bus.publish("orders/1", b"behind the cut")
                assert [message.payload for message in await take(behind, 1)] == [b"behind the cut"]

    play(story)


@pytest.mark.parametrize("tls", [None, ssl.create_default_context()], ids=["no TLS", "another authority"])
def test_a_server_that_is_not_trusted_is_unreachable(url: str, tls: Any) -> None:
    async def story() -> None:
        async with antecede.connect(url, tls=tls, timeout_s=5):
            pass

    with pytest.raises(UnreachableError):
        play(story)
