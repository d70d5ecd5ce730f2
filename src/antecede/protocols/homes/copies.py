"""Counts the copies of what a node published in one partition.

A member acknowledges how far it has delivered. Messages at or below its *floor* predate its join: it counts them as
delivered, and may have none of them. So they are no copies until the member, as a home, has fetched them. The
publisher asks it (`kept_at`).
"""

from collections.abc import Collection, Iterable

from antecede.protocols.homes.records import PAGE_BYTES, Ask, ReadStream, Steps, StreamPage


class Copies:
    """What peers keep of one node's messages in one partition."""

    __slots__ = ("_fetched", "_floors", "reached")

    def __init__(self) -> None:
        #: By peer: how far it has delivered, as it has said.
        self.reached: dict[int, int] = {}
        self._floors: dict[int, int] = {}
        #: Peers and messages that they have fetched.
        self._fetched: set[tuple[int, int]] = set()

    def note(self, peer: int, seq: int, floor: int) -> bool:
        """`peer` has delivered up to `seq`, and joined behind `floor`. Returns whether that is news."""
        news = seq > self.reached.get(peer, 0) or floor > self._floors.get(peer, 0)
        self.reached[peer] = max(seq, self.reached.get(peer, 0))
        self._floors[peer] = max(floor, self._floors.get(peer, 0))
        return news

    def confirm(self, peer: int, seqs: Iterable[int]) -> None:
        """`peer` has these messages, wherever its floor is."""
        self._fetched |= {(peer, seq) for seq in seqs}

    def tidy(self) -> None:
        """No publication waits that predates the join of a peer."""
        self._fetched.clear()

    def forget(self, peer: int) -> bool:
        """`peer` is gone for good. Returns whether it had copies."""
        self._floors.pop(peer, None)
        self._fetched = {one for one in self._fetched if one[0] != peer}
        return self.reached.pop(peer, None) is not None

    def keeps(self, peer: int, seq: int) -> bool:
        """Does `peer` keep this message?"""
        return self._floors.get(peer, 0) < seq <= self.reached.get(peer, 0) or (peer, seq) in self._fetched

    def may_keep(self, peer: int, seqs: Iterable[int]) -> list[int]:
        """Those of these messages that predate the join of `peer`, and that it may have fetched."""
        floor = self._floors.get(peer, 0)
        return [seq for seq in seqs if seq <= floor and (peer, seq) not in self._fetched]


def kept_at(home: int, name: str, source: int, seqs: Collection[int]) -> Steps[set[int]]:
    """Ask a home which of these messages of a source it has, in the partition called `name`."""
    found: set[int] = set()
    rest = sorted(seqs)
    while rest:
        page = yield Ask(home, ReadStream(0, name, source, rest[0], rest[-1], PAGE_BYTES))
        if not isinstance(page, StreamPage):
            break
        found |= {message.seq for message in page.messages}
        rest = [seq for seq in rest if seq > max(rest[0], page.reached)]
    return found.intersection(seqs)
