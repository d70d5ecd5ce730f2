"""Runs sweeps, audits and metrics as Spark jobs; reads and writes topics as tables; orders streams and tables causally.

    session, java, archive, ship     a session, on one machine or on a cluster
    sweep, task, plan, manifest      the runs of experiments as tasks; results in a sweep directory
    frames                           traces, and tables of other programs, as DataFrames
    verdicts, audit_task, measures   verdicts and figures of traces: `audit`, `metrics`
    topics/                          `format("antecede")`: a node's deliveries as a table, rows as messages
    causal/                          `causal_order` for streams, `causal_sort` for tables
    watching/                        `live_audit`: the online judge over running nodes

Names are loaded when they are first used. Every use needs the extra `antecede[spark]`.
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.spark.causal.operator import causal_order
    from antecede.spark.causal.sorting import causal_sort
    from antecede.spark.measures import metrics
    from antecede.spark.topics.format import register
    from antecede.spark.verdicts import audit
    from antecede.spark.watching.job import live_audit

__all__ = ["audit", "causal_order", "causal_sort", "live_audit", "metrics", "register"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "causal.operator": ("causal_order",),
        "causal.sorting": ("causal_sort",),
        "measures": ("metrics",),
        "topics.format": ("register",),
        "verdicts": ("audit",),
        "watching.job": ("live_audit",),
    },
    extra="spark",
)
