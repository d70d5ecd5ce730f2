"""What one node of the search remembers as a home of partitions: on its disk, and in memory."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from antecede.core import Message
from antecede.protocols.homes.copies import Copies
from antecede.protocols.homes.duties import Duties

#: Messages of an answer.
PAGE: Final = 4

#: What a roster says of a slot: its epoch, and the state of the owner in it. The highest holds.
Entry: TypeAlias = tuple[int, int]
ABSENT, PRESENT, LEFT = range(3)


class Gap(NamedTuple):
    """Messages that a node did not deliver: they predate its join."""

    topic: str
    source: int
    first: int
    last: int


class Directory:
    """What is on the disk of a node."""

    def __init__(self, roster: Mapping[int, Entry]) -> None:
        self.roster = dict(roster)
        #: By topic and source: what it delivered or fetched, by sequence number.
        self.stored: defaultdict[tuple[str, int], dict[int, Message]] = defaultdict(dict)
        self.gaps: list[Gap] = []

    def holds(self, topic: str, source: int, seq: int) -> bool:
        return seq in self.stored[topic, source]

    def read(self, topic: str, source: int, first: int, last: int) -> list[Message]:
        stream = self.stored[topic, source]
        return [stream[seq] for seq in sorted(stream) if first <= seq <= last][:PAGE]


class Memory:
    """What a node forgets when it crashes."""

    def __init__(self, node: int, replicas: int, leaving_for: float) -> None:
        self.duties = Duties(node, replicas, leaving_for)
        #: Topics that its clients read.
        self.feeds: set[str] = set()
        #: Gaps whose messages it has, or that no node has.
        self.filled: set[Gap] = set()
        #: Procedures under way.
        self.busy: set[object] = set()
        #: By topic: what peers keep of this node's publications, and publications that wait for copies.
        self.copies: defaultdict[str, Copies] = defaultdict(Copies)
        self.waiting: defaultdict[str, list[Message]] = defaultdict(list)
        #: It is about to leave the cluster; and it has handed over.
        self.leaves = self.handed_over = False
