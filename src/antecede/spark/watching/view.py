"""Keeps what a watcher knows so far: totals, the state of nodes and topics, and which node is behind which.

It is fed with the rows of `live_audit`, batch by batch, and asked from time to time. Rule `agreement`: if one node has
delivered a message of a source, every other node delivers it within `patience_s`. A node that is late is reported once
for each source until it has caught up. The number of topics shown is bounded; counts are kept for all.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from antecede.audit.online import ContentComparison, Contents
from antecede.core.caches import BoundedCache

#: The number of topics, and of reported blocks, that are remembered.
_TOPICS_MAX: Final = 1_000
#: How often, within the patience, the highest number of a source is noted. Lateness is known this exactly.
_NOTES: Final = 16


@dataclass(slots=True)
class TopicView:
    """One topic at one node: in all, and in the last batch that had any."""

    messages: int = 0
    lag_ms_median: float = 0.0
    lag_ms_p99: float = 0.0
    lag_ms_max: float = 0.0
    held: int = 0
    hold_ms_max: float = 0.0


@dataclass(slots=True)
class _Front:
    """The highest number of a source at any node; earlier ones as (time, number); the number due at every node."""

    seq: int = 0
    due: int = 0
    due_s: float = 0.0
    notes: list[tuple[float, int]] = field(default_factory=list)


class View:
    """`nodes`: all watched nodes, also those that deliver nothing."""

    def __init__(self, nodes: Iterable[str], *, patience_s: float) -> None:
        self.nodes = tuple(nodes)
        self.patience_s = patience_s
        #: The number of violations by rule.
        self.violations: dict[str, int] = {}
        self.topics: BoundedCache[tuple[str, str], TopicView] = BoundedCache(_TOPICS_MAX)
        self.delivered: dict[str, int] = dict.fromkeys(self.nodes, 0)
        self._at: dict[str, dict[int, int]] = {node: {} for node in self.nodes}
        self._fronts: dict[int, _Front] = {}
        self._began_s = float("inf")
        self._told: set[tuple[str, int]] = set()
        self._contents = ContentComparison()
        #: Blocks of sequence numbers, by node and source, whose contents were reported to differ; the latest ones.
        self._told_contents: dict[tuple[str, int, int], None] = {}

    @property
    def ok(self) -> bool:
        return not self.violations

    def take(self, rows: Iterable[dict[str, Any]], now_s: float) -> list[dict[str, Any]]:
        """Take the rows of a batch. Returns the violations to report, with those that follow from them."""
        told = []
        for row in rows:
            if row["kind"] == "violation":
                self.violations[row["rule"]] = self.violations.get(row["rule"], 0) + row["messages"]
                told.append(row)
            elif row["kind"] == "topic":
                self._topic(row)
            elif row["kind"] == "content":
                told += self._compare(row)
            else:
                self._source(row["node"], row["source"], row["seq"])
        return told + self.look(now_s)

    def look(self, now_s: float) -> list[dict[str, Any]]:
        """Report the nodes that have been behind for too long."""
        self._began_s = min(self._began_s, now_s)
        told = []
        for source, front in self._fronts.items():
            self._note(front, now_s)
            for node in self.nodes:
                here = self._at[node].get(source, 0)
                # A node that delivered nothing of a source since the watch began may have done so before.
                unsure = not here and front.due_s < self._began_s + self.patience_s
                if here >= front.due or unsure:
                    self._told.discard((node, source))
                elif (node, source) not in self._told:
                    self._told.add((node, source))
                    told.append(self._behind(node, source, here, front.due))
        return told

    def _compare(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        """Compare the contents that a node delivered with those of other nodes; report a block once."""
        contents = Contents(row["source"], row["seq"], row["digest"])
        words = self._contents.add(row["node"], contents)
        block = row["node"], contents.source, contents.first
        if not words or block in self._told_contents:
            return []
        self._told_contents[block] = None
        while len(self._told_contents) > _TOPICS_MAX:
            del self._told_contents[next(iter(self._told_contents))]
        self.violations["same-content"] = self.violations.get("same-content", 0) + 1
        return [self._violation(row["node"], "same-content", contents.source, contents.last, words)]

    def _note(self, front: _Front, now_s: float) -> None:
        notes = front.notes
        noted_s, noted = notes[-1] if notes else (float("-inf"), front.due)
        if front.seq > noted and now_s - noted_s >= self.patience_s / _NOTES:
            notes.append((now_s, front.seq))
        while notes and notes[0][0] <= now_s - self.patience_s:
            front.due_s, front.due = notes.pop(0)

    def behind(self, node: str) -> int:
        """The number of messages that other nodes have and this one lacks, by sequence numbers."""
        at = self._at[node]
        return sum(max(0, front.seq - at.get(source, front.seq)) for source, front in self._fronts.items())

    def _behind(self, node: str, source: int, here: int, due: int) -> dict[str, Any]:
        self.violations["agreement"] = self.violations.get("agreement", 0) + 1
        ahead = next(other for other in self.nodes if self._at[other].get(source, 0) >= due)
        words = (
            f"{node} has delivered nothing of source {source} after {source}.{here}, {ahead} delivered "
            f"{source}.{due} more than {self.patience_s:g} s ago"
        )
        return self._violation(node, "agreement", source, due, words)

    @staticmethod
    def _violation(node: str, rule: str, source: int, seq: int, words: str) -> dict[str, Any]:
        return {"kind": "violation", "node": node, "rule": rule, "source": source, "seq": seq, "words": words}

    def _topic(self, row: dict[str, Any]) -> None:
        view = self.topics.get((row["node"], row["topic"])) or TopicView()
        self.topics[row["node"], row["topic"]] = view  # the latest topic last
        self.delivered[row["node"]] += row["messages"]
        view.messages += row["messages"]
        view.held += row["held"]
        view.lag_ms_median, view.lag_ms_p99 = row["lag_ms_median"], row["lag_ms_p99"]
        view.lag_ms_max = max(view.lag_ms_max, row["lag_ms_max"])
        view.hold_ms_max = max(view.hold_ms_max, row["hold_ms_max"])

    def _source(self, node: str, source: int, seq: int) -> None:
        at = self._at[node]
        at[source] = max(seq, at.get(source, 0))
        front = self._fronts.setdefault(source, _Front())
        front.seq = max(front.seq, seq)
