"""The script that fetches what tests need says loudly what it could not get, and never fails a build by itself."""

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "system_packages.sh"


def run(tmp_path: Path, *packages: str, apt: str | None = None) -> str:
    """With a PATH that holds only what the script itself uses, and an apt-get of ours."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("id", "grep", "tail", "rm"):
        if not (tools / name).exists():
            (tools / name).symlink_to(f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}")
    if apt is not None:
        (tools / "apt-get").write_text(f"#!/bin/sh\n{apt}\n")
        (tools / "apt-get").chmod(0o755)
    environment = {"PATH": str(tools), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT), *packages], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_there_is_not_mentioned(tmp_path: Path) -> None:
    assert run(tmp_path, "grep", "tail") == ""


def test_what_cannot_be_had_is_said_loudly_with_the_line_to_run(tmp_path: Path) -> None:
    said = run(tmp_path, "grep", "nosuch")
    assert "MISSING: nosuch. The tests that need it are LEFT OUT." in said
    assert "apt-get install -y --no-install-recommends nosuch" in said


def test_what_is_missing_is_installed_where_that_is_allowed(tmp_path: Path) -> None:
    said = run(tmp_path, "nosuch", apt='echo "$@" >> "$TMPDIR/asked"')
    if os.geteuid() == 0:
        assert "installing nosuch" in said
        assert "MISSING" not in said
        assert "install -y --no-install-recommends nosuch" in (tmp_path / "asked").read_text()
    else:
        assert "MISSING: nosuch" in said


def test_a_failed_installation_gives_the_last_word_of_its_log(tmp_path: Path) -> None:
    said = run(tmp_path, "nosuch", apt="echo 'E: no network'; exit 100")
    assert "MISSING: nosuch" in said
    if os.geteuid() == 0:
        assert "could not install nosuch: E: no network" in said
