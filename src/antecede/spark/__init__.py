"""Runs sweeps, audits and metrics as Spark jobs; reads and writes topics as tables; orders streams and tables causally.

    session, java, archive, ship     a session, on one machine or on a cluster
    sweep, task, plan, manifest      the runs of experiments as tasks; results in a sweep directory
    converting                       traces of what other systems record
    frames                           traces, and tables of other programs, as DataFrames
    verdicts, audit_task, measures   verdicts and figures of traces: `audit`, `metrics`
    topics/                          `format("antecede")`: a node's deliveries as a table, rows as messages
    causal/                          `causal_order` for streams, `causal_sort` for tables; what waits, what is left out
    watching/                        `live_audit`: the online judge over running nodes

Names are loaded when they are first used. Every use needs the extra `antecede[spark]`.
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.spark.causal.dead import dead_letters
    from antecede.spark.causal.operator import causal_order
    from antecede.spark.causal.sorting import causal_sort
    from antecede.spark.causal.waiting import waiting_rows
    from antecede.spark.converting import trace_from_messages, trace_from_spans
    from antecede.spark.measures import metrics
    from antecede.spark.topics.format import register
    from antecede.spark.verdicts import audit
    from antecede.spark.watching.job import live_audit

__all__ = [
    "audit",
    "causal_order",
    "causal_sort",
    "dead_letters",
    "live_audit",
    "metrics",
    "register",
    "trace_from_messages",
    "trace_from_spans",
    "waiting_rows",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "causal.dead": ("dead_letters",),
        "causal.operator": ("causal_order",),
        "causal.sorting": ("causal_sort",),
        "converting": ("trace_from_messages", "trace_from_spans"),
        "measures": ("metrics",),
        "causal.waiting": ("waiting_rows",),
        "topics.format": ("register",),
        "verdicts": ("audit",),
        "watching.job": ("live_audit",),
    },
    extra="spark",
)
