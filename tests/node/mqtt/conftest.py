from collections.abc import Iterator

import pytest

from tests.node.mqtt.devices import SharedNode


@pytest.fixture(scope="module")
def node() -> Iterator[SharedNode]:
    """One node for all tests of a module that ask for it (`on_shared_node`)."""
    with SharedNode() as shared:
        yield shared
