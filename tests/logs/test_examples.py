"""The examples over other systems run as a person would run them."""

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.logs.systems import System

EXAMPLES = Path(__file__).parents[2] / "examples"
#: By system: the example, the logs it needs, and pairs of lines of which the first must come first.
STORIES = {
    "nats": ("orders_over_nats", (), [("orders/new: a lamp", "shipping/notes: shipped: a lamp")]),
    "redis": ("rooms_over_redis", (), [("lobby/alice: is there any soup left?", "lobby/alice: thank you")]),
    "kafka": (
        "accounts_over_kafka",
        ("payments", "receipts"),
        [(f"payments/{name}: 10 euros", f"receipts/{name}: received 10 euros") for name in ("ann", "bob", "cleo")],
    ),
}


def test_example(system: System) -> None:
    example, logs, pairs = STORIES[system.name]
    asyncio.run(system.create(*logs))
    words = [sys.executable, str(EXAMPLES / f"{example}.py"), system.url("x").partition("?")[0]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for before, after in pairs:
        assert lines.index(before) < lines.index(after)
