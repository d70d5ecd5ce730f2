"""A node's stores beside each other after a power failure: the journal, `mqtt.db` and `staged.db`.

Each file fails by itself, so any of them may be ahead of the others. Nothing that the journal has may then be withheld
from an MQTT session or a group, no row of a batch may be missing or there twice, and no batch may be stuck.

A seed replays a run: `pytest tests/node/power -k 'failures[7]'`, and `-m slow` for those above `_FEW`.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Final

import pytest

from antecede.journal import index, segments
from antecede.node.bulk import releasing
from tests.client.running import DEADLINE_S
from tests.node.power.disk import watching
from tests.node.power.world import World

#: Seeds of the default suite, and of the slow one.
_FEW: Final = 6
_MANY: Final = 200

SEEDS: Final = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= _FEW else []) for seed in range(_MANY)]


@pytest.mark.parametrize("seed", SEEDS)
def test_power_failures(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SECTION_BYTES", 2000)
    monkeypatch.setattr(index, "TAIL_BYTES", 4000)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 8000)
    monkeypatch.setattr(releasing, "_RUN", 3)
    rng = Random(seed)

    async def run() -> None:
        with watching(monkeypatch) as watch:
            world = World(tmp_path, rng, watch)
            try:
                for _ in range(rng.randrange(2, 5)):
                    await world.start(mqtt=world.lives == 0 or rng.random() < 0.8)
                    for _ in range(rng.randrange(5, 40)):
                        await world.step()
                    await world.end(rng.choice(("power", "power", "kill", "stop")))
                await world.judge()
            except BaseException as error:
                error.add_note("; ".join(world.story))
                world.node.abort()
                raise

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await run()

    asyncio.run(bounded())
