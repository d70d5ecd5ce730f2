"""`pip install antecede`, without extras, is a client and a node: installed into a fresh environment and used there.

The wheel is built from this tree. Its dependencies come from `.venv/wheels` if that is there (`make` fills it once, so
that tests need no network from then on), else from the package index.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WHEELS = ROOT / ".venv" / "wheels"

#: What only extras install.
ABSENT = ("jinja2", "numpy", "pandas", "pyarrow", "pyspark", "nats")
SIZE_MB_MAX = 60
#: Without what would let this tree, or the user's settings, into the environment under test.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANTECEDE"))}
#: `tests/test_compiled.py` has compiled modules.
ENVIRONMENT["ANTECEDE_COMPILE"] = "0"

CLIENT = """
import asyncio, sys
import antecede

async def main():
    url, first, expected = sys.argv[1], sys.argv[2] == "first", int(sys.argv[3])
    async with antecede.connect(url, name="carol") as bus, bus.subscribe("rooms/#", since="0") as feed:
        if first:
            for text in (b"one", b"two", b"three"):
                await bus.publish("rooms/1", text, durability="disk")
        for _ in range(expected):
            async with asyncio.timeout(30):
                print((await anext(feed)).payload.decode())

asyncio.run(main())
"""

EXPORT = """
import sys
from pathlib import Path
from antecede.journal import export_rows, export_trace

journals = [Path(sys.argv[1])]
print(len([row for row in export_rows(journals) if row.event.name == "DELIVER"]))
try:
    export_trace(journals, Path("trace.parquet"), run="bare")
except Exception as error:
    print(type(error).__name__, error)
"""


def run(*words: str | Path, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the programs of an environment in which only the bare package is installed."""
    home = tmp_path_factory.mktemp("bare")
    tree = home / "tree"  # a copy: building leaves files behind, and takes up those of earlier builds
    tree.mkdir()
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    sources = ["--no-index", "--find-links", WHEELS] if WHEELS.is_dir() else []
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", *sources, "--wheel-dir", home, tree, cwd=home)
    (wheel,) = home.glob("antecede-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv", cwd=home)
    run(*pip, "--python", home / "venv", "install", *sources, wheel, cwd=home)
    return home / "venv" / "bin"


@contextmanager
def node(bare: Path, directory: Path) -> Iterator[str]:
    """Run a node with a journal in `directory`; yields its url."""
    words = [bare / "antecede", "node", "--port", "0", "--dir", directory]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_it_has_no_library_of_an_extra_and_is_small(bare: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.util, json, sys; print(json.dumps([*map(bool, map(importlib.util.find_spec, sys.argv[1:]))]))"
    )
    found = json.loads(run(bare / "python", "-c", code, *ABSENT, "antecede", cwd=tmp_path).stdout)
    assert found == [False] * len(ABSENT) + [True]
    (packages,) = (bare.parent / "lib").glob("python*/site-packages")
    on_disk = sum(file.stat().st_blocks * 512 for file in packages.rglob("*"))  # as `du` counts
    assert on_disk < SIZE_MB_MAX * 1024 * 1024, f"{on_disk / 1024 / 1024:.1f} MB"


def test_it_has_every_file_of_the_package(bare: Path) -> None:
    (installed,) = (bare.parent / "lib").glob("python*/site-packages/antecede")
    source = ROOT / "src" / "antecede"
    files = {file.relative_to(source) for file in source.rglob("*") if file.is_file() and file.suffix != ".pyc"}
    assert files == {file.relative_to(installed) for file in installed.rglob("*") if file.is_file()} - {
        file.relative_to(installed) for file in installed.rglob("*.pyc")
    }


def test_a_node_and_a_client_run_and_replay_after_a_restart(bare: Path, tmp_path: Path) -> None:
    with node(bare, tmp_path / "n0") as url:
        said = run(bare / "python", "-c", CLIENT, url, "first", "3", cwd=tmp_path).stdout
        assert said.split() == ["one", "two", "three"]
        assert run(bare / "antecede", "pub", "rooms/1", "four", "--url", url, cwd=tmp_path).stdout == "0.4\n"
    with node(bare, tmp_path / "n0") as url:
        said = run(bare / "python", "-c", CLIENT, url, "again", "4", cwd=tmp_path).stdout
        assert said.split() == ["one", "two", "three", "four"]
        assert (
            "rooms/1\tfour"
            in run(bare / "antecede", "sub", "#", "--since", "0", "-n", "4", "--url", url, cwd=tmp_path).stdout
        )
    rows, error = run(bare / "python", "-c", EXPORT, tmp_path / "n0" / "journal.db", cwd=tmp_path).stdout.splitlines()
    assert rows == "4"
    assert error == (
        "MissingExtraError exporting a journal as a trace file needs the extra lab; pip install 'antecede[lab]'"
    )


def test_commands_that_need_an_extra_say_so_in_one_line(bare: Path, tmp_path: Path) -> None:
    assert "simulate" in run(bare / "antecede", "--help", cwd=tmp_path).stdout
    for command, extra in (("simulate", "lab"), ("audit", "spark"), ("manager", "nats")):
        said = run(bare / "antecede", command, cwd=tmp_path, code=2).stderr
        assert said == f"error: antecede {command} needs the extra {extra}; pip install 'antecede[{extra}]'\n"
