"""Ports of local clusters: processes that run at the same time do not draw the same ones."""

import subprocess
import sys

import pytest

from antecede import UsageError
from antecede.node import local_cluster
from antecede.node.local_cluster import free_ports

DRAWS = """
import sys
from antecede.node import local_cluster
local_cluster.FREE_PORTS = [int(sys.argv[1])]
print(*local_cluster.free_ports([0]))
"""


def test_another_process_does_not_draw_the_port_of_a_node_that_is_down() -> None:
    (port,) = free_ports([0])
    command = [sys.executable, "-c", DRAWS, str(port)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"is taken, and so is every one from {port} to {port}" in done.stderr
    local_cluster._reserved.pop().close()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [str(port)]


def test_reservations_are_bounded() -> None:
    ports = [port for _ in range(40) for port in free_ports([0] * 5)]
    assert len(local_cluster._reserved) <= 128
    assert len(set(ports[-100:])) == 100


def test_no_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster, "FREE_PORTS", free_ports([0]))
    with pytest.raises(UsageError, match=r"port 0: is taken.*end other programs"):
        free_ports([0])
