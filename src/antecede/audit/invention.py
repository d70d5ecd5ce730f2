"""Rule `no-invention`: what is delivered was published before, by its source, under a number that is its own.

Publish rows of one source on one topic count 1, 2, 3, …; a node publishes only in its own name; and a message depends
only on messages that were there when it was published.
"""

from collections.abc import Iterator

from antecede.audit.history import History, Take
from antecede.audit.report import Example, RuleResult


def judge_no_invention(history: History) -> RuleResult:
    """Checked: publish and deliver rows. Violations: whatever is wrong with them, several to a row if need be."""
    checked = violations = 0
    example = None
    highest: dict[tuple[str, int], int] = {}
    for take in history.takes():
        checked += 1
        problems = _wrong_publication(history, take, highest) if take.published else _wrong_delivery(history, take)
        for words, messages in problems:
            violations += 1
            if example is None:
                keys = tuple(history.keys[message] for message in messages)
                example = Example(words=words, nodes=(take.node,), messages=keys, rows=(take.row,))
    return RuleResult(
        name="no-invention",
        checked=checked,
        violations=violations,
        example=example,
        reason="nothing was published or delivered",
    )


_Problems = Iterator[tuple[str, tuple[int, ...]]]


def _wrong_delivery(history: History, take: Take) -> _Problems:
    published = history.publication[take.message]
    what = f"node {take.node} delivered {history.name(take.message)} ({take.when})"
    if published is None:
        yield f"{what}, which was never published", (take.message,)
    elif published.row > take.row:
        yield f"{what} before it was published ({published.when})", (take.message,)


def _wrong_publication(history: History, take: Take, highest: dict[tuple[str, int], int]) -> _Problems:
    topic, source, seq = history.keys[take.message]
    what = f"node {take.node} published {history.name(take.message)} ({take.when})"
    if source != take.node:
        yield f"{what} in the name of node {source}", (take.message,)
    first = history.publication[take.message]
    assert first is not None  # this row, or one before it
    if first.row != take.row:
        yield f"{what}, which was already published ({first.when})", (take.message,)
        return
    last = highest.get((topic, source), 0)
    highest[topic, source] = max(last, seq)
    if seq != last + 1:
        yield f"{what} where {topic}/{source}.{last + 1} was due: numbers count from 1 without holes", (take.message,)
    for dependency in history.deps[take.message]:
        there = history.publication[dependency]
        if there is None or there.row >= take.row:
            state = "was never published" if there is None else f"was not yet published ({there.when})"
            yield f"{what} depending on {history.name(dependency)}, which {state}", (dependency, take.message)
