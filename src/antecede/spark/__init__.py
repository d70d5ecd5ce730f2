"""The pipeline: sweeps, their audit and metrics, as Spark jobs; topics as tables; causal order for streams and tables.

Names are loaded when they are first used, since most of this package is for commands that need little of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antecede.spark.causal.operator import causal_order
    from antecede.spark.causal.sorting import causal_sort
    from antecede.spark.topics.format import register
    from antecede.spark.watching.job import live_audit

_WHERE = {
    "causal_order": "causal.operator",
    "causal_sort": "causal.sorting",
    "live_audit": "watching.job",
    "register": "topics.format",
}

__all__ = ["causal_order", "causal_sort", "live_audit", "register"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'antecede.spark' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"antecede.spark.{_WHERE[name]}"), name)
    return value
