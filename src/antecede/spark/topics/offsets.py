"""Offsets of streaming queries, as Spark writes them into checkpoints.

A query that asks nodes has an offset for each partition: the cursor of a feed (`wire.cursors`), such as

    {"p0": "2:1045@0.310,1.7,2.728"}

It says by stream the last message up to it, which holds at every node that has the partition. In front is the node that
was read, and its position: the same node goes on from there.

A query that reads a journal has an offset of that node, `{"node": 0, "position": 1045}`. So had queries over nodes
before they could be continued elsewhere; such a checkpoint continues at its node.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antecede.core import UsageError
from antecede.spark.topics.frontiers import Frontier
from antecede.wire.cursors import cursor_text, parse_cursor


@dataclass(frozen=True)
class Mark:
    """How far a query is in one partition: the frontier, and where it is at the node that was read."""

    #: −1: no position is known.
    node: int
    position: int
    seen: Frontier

    def __str__(self) -> str:
        seen = {stream: seq for stream, seq in self.seen.items() if seq}
        text = cursor_text(max(0, self.node), 0, self.position, seen)
        return text if self.node >= 0 else f"0{text[text.index('@') :]}"


def position_offset(node: int, position: int) -> dict[str, Any]:
    return {"node": node, "position": position}


def to_offset(marks: Mapping[int, Mark]) -> dict[str, Any]:
    return {f"p{partition}": str(mark) for partition, mark in sorted(marks.items())}


def read_offset(offset: Mapping[str, Any]) -> dict[int, Mark] | tuple[int, int]:
    """By partition how far the query is; or the node and position of a query that reads one node."""
    if "node" in offset and "position" in offset:
        return int(offset["node"]), int(offset["position"])
    marks: dict[int, Mark] = {}
    for name, text in offset.items():
        cursor = parse_cursor(text) if re.fullmatch(r"p\d+", name) else None
        if cursor is None or cursor.seen is None:
            problem = "is not that of a query over topics"
            raise UsageError("checkpoint", f"{name}: {text}", problem, "begin with a new one, or read what it is for")
        marks[int(name.removeprefix("p"))] = Mark(cursor.node, cursor.position, cursor.seen)
    return marks
