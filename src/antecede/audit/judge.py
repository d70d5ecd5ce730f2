"""The one entrance: rows in, report out."""

from collections.abc import Collection, Iterable
from typing import Final

from antecede.audit.causal import judge_causal
from antecede.audit.edges import judge_tree_edges_once
from antecede.audit.history import History, read_history
from antecede.audit.invention import judge_no_invention
from antecede.audit.loss import judge_agreement, judge_complete
from antecede.audit.per_source import judge_exactly_once, judge_fifo
from antecede.audit.report import Report, RuleResult
from antecede.audit.total import judge_total
from antecede.core.errors import UsageError
from antecede.trace import Row

DEFAULT_RULES: Final = (
    "causal",
    "fifo",
    "exactly-once",
    "no-invention",
    "complete",
    "agreement",
    "tree-edges-once",
)
#: `total` only for protocols that promise it.
ALL_RULES: Final = (*DEFAULT_RULES, "total")


def audit(
    rows: Iterable[Row],
    *,
    across_topics: bool = True,
    rules: Collection[str] = DEFAULT_RULES,
    broadcast_to: Collection[int] = (),
) -> Report:
    """Judge one run by its rows, in the order in which things happened.

    `across_topics`: causal order holds over all topics; false where a protocol promises it within each topic only.
    `rules`: which to judge, of `ALL_RULES`.
    `broadcast_to`: the nodes owed every message from the start, for broadcasts, which have no subscribe rows.

    Memory: M²/8 bytes at most for M messages, for the causal rule. More than `MESSAGES_MAX` raise `LimitError`; a
    trace that contradicts itself raises `UsageError`.
    """
    unknown = [name for name in rules if name not in ALL_RULES]
    if unknown:
        raise UsageError("rules", unknown[0], "there is no such rule", f"choose from {', '.join(ALL_RULES)}")
    history = read_history(rows)
    return Report(
        rules=tuple(_judge(name, history, across_topics, broadcast_to) for name in ALL_RULES if name in rules),
        rows=history.rows,
        nodes=len(history.nodes),
        messages=len(history.keys),
        deliveries=history.deliveries,
        tagged=history.tagged,
    )


def _judge(name: str, history: History, across_topics: bool, broadcast_to: Collection[int]) -> RuleResult:
    match name:
        case "causal":
            return judge_causal(history, across_topics=across_topics)
        case "fifo":
            return judge_fifo(history)
        case "exactly-once":
            return judge_exactly_once(history)
        case "no-invention":
            return judge_no_invention(history)
        case "complete":
            return judge_complete(history, broadcast_to=broadcast_to)
        case "agreement":
            return judge_agreement(history, broadcast_to=broadcast_to)
        case "tree-edges-once":
            return judge_tree_edges_once(history)
        case "total":
            return judge_total(history)
    raise AssertionError(f"rule {name} is listed and not judged")
