"""A violation as a diagram marks it: what the judge's first example of a broken rule points at."""

from typing import NamedTuple

from antecede.audit import Example, Report
from antecede.report.scene import Key


class Violation(NamedTuple):
    """`rows` count from 0 in the trace as it was judged; all of it must be given to the diagram."""

    rule: str
    words: str
    nodes: tuple[int, ...]
    messages: tuple[Key, ...]
    rows: tuple[int, ...]


def violation_of(rule: str, example: Example) -> Violation:
    return Violation(rule, example.words, example.nodes, example.messages, example.rows)


def violations_of(report: Report) -> list[Violation]:
    return [violation_of(rule.name, rule.example) for rule in report.rules if rule.example is not None]
