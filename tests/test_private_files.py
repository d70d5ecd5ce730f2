"""Files of nodes and certificates are readable by their owner only, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from antecede import Node
from antecede.node.bulk.staging import Staging
from antecede.node.local_cluster import LocalCluster
from antecede.wire.security import init_certificates, new_token
from tests.client.running import awaited


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The most generous umask there is: what is private now is so under every other."""
    before = os.umask(0)
    yield
    os.umask(before)


def readable_by_others(directory: Path) -> list[str]:
    found = [directory, *directory.rglob("*")]
    return [f"{path.name} {oct(path.stat().st_mode)}" for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


@awaited
async def test_the_directory_of_a_node(tmp_path: Path) -> None:
    home = tmp_path / "n0"
    async with Node(port=0, directory=home) as node, node.connect() as bus:
        await bus.publish("t", b"secret")
        names = {path.name for path in home.iterdir()}
        assert {
            "journal.db",
            "journal.db-wal",
            "journal.db-shm",
            "journal.db.lock",
            f"journal.db.{0:016x}",
            "roster.json",
        } <= names
        assert readable_by_others(home) == []
    assert readable_by_others(home) == []


def test_staged_batches(tmp_path: Path) -> None:
    home = tmp_path / "n0"
    home.mkdir(mode=0o700)
    staging = Staging(home / "bulk.db")
    staging.stage("me", "part", 0, 1, b"secret", 0)
    assert {"bulk.db", "bulk.db-wal"} <= {path.name for path in home.iterdir()}
    assert readable_by_others(home) == []
    staging.close()


def test_keys_and_tokens(tmp_path: Path) -> None:
    certificates, tokens = tmp_path / "certs", tmp_path / "tokens.json"
    init_certificates(certificates, cluster="test")
    new_token(tokens, "carol")
    assert stat.S_IMODE(certificates.stat().st_mode) == 0o700
    keys = sorted(certificates.glob("*.key"))
    assert len(keys) == 3
    assert [stat.S_IMODE(path.stat().st_mode) for path in [*keys, tokens]] == [0o600] * 4


def test_a_cluster_of_processes(tmp_path: Path) -> None:
    home = tmp_path / "cluster"
    LocalCluster(home, nodes=2)
    assert readable_by_others(home) == []


@awaited
async def test_a_directory_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "n0"
    home.mkdir(mode=0o755)
    async with Node(port=0, directory=home):
        pass
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "antecede.files"]
    assert f"chmod -R go-rwx {home}" in warning
    assert "0755" in warning
    home.chmod(0o700)
    caplog.clear()
    async with Node(port=0, directory=home):
        pass
    assert [record for record in caplog.records if record.name == "antecede.files"] == []
