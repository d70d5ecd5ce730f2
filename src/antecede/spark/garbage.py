"""Python's collector of cycles, out of the way of tasks that make objects by the hundred thousand and no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@cache
def freeze_once() -> None:
    """Spark's worker collects garbage after every task; without what was there before, that takes a quarter as long."""
    gc.collect()
    gc.freeze()


@contextmanager
def no_collector() -> Iterator[None]:
    """Without looking for cycles, which would be found in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
