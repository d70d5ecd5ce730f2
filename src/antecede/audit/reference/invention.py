"""Rule `no-invention`: what is delivered was published before, by its source, under a number that is its own.

Publish rows of one source on one topic count 1, 2, 3, …; a node publishes only in its own name; and a message depends
only on messages that were there when it was published.
"""

from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

from antecede.audit.reference.history import History, Take
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult

#: What is wrong with a row, in words, and the messages those words are about.
_Problem: TypeAlias = tuple[str, tuple[int, ...]]


def judge_no_invention(history: History) -> RuleResult:
    """Checked: publish and deliver rows. Violations: whatever is wrong with them, several to a row if need be."""
    tally = Tally("no-invention")
    highest: dict[tuple[str, int], int] = {}
    for take in history.takes():
        tally.checked += 1
        problems = _wrong_publication(history, take, highest) if take.published else _wrong_delivery(history, take)
        for problem in problems:
            tally.offence(partial(_example, history, take, problem))
    return tally.result(if_nothing="nothing was published or delivered")


def _wrong_delivery(history: History, take: Take) -> Iterator[_Problem]:
    published = history.publication[take.message]
    if published is None:
        yield "which was never published", (take.message,)
    elif published.row > take.row:
        yield f"which was published only later ({published.when})", (take.message,)


def _wrong_publication(history: History, take: Take, highest: dict[tuple[str, int], int]) -> Iterator[_Problem]:
    topic, source, seq = history.keys[take.message]
    if source != take.node:
        yield f"in the name of node {source}", (take.message,)
    first = history.publication[take.message]
    assert first is not None  # this row, or one before it
    if first.row != take.row:
        yield f"which was already published by node {first.node} ({first.when})", (take.message,)
        return
    last = highest.get((topic, source), 0)
    highest[topic, source] = max(last, seq)
    if seq != last + 1:
        yield f"where {topic}/{source}.{last + 1} was due: numbers count from 1 without holes", (take.message,)
    for dependency in history.deps[take.message]:
        there = history.publication[dependency]
        if there is None or there.row >= take.row:
            state = "was never published" if there is None else f"was not published before ({there.when})"
            yield f"depending on {history.name(dependency)}, which {state}", (dependency, take.message)


def _example(history: History, take: Take, problem: _Problem) -> Example:
    words, messages = problem
    verb = "published" if take.published else "delivered"
    return Example(
        words=f"node {take.node} {verb} {history.name(take.message)} ({take.when}), {words}",
        nodes=(take.node,),
        messages=tuple(history.keys[message] for message in messages),
        rows=(take.row,),
    )
