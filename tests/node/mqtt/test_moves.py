"""A search over what MQTT clients do at a cluster with partitions: they come, subscribe, leave, move; nodes are killed.

A client is given every message of its subscriptions from its SUBACK on, none from before, none again that it had
acknowledged before it left, and those of one publisher in their order. A seed replays a run up to the timing of
threads and sockets: `pytest -m '' tests/node/mqtt/test_moves.py -k 'moves[7]'`. `make test-slow` runs them all.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.client.running import DEADLINE_S
from tests.node.mqtt.moves import Moves

#: Seeds of the default suite, and of the slow one.
_FEW: Final = 4
_MANY: Final = 150

SEEDS: Final = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= _FEW else []) for seed in range(_MANY)]


@pytest.mark.parametrize("seed", SEEDS)
def test_moves(seed: int, tmp_path: Path) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await Moves(tmp_path, Random(seed)).run(40)

    asyncio.run(bounded())
