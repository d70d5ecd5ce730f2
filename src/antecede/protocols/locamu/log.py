"""The log: messages that some neighbour may lack, and names of messages that this node lacks.

An `Entry` is a message with all its identifiers known here, the past it is forwarded with, and the nodes that have yet
to acknowledge it. It is dropped once it is *stable* (every node within a hop has it under every name known here) and
*complete* (all relays just before this node have numbered it, so no unknown name can come from them). A dropped message
is still recognised: a later copy names one of those relays, whose number for this node is in the column.

A relay may number a message, forward a later one, and fail before any node has the first. Nodes that hear of its number
must then know which message it denotes. So identifiers of unacknowledged messages travel as *records*. A record of a
message that is not in the log (any more) is a plain `Names`, kept until the nodes it concerns acknowledge.
"""

from collections.abc import Collection
from itertools import islice
from typing import Any, Final

from antecede.core import Message
from antecede.overlay.extended import Surroundings
from antecede.protocols.locamu.column import Column
from antecede.protocols.locamu.identifiers import LINK_BITS, Ids, Shared, receiver_of, sender_of
from antecede.protocols.locamu.identifiers import link as link_to
from antecede.protocols.locamu.packets import Columns
from antecede.protocols.locamu.records import Took

_NONE: Final[frozenset[int]] = frozenset()

#: What a node has acknowledged if it has said nothing.
_NOTHING: Final[tuple[int, Collection[int]]] = (0, _NONE)


class Names:
    """Identifiers that denote one message."""

    __slots__ = ("_told", "ids", "unacked")

    def __init__(self) -> None:
        #: Names are added at the end and never taken away.
        self.ids: Ids = {}
        #: Links to nodes within a hop that have not acknowledged it under that name.
        self.unacked: set[int] = set()
        #: By neighbour: the conversation; how many of `ids`, from the first on, were told to it or by it in that
        #: conversation; and further names that were. Mostly it knows them all, and no set is needed.
        self._told: dict[int, tuple[int, int, Collection[int]]] = {}

    def lacks(self, node: int) -> bool:
        """Is there a name of it for `node`, within a hop, that `node` has not acknowledged?"""
        return any(receiver_of(link) == node for link in self.unacked)

    def untold(self, node: int, talk: int) -> list[int]:
        """The links whose numbers `node` does not know from this conversation."""
        told = self._told.get(node)
        if told is None or told[0] != talk:
            return list(self.ids)
        _, first, more = told
        if first == len(self.ids):
            return []
        rest = list(islice(self.ids, first, None))
        return [link for link in rest if link not in more] if more else rest

    def tell(self, node: int, talk: int, links: Collection[int]) -> None:
        """Note that `node` was told these names, or told them."""
        told, more = self._told.get(node), set(links)
        first = 0
        if told is not None and told[0] == talk:
            first = told[1]
            more.update(told[2])
        ids: Shared = self.ids
        for link in islice(ids, first, None) if first else ids:
            if link not in more:
                break
            first += 1
        more.difference_update(islice(ids, first))
        self._told[node] = talk, first, more or _NONE

    def tell_all(self, node: int, talk: int) -> None:
        """Note that `node` was told all names, or told them."""
        told = self._told.get(node)
        further = told[2] if told is not None and told[0] == talk else _NONE
        if further:  # names that do not denote it here yet
            further = {link for link in further if link not in self.ids}
        self._told[node] = talk, len(self.ids), further

    def record(self, me: int, node: int, talk: int) -> Ids:
        """Return the names that `me` has not told `node`, with some that it knows, and count them as told.

        Empty: it knows all. Its own name for `me` is among the known ones, if there is one: `node` takes a record
        without it for a question.
        """
        new = self.untold(node, talk)
        if not new:
            return {}
        self.tell_all(node, talk)
        if len(new) == len(self.ids):
            return self.ids.copy()
        told = set(new)
        known = [link for link in self.ids if link not in told]
        own = link_to(node, me)
        told.update([link for link in known if receiver_of(link) == node or link == own] or [min(known)])
        ids: Shared = self.ids
        return {link: number for link, number in ids.items() if link in told}


class Entry(Names):
    """A message in the log."""

    __slots__ = ("alias", "numberers", "past", "path", "sent", "targets", "took")

    def __init__(self, took: Took, path: Ids, past: Ids, targets: frozenset[int]) -> None:
        super().__init__()
        #: The first copy.
        self.took = took
        #: Identifiers given on its path here, and in time by this node: it is forwarded with these. Never changed.
        self.path = path
        self.past = past
        #: Names that other copies have. Replaced, never changed: packets hold it.
        self.alias: Ids = {}
        #: The nodes that certainly processed it, since they numbered it.
        self.numberers = {sender_of(link) for link in path}
        #: The nodes to which this node forwards it.
        self.targets = targets
        #: By neighbour: the conversation in which it was sent.
        self.sent: dict[int, int] = {}

    @property
    def message(self) -> Message:
        return self.took.message


class Log:
    """Entries and foreign names by identifier, and what neighbours have acknowledged."""

    def __init__(self, around: Surroundings, column: Column) -> None:
        """`column`: what this node has processed."""
        self._around = around
        self._column = column
        self.near = frozenset(around.linked)
        #: Have members joined or left?
        self.unsettled = False
        #: In the order in which they were taken.
        self.entries: dict[Entry, None] = {}
        self.foreign: dict[Names, None] = {}
        # By identifier as one integer: entries, and foreign names.
        self._by_id: dict[int, Entry] = {}
        self._foreign_by_id: dict[int, Names] = {}
        #: By link: how far its receiver, within a hop, has processed its numbers. Reported anew in every incarnation.
        self._acked: dict[Any, tuple[int, Collection[int]]] = {}

    def find(self, ids: Ids) -> Entry | None:
        """The entry that one of these identifiers denotes."""
        by_id = self._by_id
        for link, number in ids.items():
            entry = by_id.get(number << LINK_BITS | link)
            if entry is not None:
                return entry
        return None

    def find_foreign(self, ids: Ids) -> list[Names]:
        """Foreign names that share an identifier with these."""
        by_id = self._foreign_by_id
        found: list[Names] = []
        if by_id:
            for link, number in ids.items():
                names = by_id.get(number << LINK_BITS | link)
                if names is not None and names not in found:
                    found.append(names)
        return found

    def acked(self, link: int, number: int) -> bool:
        """Has the receiver acknowledged the message with this identifier?"""
        reached, beyond = self._acked.get(link, _NOTHING)
        return number <= reached or number in beyond

    # -- growing ------------------------------------------------------------------------------------------------

    def add(self, entry: Entry, ids: Ids) -> None:
        self.entries[entry] = None
        self.learn(entry, ids)

    def new_foreign(self, ids: Ids) -> Names | None:
        """Store names of a message that is not here. None: all nodes concerned have acknowledged it."""
        unacked = self._lacking(ids)
        if not unacked:
            return None
        names = Names()
        names.ids.update(ids)
        names.unacked = unacked
        self._index(names, ids)
        self.foreign[names] = None
        return names

    def learn(self, names: Names, ids: Shared) -> Ids:
        """Add identifiers of a message. Returns those that are new."""
        new = {link: number for link, number in ids.items() if link not in names.ids}
        if new:
            names.ids.update(new)
            names.unacked |= self._lacking(new)
            self._index(names, new)
        return new

    def _lacking(self, ids: Shared) -> set[int]:
        """The links among these to nodes within a hop that have not acknowledged their numbers."""
        me, near, acked, column = self._around.me, self.near, self._acked, self._column
        found: set[int] = set()
        for link, number in ids.items():
            receiver = receiver_of(link)
            if receiver == me:
                if not column.has(link, number):
                    found.add(link)
            elif receiver in near:
                progress = acked.get(link)
                if progress is None or (number > progress[0] and number not in progress[1]):
                    found.add(link)
        return found

    def _index(self, names: Names, ids: Ids) -> None:
        if isinstance(names, Entry):
            by_id = self._by_id
            for link, number in ids.items():
                by_id[number << LINK_BITS | link] = names
        else:
            foreign = self._foreign_by_id
            for link, number in ids.items():
                foreign[number << LINK_BITS | link] = names

    # -- shrinking ----------------------------------------------------------------------------------------------

    def acknowledge(self, node: int, columns: Columns) -> list[Names]:
        """`node` reports its progress. Returns the messages that it has acknowledged under a further name."""
        acked = self._acked
        found: dict[Names, None] = {}
        for sender, (reached, beyond) in columns.items():
            link = link_to(sender, node)
            before, extra = acked.get(link, _NOTHING)
            further = frozenset([n for n in (*beyond, *extra) if n > reached]) if beyond or extra else _NONE
            acked[link] = max(before, reached), further
            if reached - before > 64:  # one of the two was away: search the log, not all numbers
                numbers = [names.ids[link] for names in (*self.entries, *self.foreign) if link in names.unacked]
                numbers = [number for number in numbers if number <= reached or number in beyond]
            else:
                numbers = [*range(before + 1, reached + 1), *beyond]
            for number in numbers:
                id_ = number << LINK_BITS | link
                for denoted in (self._by_id.get(id_), self._foreign_by_id.get(id_)):
                    if denoted is not None and link in denoted.unacked:
                        denoted.unacked.discard(link)
                        found[denoted] = None
        return list(found)

    def is_complete(self, entry: Entry) -> bool:
        """Have all relays just before this node numbered it?"""
        around, took = self._around, entry.took
        way = around.before(took.origin, around.me)
        return not self.silent(entry) and (took.whole or len(way) >= around.number)

    def silent(self, entry: Entry) -> set[int]:
        """The relays just before this node that have not numbered it, as far as is known.

        Where members join and leave, a relay beyond a hop may never number what others do. It suffices that one of the
        f + 1 numbers of a safe copy is of a relay within a hop.
        """
        around = self._around
        far = around.hop if self.unsettled else around.number
        return set(around.before(entry.took.origin, around.me)[-far:]) - entry.numberers

    def drop(self, names: Names) -> None:
        if isinstance(names, Entry):
            del self.entries[names]
        else:
            del self.foreign[names]
        self._unindex(names)

    def _unindex(self, names: Names) -> None:
        if isinstance(names, Entry):
            by_id = self._by_id
            for link, number in names.ids.items():
                by_id.pop(number << LINK_BITS | link, None)
        else:
            foreign = self._foreign_by_id
            for link, number in names.ids.items():
                foreign.pop(number << LINK_BITS | link, None)
