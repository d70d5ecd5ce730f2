"""Chooses the event loop of a node process: uvloop's where it is installed (`antecede[uvloop]`), else asyncio's own.

uvloop spends less on each turn, each read and each write. A node with TLS stays on asyncio's loop (`credentials`).
`ANTECEDE_UVLOOP=0` chooses asyncio's loop in any case.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import Any

from antecede.node.config import NodeConfig


def loop_factory(config: NodeConfig) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the event loop of a node with these settings; None: asyncio's own."""
    if config.tls is not None or os.environ.get("ANTECEDE_UVLOOP") == "0" or find_spec("uvloop") is None:
        return None
    import uvloop  # noqa: PLC0415 - an extra

    make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return make


def run_on_loop(config: NodeConfig, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` on the event loop of a node with these settings."""
    with asyncio.Runner(loop_factory=loop_factory(config)) as runner:
        runner.run(work)


def loop_name() -> str:
    """The library of the running event loop: `uvloop` or `asyncio`."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]
