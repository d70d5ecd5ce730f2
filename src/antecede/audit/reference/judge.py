"""Judges one run by its rows: rows in, report out."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from antecede.audit.reference.causal import judge_causal
from antecede.audit.reference.content import judge_same_content
from antecede.audit.reference.edges import judge_tree_edges_once
from antecede.audit.reference.history import History, read_history
from antecede.audit.reference.invention import judge_no_invention
from antecede.audit.reference.loss import judge_agreement, judge_complete
from antecede.audit.reference.per_source import judge_exactly_once, judge_fifo
from antecede.audit.reference.total import judge_total
from antecede.audit.report import Report, RuleResult
from antecede.audit.rules import ALL_RULES, DEFAULT_RULES, Question
from antecede.trace import Row

_JUDGES: Final[dict[str, Callable[[History, Question], RuleResult]]] = {
    "causal": lambda history, asked: judge_causal(history, across_topics=asked.across_topics, examples=asked.examples),
    "fifo": lambda history, asked: judge_fifo(history, examples=asked.examples),
    "exactly-once": lambda history, asked: judge_exactly_once(history, examples=asked.examples),
    "no-invention": lambda history, asked: judge_no_invention(history, examples=asked.examples),
    "same-content": lambda history, asked: judge_same_content(history, examples=asked.examples),
    "complete": lambda history, asked: judge_complete(
        history, broadcast_to=asked.broadcast_to, examples=asked.examples
    ),
    "agreement": lambda history, asked: judge_agreement(
        history, broadcast_to=asked.broadcast_to, examples=asked.examples
    ),
    "tree-edges-once": lambda history, asked: judge_tree_edges_once(history, examples=asked.examples),
    "total": lambda history, asked: judge_total(history, examples=asked.examples),
}


def audit(
    rows: Iterable[Row],
    *,
    across_topics: bool = True,
    rules: Collection[str] = DEFAULT_RULES,
    broadcast_to: Collection[int] = (),
    examples: int = 1,
) -> Report:
    """Judge one run by its rows, in the order in which things happened. The arguments are those of `Question`.

    A trace of more than `MESSAGES_MAX` messages raises `LimitError`: the causal rule needs up to M²/8 bytes for M
    messages. A trace that contradicts itself raises `UsageError`.
    """
    asked = Question(
        across_topics=across_topics, rules=tuple(rules), broadcast_to=tuple(broadcast_to), examples=examples
    )
    history = read_history(rows)
    return Report(
        rules=tuple(_JUDGES[rule](history, asked) for rule in ALL_RULES if rule in asked.rules),
        rows=history.rows,
        nodes=len(history.nodes),
        messages=sum(published is not None for published in history.publication),
        deliveries=history.deliveries,
        tagged=history.tagged,
    )
