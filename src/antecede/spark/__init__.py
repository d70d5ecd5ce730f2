"""The pipeline: sweeps, their audit and metrics, as Spark jobs; topics as tables; causal order for streams and tables.

Names are loaded when they are first used, since most of this package is for commands that need little of it.
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.spark.causal.operator import causal_order
    from antecede.spark.causal.sorting import causal_sort
    from antecede.spark.topics.format import register
    from antecede.spark.watching.job import live_audit

__all__ = ["causal_order", "causal_sort", "live_audit", "register"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "causal.operator": ("causal_order",),
        "causal.sorting": ("causal_sort",),
        "topics.format": ("register",),
        "watching.job": ("live_audit",),
    },
    extra="spark",
)
