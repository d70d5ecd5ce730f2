"""What the judge says: a verdict for each rule, and for each violated one the first offence in words.

Rules of this file: no judging here, only saying. An example is complete in itself, so that whoever reads it needs no
second look at the trace: it names the nodes, the messages, the row numbers and the times.
"""

import enum
from dataclasses import dataclass
from typing import Any, TypeAlias

#: A message as the trace names it: (topic, source, seq).
MessageKey: TypeAlias = tuple[str, int, int]


class Verdict(enum.StrEnum):
    """As Maelstrom has it: true, false, or nothing to tell by."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One offence: as words for people, and as rows, nodes and messages for diagrams and tests."""

    words: str
    nodes: tuple[int, ...]
    messages: tuple[MessageKey, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """One rule's outcome. `example` is the first offence; `reason` says why nothing could be judged."""

    name: str
    checked: int
    violations: int = 0
    example: Example | None = None
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.violations:
            return Verdict.VIOLATED
        return Verdict.HELD if self.checked else Verdict.UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        example = self.example
        return {
            "rule": self.name,
            "verdict": self.verdict.value,
            "checked": self.checked,
            "violations": self.violations,
            "reason": self.reason,
            "example": None
            if example is None
            else {
                "words": example.words,
                "nodes": list(example.nodes),
                "messages": [list(message) for message in example.messages],
                "rows": list(example.rows),
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every rule's outcome, and how much there was to judge."""

    rules: tuple[RuleResult, ...]
    rows: int
    nodes: int
    messages: int
    deliveries: int
    #: Deliveries the protocol itself called out of order. Not judged for order, so their number belongs in sight.
    tagged: int

    @property
    def ok(self) -> bool:
        """No rule was violated. What is unknown was not violated: look at the verdicts when that matters."""
        return not self.violated

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.rules if rule.verdict is Verdict.VIOLATED)

    def rule(self, name: str) -> RuleResult:
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(f"no rule {name!r} was judged; judged were {', '.join(rule.name for rule in self.rules)}")

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "rows": self.rows,
            "nodes": self.nodes,
            "messages": self.messages,
            "deliveries": self.deliveries,
            "tagged": self.tagged,
            "rules": [rule.to_dict() for rule in self.rules],
        }

    def __str__(self) -> str:
        """A compact table, then a sentence for each rule that did not simply hold."""
        width = max([len("rule"), *(len(rule.name) for rule in self.rules)])
        lines = [
            f"messages {self.messages}, deliveries {self.deliveries}, nodes {self.nodes}, rows {self.rows}",
            f"{'rule':<{width}}  verdict   {'checked':>10}  {'violations':>10}",
        ]
        for rule in self.rules:
            lines.append(f"{rule.name:<{width}}  {rule.verdict:<8}  {rule.checked:>10}  {rule.violations:>10}")
        for rule in self.rules:
            if rule.example is not None:
                lines.append(f"{rule.name} violated: {rule.example.words}")
            elif rule.verdict is Verdict.UNKNOWN:
                lines.append(f"{rule.name} unknown: {rule.reason}")
        if self.tagged:
            lines.append(f"deliveries tagged out of order, and so not judged for order: {self.tagged}")
        return "\n".join(lines)
