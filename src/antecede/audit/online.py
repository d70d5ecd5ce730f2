"""Judges one node's deliveries in its order, each when it comes, in bounded memory.

It uses what messages say of themselves: the sequence number of the source, and the immediate predecessors they name.
That finds a causal violation wherever the reference judge finds one, as long as the node delivers the messages in
between. If m came before m′ and is delivered after it, then somewhere on the chain from m to m′ a message is delivered
before one that it names. Rules that need several nodes, or the end of the run, are left to other judges.

    causal        a message that an earlier delivery named as its predecessor
    fifo          a message of a source after a later one of the same source
    exactly-once  a message for a second time
    complete      skipped sequence numbers of a source that have not come when the caller asks (`losses`), which it does
                  after each batch: a number that comes late breaks `fifo` and is no loss. Only if all topics are read
                  (`whole`), since under a topic filter a hole means nothing. The first message met of a source counts
                  as its beginning
    same-content  other contents than another node delivered under the same sequence numbers: each judge sums the
                  contents of a source in blocks of numbers, and `ContentComparison` compares the sums; only `whole`

At most `REMEMBERED_MAX` entries are kept of each of these: messages named and not yet seen, skipped numbers, and recent
numbers of each source (under a filter they tell a repetition from a message out of turn). The oldest are dropped first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

#: A message: (source, seq).
Name: TypeAlias = tuple[int, int]

REMEMBERED_MAX: Final = 10_000
#: Contents are summed over this many sequence numbers of a source: 1 to 64, 65 to 128, and so on.
BLOCK: Final = 64
_SUM_MASK: Final = (1 << 63) - 1
#: Of a wider hole only the last numbers are remembered.
_RECENT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation, at the delivery that shows it."""

    rule: str
    source: int
    seq: int
    position: int
    words: str
    #: The number of messages it is about.
    count: int = 1


class Contents(NamedTuple):
    """The contents of a source's messages from the first number of a block up to `last`, as one sum."""

    source: int
    last: int
    digest: int

    @property
    def first(self) -> int:
        return (self.last - 1) // BLOCK * BLOCK + 1


@dataclass(slots=True)
class OnlineState:
    """All that is remembered of a node, as plain values that the caller can store."""

    #: By source: the lowest and the highest sequence number delivered.
    lowest: dict[int, int] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)
    #: Messages named by a delivery and not seen: that delivery's source, number and position. In the order of naming.
    awaited: dict[Name, tuple[int, int, int]] = field(default_factory=dict)
    #: Skipped numbers (`whole`), with the position of the delivery that skipped them.
    skipped: dict[Name, int] = field(default_factory=dict)
    #: By source: recent numbers, ascending in the order of delivery (not `whole`).
    recent: dict[int, dict[int, None]] = field(default_factory=dict)
    #: By source: the last number summed and the sum of its block so far (`whole`).
    contents: dict[int, tuple[int, int]] = field(default_factory=dict)
    delivered: int = 0
    position: int = 0


class OnlineJudge:
    """Judges deliveries given in the order of their positions."""

    def __init__(
        self, node: str, *, whole: bool, state: OnlineState | None = None, awaited_max: int = REMEMBERED_MAX
    ) -> None:
        self._node, self._whole = node, whole
        self._awaited_max = awaited_max
        self.state = state or OnlineState()
        #: Blocks that were completed, for `ContentComparison`. The caller takes them out.
        self.blocks: list[Contents] = []
        #: Holes since `losses` was asked last: position, source, the first number skipped and the one delivered.
        self._holes: list[tuple[int, int, int, int]] = []
        #: Numbers that came out of turn since then.
        self._came: set[Name] = set()

    def take(
        self,
        position: int,
        source: int,
        seq: int,
        deps: Iterable[Name],
        digest: int = -1,
        *,
        aliases: Iterable[Name] = (),
    ) -> Sequence[Finding]:
        """Judge one more delivery. Returns its violations.

        `digest`: of its content; −1: unknown. `aliases`: further names by which earlier deliveries may have named it.
        """
        state = self.state
        if self._whole:
            self._sum_contents(source, seq, digest)
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
                self._skip(position, source, highest + 1, seq)
                self._holes.append((position, source, highest + 1, seq))
        else:
            found.append(self._behind(position, source, seq, highest))
        if not self._whole:
            self._remember(source, seq)
        if state.awaited:
            named_by = [state.awaited.pop(name, None) for name in ((source, seq), *aliases)]
            found += [self._overtaken(position, source, seq, one) for one in named_by if one is not None]
        for name in deps:
            if not self._has(*name):
                state.awaited.setdefault(name, (source, seq, position))
                if len(state.awaited) > self._awaited_max:
                    del state.awaited[next(iter(state.awaited))]
        return found

    def losses(self) -> list[Finding]:
        """The holes since the last call that are still open."""
        found: list[Finding] = []
        for position, source, first, delivered in self._holes:
            came = sorted(seq for one, seq in self._came if one == source and first <= seq < delivered)
            for begin, end in pairwise([first - 1, *came, delivered]):
                if begin + 1 < end:
                    found.append(self._lost(position, source, begin + 1, end, delivered))
        self._holes.clear()
        self._came.clear()
        return found

    def contents(self, source: int) -> Contents | None:
        """The contents of the source's latest block as far as it goes; None if they are not known."""
        known = self.state.contents.get(source)
        return None if known is None else Contents(source, *known)

    def _sum_contents(self, source: int, seq: int, digest: int) -> None:
        contents = self.state.contents
        last, total = contents.pop(source, (-1, 0))
        if (seq - 1) % BLOCK == 0:
            total = 0
        elif seq != last + 1:
            return  # numbers of this block are missing; the next block is summed again
        if digest < 0:
            return
        total = (total + digest * (2 * seq + 1)) & _SUM_MASK
        contents[source] = (seq, total)
        if seq % BLOCK == 0:
            self.blocks.append(Contents(source, seq, total))

    def _has(self, source: int, seq: int) -> bool:
        state = self.state
        return state.lowest.get(source, seq + 1) <= seq <= state.highest[source] and (source, seq) not in state.skipped

    def _skip(self, position: int, source: int, first: int, until: int) -> None:
        skipped = self.state.skipped
        for seq in range(max(first, until - _RECENT_MAX), until):
            skipped[source, seq] = position
        while len(skipped) > REMEMBERED_MAX:
            del skipped[next(iter(skipped))]

    def _lost(self, position: int, source: int, first: int, until: int, delivered: int) -> Finding:
        lost = f"{source}.{first}" if until == first + 1 else f"{source}.{first} to {source}.{until - 1}"
        words = f"{self._node} delivered {source}.{delivered} (position {position}) without {lost}"
        return Finding("complete", source, first, position, words, until - first)

    def _behind(self, position: int, source: int, seq: int, highest: int) -> Finding:
        state = self.state
        at = f"{self._node} delivered {source}.{seq} (position {position})"
        lowest = state.lowest[source]
        if seq < lowest:
            out_of_turn = True
            state.lowest[source] = seq
            if self._whole:
                self._skip(position, source, seq + 1, lowest)
        elif self._whole:
            out_of_turn = state.skipped.pop((source, seq), None) is not None
            if out_of_turn:
                self._came.add((source, seq))
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


class ContentComparison:
    """Compares what nodes delivered under the same sequence numbers. It remembers the latest `REMEMBERED_MAX` sums."""

    def __init__(self) -> None:
        #: By source and last number: the digest met first, and the node it was met at.
        self._known: dict[Name, tuple[int, str]] = {}

    def add(self, node: str, contents: Contents) -> str:
        """Compare with other nodes. Returns the violation of `same-content` in words, or ""."""
        name = contents.source, contents.last
        digest, other = self._known.setdefault(name, (contents.digest, node))
        if len(self._known) > REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        if digest == contents.digest:
            return ""
        source = contents.source
        return (
            f"{node} delivered other contents than {other} among {source}.{contents.first} to {source}.{contents.last}"
        )
