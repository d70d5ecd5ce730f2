from collections.abc import Iterator
from itertools import count

import pytest

from tests.logs.systems import LASTING, SYSTEMS, System, running

_numbers = count()


@pytest.fixture(scope="session", params=sorted(SYSTEMS))
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A real server of each system, for tests that leave it running."""
    with running(request.param, tmp_path_factory.mktemp(request.param)) as system:
        yield system


@pytest.fixture(scope="session", params=LASTING)
def lasting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A real server whose records can be removed."""
    with running(request.param, tmp_path_factory.mktemp(request.param)) as system:
        yield system


@pytest.fixture
def logs() -> tuple[str, str]:
    """Names of two logs that no other test has."""
    number = next(_numbers)
    return f"orders{number}", f"shipping{number}"
