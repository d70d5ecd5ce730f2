"""The judge while things happen: one node's deliveries in its order, each judged when it comes, in bounded memory.

It judges by what messages say of themselves: the source's number, and the immediate predecessors they name. That finds
a violation wherever the judge of whole traces finds one, as long as the node delivers what lies between: if m came
before m′ and is delivered after it, then somewhere along the chain from m to m′ a message is delivered before one that
it names. What needs several nodes, or the end of the run, is not its business.

    causal        something is delivered that an earlier delivery named as its predecessor
    fifo          a source's message behind a later one of the same source
    exactly-once  a message a second time
    complete      numbers of a source that were passed over; only where everything is read (`whole`), since with a topic
                  filter a hole says nothing. A source's first message met is its beginning here

Memory: `REMEMBERED_MAX` of each of: messages named and not yet seen, numbers passed over, and recent numbers of each
source (by which, under a filter, a second time is told from out of turn). The oldest are forgotten first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

#: A message: (source, seq).
Name: TypeAlias = tuple[int, int]

RULES: Final = ("causal", "fifo", "exactly-once", "complete")

REMEMBERED_MAX: Final = 10_000
#: Of a hole wider than this only the last numbers are remembered one by one.
_RECENT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """An offence, at the delivery that shows it."""

    rule: str
    source: int
    seq: int
    position: int
    words: str
    #: How many messages it is about.
    count: int = 1


@dataclass(slots=True)
class OnlineState:
    """All that is remembered of a node: plain values, to be stored by whoever runs the judge."""

    #: By source: the lowest and the highest number delivered.
    lowest: dict[int, int] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)
    #: Named by a delivery and not seen: by what, and where that stood. In the order in which they were named.
    awaited: dict[Name, tuple[int, int, int]] = field(default_factory=dict)
    #: Numbers passed over (`whole`), with the position at which they were.
    passed: dict[Name, int] = field(default_factory=dict)
    #: By source: recent numbers, ascending in the order of delivery (not `whole`).
    recent: dict[int, dict[int, None]] = field(default_factory=dict)
    delivered: int = 0
    position: int = 0


class OnlineJudge:
    """Feed it deliveries in the order of their positions."""

    def __init__(self, node: str, *, whole: bool, state: OnlineState | None = None) -> None:
        self._node, self._whole = node, whole
        self.state = state or OnlineState()

    def take(self, position: int, source: int, seq: int, deps: Iterable[Name]) -> Sequence[Finding]:
        """One more delivery; what is wrong with it."""
        state = self.state
        state.delivered += 1
        state.position = position
        highest = state.highest.get(source)
        found: list[Finding] = []
        if highest is None:
            state.lowest[source] = state.highest[source] = seq
        elif seq == highest + 1:
            state.highest[source] = seq
        elif seq > highest:
            state.highest[source] = seq
            if self._whole:
                self._pass_over(position, source, highest + 1, seq)
                found.append(self._lost(position, source, highest + 1, seq))
        else:
            found.append(self._behind(position, source, seq, highest))
        if not self._whole:
            self._remember(source, seq)
        if state.awaited:
            named_by = state.awaited.pop((source, seq), None)
            if named_by is not None:
                found.append(self._overtaken(position, source, seq, named_by))
        for name in deps:
            if not self._has(*name):
                state.awaited.setdefault(name, (source, seq, position))
                if len(state.awaited) > REMEMBERED_MAX:
                    del state.awaited[next(iter(state.awaited))]
        return found

    def _has(self, source: int, seq: int) -> bool:
        state = self.state
        return state.lowest.get(source, seq + 1) <= seq <= state.highest[source] and (source, seq) not in state.passed

    def _pass_over(self, position: int, source: int, first: int, until: int) -> None:
        passed = self.state.passed
        for seq in range(max(first, until - _RECENT_MAX), until):
            passed[source, seq] = position
        while len(passed) > REMEMBERED_MAX:
            del passed[next(iter(passed))]

    def _lost(self, position: int, source: int, first: int, until: int) -> Finding:
        lost = f"{source}.{first}" if until == first + 1 else f"{source}.{first} to {source}.{until - 1}"
        words = f"{self._node} delivered {source}.{until} (position {position}) without {lost}"
        return Finding("complete", source, first, position, words, until - first)

    def _behind(self, position: int, source: int, seq: int, highest: int) -> Finding:
        state = self.state
        at = f"{self._node} delivered {source}.{seq} (position {position})"
        lowest = state.lowest[source]
        if seq < lowest:
            out_of_turn = True
            state.lowest[source] = seq
            if self._whole:
                self._pass_over(position, source, seq + 1, lowest)
        elif self._whole:
            out_of_turn = state.passed.pop((source, seq), None) is not None
        else:
            out_of_turn = seq not in state.recent.get(source, ())
        if out_of_turn:
            return Finding("fifo", source, seq, position, f"{at} behind {source}.{highest} of the same source")
        return Finding("exactly-once", source, seq, position, f"{at} a second time")

    def _overtaken(self, position: int, source: int, seq: int, named_by: tuple[int, int, int]) -> Finding:
        by_source, by_seq, by_position = named_by
        words = (
            f"{self._node} delivered {by_source}.{by_seq} (position {by_position}) before {source}.{seq} "
            f"(position {position}), which it names as its predecessor"
        )
        return Finding("causal", source, seq, position, words)

    def _remember(self, source: int, seq: int) -> None:
        recent = self.state.recent.setdefault(source, {})
        recent[seq] = None
        if len(recent) > _RECENT_MAX:
            del recent[next(iter(recent))]
