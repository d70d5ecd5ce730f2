"""The hostile minute: every attack of bench/hostile_attacks.py at once, beside an honest pair."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from antecede.core.limits import node_bytes_max
from antecede.node.config import NodeConfig

BENCH = Path(__file__).parents[2] / "bench" / "hostile.py"

#: Connections that the attacks open, of clients and of bulk clients; and those of the pair.
CLIENTS, BULK_CLIENTS = 3 * 12 * 2 + 2, 3 * 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_message_comes_and_memory_stays_within_its_bound(tmp_path: Path) -> None:
    """The latencies are printed: a machine that others use, too, cannot promise any."""
    found = tmp_path / "found.json"
    words = [sys.executable, str(BENCH), "--seconds", "60", "--json", str(found)]
    subprocess.run(words, check=True, timeout=500)
    (rows,) = json.loads(found.read_text()).values()
    print(json.dumps(rows))
    beside = rows["beside"]
    assert beside["failed"] == 0
    assert beside["came"] == beside["sent"]
    bound = node_bytes_max(clients=CLIENTS, bulk_clients=BULK_CLIENTS, recent_bytes=NodeConfig().recent_bytes)
    assert beside["peak_mb"] * 1e6 < bound
