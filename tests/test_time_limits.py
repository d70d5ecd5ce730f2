"""A test that hangs is a failure with the stack of the place where it hangs. Held by hanging on purpose in a child."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW_LIMIT_S

ROOT = Path(__file__).parents[1]

HANGS = """
import time

def test_hangs():
    wait_for_ever()

def wait_for_ever():
    time.sleep(60)

def test_next():
    pass
"""

#: What an event loop does with an error of a callback: it logs the error and goes on.
SWALLOWS = """
import time

def test_swallows():
    while True:
        swallow()

def swallow():
    try:
        time.sleep(60)
    except BaseException:
        pass
"""

SLOW = f"""
import pytest

pytestmark = pytest.mark.slow

def test_slow(request):
    assert request.node.get_closest_marker("timeout").args == ({SLOW_LIMIT_S},)

@pytest.mark.timeout(7)
def test_slow_with_a_limit_it_states(request):
    assert request.node.get_closest_marker("timeout").args == (7,)
"""


def run(directory: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(directory)]
    # Of its own: else it would remove the temporary directories of earlier runs, which takes half a minute.
    command += ["--basetemp", str(directory.with_suffix(".temporary"))]
    return subprocess.run(
        [*command, *options, str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_hang_fails_with_its_stack_and_the_next_test_runs(tmp_path: Path) -> None:
    done = run(tmp_path, HANGS, "-o", "timeout=1")
    assert done.returncode == 1, done.stdout
    assert "wait_for_ever" in done.stdout
    assert "Timeout" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_a_hang_that_swallows_errors_ends_the_run_with_its_stack(tmp_path: Path) -> None:
    done = run(tmp_path, SWALLOWS, "-o", "timeout=1", "-o", "faulthandler_timeout=3")
    assert done.returncode != 0
    assert "in swallow" in done.stdout


def test_every_test_has_a_limit(request: pytest.FixtureRequest) -> None:
    assert 0 < float(request.config.getini("timeout")) < float(request.config.getini("faulthandler_timeout"))


def test_slow_tests_have_a_limit_of_their_own(tmp_path: Path) -> None:
    done = run(tmp_path, SLOW, "-p", "tests.conftest", "-m", "slow")
    assert "2 passed" in done.stdout, done.stdout
