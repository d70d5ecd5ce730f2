"""Rule `no-invention`: every delivered message was published before, once, by its source.

Publish rows of one source on one topic count 1, 2, 3, …; a node publishes only in its own name; a message depends only
on messages that were published before it.
"""

from collections.abc import Iterator
from functools import partial

from antecede.audit import wording
from antecede.audit.reference.history import History, Take
from antecede.audit.reference.tally import Tally
from antecede.audit.report import MessageKey, RuleResult


def judge_no_invention(history: History, *, examples: int) -> RuleResult:
    """Checked: publish and deliver rows. Violations: the faults of these rows; a row may have several."""
    tally = Tally("no-invention", examples)
    highest: dict[tuple[str, int], int] = {}
    for take in history.takes():
        tally.checked += 1
        problems = _wrong_publication(history, take, highest) if take.published else _wrong_delivery(history, take)
        for problem, dependency in problems:
            tally.violation(partial(wording.invention, history.at(take), problem, dependency))
    return tally.result()


def _wrong_delivery(history: History, take: Take) -> Iterator[tuple[str, None]]:
    published = history.publication[take.message]
    if published is None:
        yield wording.never_published(), None
    elif published.row > take.row:
        yield wording.published_later(published.moment), None


def _wrong_publication(
    history: History, take: Take, highest: dict[tuple[str, int], int]
) -> Iterator[tuple[str, MessageKey | None]]:
    """What is wrong with a publish row, each in words, with the dependency that the words are about."""
    topic, source, seq = history.keys[take.message]
    if source != take.node:
        yield wording.in_another_name(source), None
    first = history.publication[take.message]
    assert first is not None  # this row, or one before it
    if first.row != take.row:
        yield wording.published_already(first.node, first.moment), None
        return
    last = highest.get((topic, source), 0)
    highest[topic, source] = max(last, seq)
    if seq != last + 1:
        yield wording.skipped_number((topic, source, last + 1)), None
    for number in history.deps[take.message]:
        there, dependency = history.publication[number], history.keys[number]
        if there is None or there.row >= take.row:
            yield wording.early_dependency(dependency, there.moment if there else None), dependency
