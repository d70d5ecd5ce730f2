"""The live system from a shell, as a person uses it: real processes, real ports."""

import asyncio
import contextlib
import io
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from antecede import connect
from antecede.cli import main
from antecede.node.local_cluster import LocalCluster

COMMAND = [sys.executable, "-m", "antecede"]


def antecede(*arguments: str, given: str | None = None, code: int = 0) -> str:
    """Run a command within this process (starting Python and importing takes longer than most commands)."""
    out, err = io.StringIO(), io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO((given or "").encode()))
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["antecede", *arguments])
        patch.setattr(sys, "stdin", stdin)
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code or 0) == code, err.getvalue() + out.getvalue()
    return out.getvalue() if code == 0 else err.getvalue()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("node")
    config = home / "node.toml"
    config.write_text('port = 0\ndirectory = "data"\nname = "first"\n')
    process = subprocess.Popen(
        [*COMMAND, "node", "--config", str(config), "--http-port", "0", "--ws-port", "0", "--http-files", str(home)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"node 0 \(first\) of cluster antecede at (antecede://\S+)", line)
        assert found, line
        http = process.stdout.readline()
        assert re.fullmatch(r"page, .*topics over HTTP.* at http://127\.0\.0\.1:\d+/\n", http)
        assert process.stdout.readline() == f"files of {home} at {http.split()[-1]}app/\n"
        assert re.fullmatch(r"MQTT over WebSocket at 127\.0\.0\.1:\d+\n", process.stdout.readline())
        yield found[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
    assert (home / "data" / "journal.db").exists()


def test_pub_sub_and_status(node: str) -> None:
    assert antecede("pub", "rooms/1", "hello", "-u", node, "--header", "lang=en") == "0.1\n"
    assert antecede("pub", "rooms/2", "-", "-u", node, given="one\ntwo\n") == "0.2\n0.3\n"
    assert (
        antecede("sub", "rooms/#", "--since", "0", "-n", "3", "-u", node)
        == "rooms/1\thello\nrooms/2\tone\nrooms/2\ttwo\n"
    )
    first = json.loads(antecede("sub", "rooms/1", "--since", "0", "-n", "1", "--json", "-u", node))
    assert first["headers"] == {"lang": "en"}
    assert first["id"] == "0.1"
    after = antecede("sub", "#", "--since", first["cursor"], "-n", "1", "--json", "-u", node)
    assert json.loads(after)["payload"] == "one"
    assert "0 (first)" in antecede("status", "-u", node)
    assert json.loads(antecede("status", "--json", "-u", node))["position"] == 3


def test_sub_cannot_be_made_to_control_the_terminal(node: str) -> None:
    antecede("pub", "hostile/1", "\x1b]0;owned\x07\x1b[2J", "-u", node)
    said = antecede("sub", "hostile/#", "--since", "0", "-n", "1", "-u", node)
    assert said == "hostile/1\t\\x1b]0;owned\\x07\\x1b[2J\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pub", "a/#", "x"], "wildcard"),
        (["pub", "a", "x", "--durability", "often"], "durability"),
        (["pub", "a", "x", "--header", "lang"], "name=value"),
        (["pub", "a", "x", "--after", "first"], "source.seq"),
        (["sub", "a", "--order", "sorted"], "use causal"),
        (["sub", "a", "--order", "total"], "protocol"),
        (["sub", "a", "--max-age", "0"], "use 0.001"),
        (["sub", "a", "--since", "noon"], "cursor"),
    ],
)
def test_mistakes_are_one_line(node: str, arguments: list[str], said: str) -> None:
    told = antecede(*arguments, "-u", node, code=2)
    assert said in told
    assert len(told.strip().splitlines()) == 1


def test_nobody_there_is_one_line() -> None:
    told = antecede("pub", "a", "x", "--url", "antecede://127.0.0.1:1", code=2)
    assert "cannot be reached" in told
    assert len(told.strip().splitlines()) == 1


def test_a_cluster_that_cannot_start_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for words, said in (
        (("--nodes", "5000"), "--nodes 5000: is out of range; use 1 … 256"),
        (("--nodes", "1", "--port", "99999"), "port 99999: is out of range"),
        (("--nodes", "2", "--protocol", "flood"), "protocol 'flood': is not known"),
    ):
        told = antecede("cluster", *words, code=2)
        assert said in told
        assert len(told.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text("colour = 3\n")
    assert "colour" in antecede("node", "--config", str(tmp_path / "node.toml"), code=2)
    assert "no-such" in antecede("node", "--config", str(tmp_path / "no-such.toml"), code=2)


def test_certificates_and_tokens(tmp_path: Path) -> None:
    made = antecede("cert", "init", str(tmp_path / "certs"), "--node", "n0")
    assert "n0.pem" in made
    assert (tmp_path / "certs" / "authority.pem").exists()
    assert "authority already" in antecede("cert", "init", str(tmp_path / "certs"), code=2)
    antecede("cert", "issue", str(tmp_path / "certs"), "n1")
    token = antecede("token", str(tmp_path / "tokens.json"), "carol", "--publish", "a/#").strip()
    assert len(token) > 30
    assert token not in (tmp_path / "tokens.json").read_text()


def test_a_local_cluster_starts_shows_itself_and_stops(tmp_path: Path) -> None:
    async def run() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "cluster", "--nodes", "2", "--dir", str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        said = b""
        async with asyncio.timeout(60):
            while b"n1 " not in said:
                said += await process.stdout.readline()
            process.send_signal(signal.SIGINT)
            said += await process.stdout.read()
            await process.wait()
        return process.returncode, said.decode()

    code, said = asyncio.run(run())
    assert code == 0, said
    assert "stopped; journals are in" in said
    assert (tmp_path / "n1" / "journal.db").exists()


def test_explain_partition_says_where_a_topic_lives(tmp_path: Path) -> None:
    async def ask() -> list[str]:
        async with LocalCluster(tmp_path, nodes=3, partitions=16, replicas=1) as cluster:
            async with connect(cluster.url(0)) as bus:
                while [one["state"] for one in (await bus.status())["members"]] != ["here", "up", "up"]:
                    await asyncio.sleep(0.1)
            said = [
                await asyncio.to_thread(antecede, "explain", "partition", "rooms/42/chat", "-u", cluster.url(node))
                for node in range(3)
            ]
            return [*said, await asyncio.to_thread(antecede, "status", "-u", cluster.url(0))]

    *said, status = asyncio.run(ask())
    assert "rooms/42/chat is in partition 2 of 16" in said[0]
    assert len({line for one in said for line in one.splitlines() if line.startswith("taken by")}) == 1
    assert "go this way" in said[0]
    assert "home" in status


def test_explain_partition_of_a_cluster_with_one(node: str) -> None:
    assert "every node takes it" in antecede("explain", "partition", "rooms/42/chat", "-u", node)
