"""How tests are run (limits, processes, garbage collection, Hypothesis), and the browser that pages are seen with."""

import gc
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests.report.browser import Browser
from tests.scheduling import Scheduling

#: Looked for in this order; the first that starts is used.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: Time limit of a slow test that does not state its own. `timeout` in pyproject.toml limits the others.
SLOW_LIMIT_S = 3600


@pytest.fixture(scope="session", autouse=True)
def cluster_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nodes of tests, and the processes they start, have a cluster key of their own, not that of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTECEDE_CLUSTER_KEY", str(tmp_path_factory.mktemp("key") / "cluster.key"))
        yield


# No example has a deadline and none is too slow to draw: on a busy machine either would fail a sound test. The examples
# are the same in every run. Tests state what differs for them.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT_S))


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules and tests that stay until the end: a third of a million objects."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium. Without one the tests that need it are left out, and say so."""
    for name in (os.environ.get("CHROMIUM", ""), *NAMES):
        found = shutil.which(name) if name else None
        if found and subprocess.run([found, "--version"], capture_output=True, timeout=60, check=False).returncode == 0:
            return found
    pytest.skip("LEFT OUT: no Chromium here; to look at pages too: tests/system_packages.sh chromium")


@pytest.fixture(scope="module")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(chromium, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go: ANTECEDE_SCREENSHOTS if set, to be looked at; else away with the test."""
    chosen = os.environ.get("ANTECEDE_SCREENSHOTS")
    place = Path(chosen) if chosen else tmp_path
    place.mkdir(parents=True, exist_ok=True)
    return place
