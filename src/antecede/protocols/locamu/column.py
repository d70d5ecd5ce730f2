"""A node's own column: the numbers of others that it has processed, and the copies that wait for more of them.

This is what remains of the paper's matrix R of received identifiers (III-I) after garbage collection: for every sender
nearby all numbers up to one, and a few beyond it. It is also LoCaMu's gate (docs/architecture.md, The gate): the
counters are the links to this node, and a copy waits until its sender's past, as far as it concerns this node, has been
processed here.

A copy is freed when the column reaches what it needs, or when one of its identifiers becomes known. In the second case
it is a duplicate, and duplicates never wait: one that waited for a failed node would withhold its names from others.
"""

from collections.abc import Iterable
from typing import Any

from antecede.core.gate import Counters
from antecede.protocols.locamu.identifiers import Id, Ids, Shared, link
from antecede.protocols.locamu.packets import Data, Progress


class Held:
    """A copy that waits."""

    __slots__ = ("data", "free", "sender")

    def __init__(self, sender: int, data: Data) -> None:
        self.sender = sender
        self.data = data
        self.free = False


class Column:
    """The numbers processed here, by sender."""

    def __init__(self, me: int, senders: Iterable[int]) -> None:
        self._me = me
        self._links: Shared = {link(sender, me): sender for sender in senders if sender != me}
        self._reached: Counters[Held] = Counters()
        self._held: dict[Id, list[Held]] = {}
        #: Copies to be processed now.
        self.freed: list[Held] = []
        #: Senders whose numbers were processed since the last acknowledgement.
        self.moved: set[int] = set()
        #: How many copies wait.
        self.waiting = 0

    def has(self, link: int, number: int) -> bool:
        """Is this an identifier for this node, and processed?"""
        sender = self._links.get(link)
        return sender is not None and self._reached.has(sender, number)

    def has_any(self, ids: Shared) -> bool:
        """Is one of these an identifier for this node, and processed?"""
        links = self._links
        return any(at in links and self.has(at, number) for at, number in ids.items())

    def note_all(self, ids: Shared) -> bool:
        """Mark the numbers for this node among these as processed. True if one of them is new."""
        links, news = self._links, False
        for at, number in ids.items():
            if at in links and self.note(at, number):
                news = True
        return news

    def note(self, link: int, number: int) -> bool:
        """Mark a number for this node as processed. True if that is new."""
        sender = self._links.get(link)
        if sender is None or self._reached.has(sender, number):
            return False
        self.moved.add(sender)
        for held in self._reached.add(sender, number):
            self._free(held)
        self.known(link, number)
        return True

    def needs(self, past: Shared) -> list[tuple[int, int]]:
        """The numbers that `past` says this node should have processed, and has not."""
        level = self._reached.level
        links = self._links
        return [(links[at], n) for at, n in past.items() if at in links and n > level.get(links[at], 0)]

    def hold(self, sender: int, data: Data, needs: Iterable[tuple[int, int]]) -> bool:
        """Hold a copy. False: an equal one is held already."""
        ids = [*data.path.items(), *data.alias.items()]
        for held in self._held.get(ids[0], ()):
            other = held.data
            if other.path == data.path and other.alias == data.alias and other.past == data.past:
                return False
        held = Held(sender, data)
        self._reached.wait(held, needs)
        for id_ in ids:
            self._held.setdefault(id_, []).append(held)
        self.waiting += 1
        return True

    def known(self, link: int, number: int) -> None:
        """This identifier denotes a processed message: free the copies that have it."""
        if self._held:
            for held in self._held.get((link, number), ()):
                self._free(held)

    def all_known(self, ids: Ids) -> None:
        """These identifiers denote a processed message."""
        if self._held:
            for at, number in ids.items():
                self.known(at, number)

    def release(self, held: Held) -> None:
        """Remove a freed copy."""
        self.waiting -= 1
        for id_ in (*held.data.path.items(), *held.data.alias.items()):
            others = self._held.get(id_)
            if others is not None:
                others.remove(held)
                if not others:
                    del self._held[id_]

    def progress(self, sender: int) -> Progress:
        return self._reached.level.get(sender, 0), tuple(sorted(self._reached.beyond.get(sender, ())))

    def all_progress(self) -> dict[int, Progress]:
        """The progress of every sender known."""
        senders: set[Any] = {*self._reached.level, *self._reached.beyond}
        return {sender: self.progress(sender) for sender in senders}

    def begin(self, sender: int, progress: Progress) -> None:
        """Start from kept progress."""
        reached, beyond = progress
        self._reached.raise_to(sender, reached)
        if beyond:
            self._reached.beyond[sender] = set(beyond)

    def missing(self) -> dict[int, int]:
        """By sender: the highest number that a copy waits for."""
        return {sender: n for sender, n in self._reached.missing().items() if isinstance(sender, int)}

    @property
    def held(self) -> list[Held]:
        return list({id(held): held for some in self._held.values() for held in some if not held.free}.values())

    @property
    def counters(self) -> int:
        """How many numbers are stored."""
        return len(self._reached.level) + sum(map(len, self._reached.beyond.values()))

    def _free(self, held: Held) -> None:
        if not held.free:
            held.free = True
            self.freed.append(held)
