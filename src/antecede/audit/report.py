"""Defines the judges' answers: a verdict for each rule, and the first violation of each violated rule as an example."""

import enum
from dataclasses import dataclass
from typing import Any, TypeAlias

#: A message as the trace names it: (topic, source, seq).
MessageKey: TypeAlias = tuple[str, int, int]


class Verdict(enum.StrEnum):
    """Held, violated, or unknown if there is nothing to judge by."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One violation: in words for people, and as rows, nodes and messages for diagrams and tests."""

    words: str
    nodes: tuple[int, ...]
    messages: tuple[MessageKey, ...]
    rows: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "nodes": list(self.nodes),
            "messages": [list(message) for message in self.messages],
            "rows": list(self.rows),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The outcome of one rule. `example` is the first violation; `reason` says why nothing could be judged.

    `more`: the violations after the first, as many as the caller asked for.
    """

    name: str
    checked: int
    violations: int = 0
    example: Example | None = None
    reason: str = ""
    more: tuple[Example, ...] = ()

    @property
    def examples(self) -> tuple[Example, ...]:
        """Every violation that was kept, in the order in which they happened."""
        return (self.example, *self.more) if self.example is not None else ()

    @property
    def verdict(self) -> Verdict:
        if self.violations:
            return Verdict.VIOLATED
        return Verdict.HELD if self.checked else Verdict.UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.name,
            "verdict": self.verdict.value,
            "checked": self.checked,
            "violations": self.violations,
            "reason": self.reason,
            "example": None if self.example is None else self.example.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of every rule, and how much there was to judge."""

    rules: tuple[RuleResult, ...]
    rows: int
    nodes: int
    messages: int
    deliveries: int
    #: Deliveries that the protocol tagged out of order. They are not judged for order, so a report shows their number.
    tagged: int

    @property
    def ok(self) -> bool:
        """Whether no rule was violated. An unknown rule was not violated; look at the verdicts if that matters."""
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
        """A compact table, then a sentence for each rule that was violated or unknown."""
        width = max([len("rule"), *(len(rule.name) for rule in self.rules)])
        lines = [
            f"messages {self.messages}, deliveries {self.deliveries}, nodes {self.nodes}, rows {self.rows}",
            f"{'rule':<{width}}  verdict   {'checked':>10}  {'violations':>10}",
        ]
        for rule in self.rules:
            lines.append(f"{rule.name:<{width}}  {rule.verdict:<8}  {rule.checked:>10}  {rule.violations:>10}")
        for rule in self.rules:
            lines += [f"{rule.name} violated: {example.words}" for example in rule.examples]
            if rule.verdict is Verdict.UNKNOWN:
                lines.append(f"{rule.name} unknown: {rule.reason}")
        if self.tagged:
            lines.append(f"deliveries tagged out of order, and so not judged for order: {self.tagged}")
        return "\n".join(lines)
