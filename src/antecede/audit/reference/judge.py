"""The one entrance: rows in, report out."""

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from antecede.audit.reference.causal import judge_causal
from antecede.audit.reference.edges import judge_tree_edges_once
from antecede.audit.reference.history import History, read_history
from antecede.audit.reference.invention import judge_no_invention
from antecede.audit.reference.loss import judge_agreement, judge_complete
from antecede.audit.reference.per_source import judge_exactly_once, judge_fifo
from antecede.audit.reference.total import judge_total
from antecede.audit.report import Report, RuleResult
from antecede.core.errors import UsageError
from antecede.trace import Row


class _Question(NamedTuple):
    """What is asked of a trace, beside the trace."""

    across_topics: bool
    broadcast_to: frozenset[int]


#: In the order in which a report lists them.
_JUDGES: Final[dict[str, Callable[[History, _Question], RuleResult]]] = {
    "causal": lambda history, asked: judge_causal(history, across_topics=asked.across_topics),
    "fifo": lambda history, asked: judge_fifo(history),
    "exactly-once": lambda history, asked: judge_exactly_once(history),
    "no-invention": lambda history, asked: judge_no_invention(history),
    "complete": lambda history, asked: judge_complete(history, broadcast_to=asked.broadcast_to),
    "agreement": lambda history, asked: judge_agreement(history, broadcast_to=asked.broadcast_to),
    "tree-edges-once": lambda history, asked: judge_tree_edges_once(history),
    "total": lambda history, asked: judge_total(history),
}

ALL_RULES: Final = tuple(_JUDGES)
#: Without `total`, which is only for protocols that promise it.
DEFAULT_RULES: Final = tuple(name for name in ALL_RULES if name != "total")


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
    for name in rules:
        if name not in _JUDGES:
            raise UsageError("rules", name, "there is no such rule", f"choose from {', '.join(ALL_RULES)}")
    history = read_history(rows)
    asked = _Question(across_topics, frozenset(broadcast_to))
    return Report(
        rules=tuple(judge(history, asked) for name, judge in _JUDGES.items() if name in rules),
        rows=history.rows,
        nodes=len(history.nodes),
        messages=sum(published is not None for published in history.publication),
        deliveries=history.deliveries,
        tagged=history.tagged,
    )
