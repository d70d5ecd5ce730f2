"""Python's collector of cycles, out of the way of tasks that make objects by the hundred thousand and no cycles."""

import gc
from functools import cache


@cache
def freeze_once() -> None:
    """Spark's worker collects garbage after every task; without what was there before, that takes a quarter as long."""
    gc.collect()
    gc.freeze()
