"""The log: messages that some neighbour may lack, and names of messages that this node lacks.

An `Entry` is a message with all its identifiers known here, the past it is forwarded with, and the nodes that have yet
to acknowledge it. It is dropped once it is *stable* (every node within a hop has it under every name known here) and
*complete* (all relays just before this node have numbered it, so no unknown name can come from them). A dropped message
is still recognised: a later copy names one of those relays, whose number for this node is in the column.

A relay may number a message, forward a later one, and fail before any node has the first. Nodes that hear of its number
must then know which message it denotes. So identifiers of unacknowledged messages travel as *records*. A record of a
message that is not in the log (any more) is a plain `Names`, kept until the nodes it concerns acknowledge.
"""

from collections.abc import Callable, Iterable

from antecede.core import Message
from antecede.overlay.extended import Surroundings
from antecede.protocols.locamu.identifiers import Id, Ids, receiver_of, sender_of
from antecede.protocols.locamu.identifiers import link as link_to
from antecede.protocols.locamu.packets import Columns
from antecede.protocols.locamu.records import Took


class Names:
    """Identifiers that denote one message."""

    __slots__ = ("_told", "ids", "unacked")

    def __init__(self) -> None:
        self.ids: Ids = {}
        #: Links to nodes within a hop that have not acknowledged it under that name.
        self.unacked: set[int] = set()
        #: By neighbour: the conversation, and the names told to it or by it in that conversation.
        self._told: dict[int, tuple[int, set[int]]] = {}

    def lacks(self, node: int) -> bool:
        """Is there a name of it for `node`, within a hop, that `node` has not acknowledged?"""
        return any(receiver_of(link) == node for link in self.unacked)

    def untold(self, node: int, talk: int) -> list[int]:
        """The links whose numbers `node` does not know from this conversation."""
        number, known = self._told.get(node, (talk, ()))
        return [link for link in self.ids if link not in known] if number == talk else list(self.ids)

    def tell(self, node: int, talk: int, links: Iterable[int]) -> None:
        """Note that `node` was told these names, or told them."""
        number, known = self._told.get(node, (talk, set()))
        if number != talk:
            known = set()
        known.update(links)
        self._told[node] = talk, known

    def record(self, me: int, node: int, talk: int) -> Ids:
        """Return the names that `me` has not told `node`, with some that it knows, and count them as told.

        Empty: it knows all. Its own name for `me` is among the known ones, if there is one: `node` takes a record
        without it for a question.
        """
        new = self.untold(node, talk)
        if not new:
            return {}
        known = self.ids.keys() - new
        own = link_to(node, me)
        known = {link for link in known if receiver_of(link) == node or link == own} or set(sorted(known)[:1])
        self.tell(node, talk, new)
        return {link: self.ids[link] for link in self.ids if link in known or link in new}


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

    def __init__(self, around: Surroundings, processed: Callable[[int, int], bool]) -> None:
        """`processed(link, number)`: has this node processed the message with this identifier?"""
        self._around = around
        self._processed = processed
        self.near = frozenset(around.linked)
        #: Have members joined or left?
        self.unsettled = False
        #: In the order in which they were taken.
        self.entries: dict[Entry, None] = {}
        self.foreign: dict[Names, None] = {}
        self._by_id: dict[Id, Entry] = {}
        self._foreign_by_id: dict[Id, Names] = {}
        #: By neighbour, then by numbering node: how far it has processed. Reported anew in every incarnation.
        self._acked: dict[int, dict[int, tuple[int, frozenset[int]]]] = {}

    def find(self, ids: Ids) -> Entry | None:
        """The entry that one of these identifiers denotes."""
        by_id = self._by_id
        return next((by_id[id_] for id_ in ids.items() if id_ in by_id), None)

    def find_foreign(self, ids: Ids) -> list[Names]:
        """Foreign names that share an identifier with these."""
        by_id = self._foreign_by_id
        return list(dict.fromkeys(by_id[id_] for id_ in ids.items() if id_ in by_id))

    def acked(self, link: int, number: int) -> bool:
        """Has the receiver acknowledged the message with this identifier?"""
        reached, beyond = self._acked.get(receiver_of(link), {}).get(sender_of(link), (0, frozenset()))
        return number <= reached or number in beyond

    # -- growing ------------------------------------------------------------------------------------------------

    def add(self, entry: Entry, ids: Ids) -> None:
        self.entries[entry] = None
        self.learn(entry, ids)

    def new_foreign(self, ids: Ids) -> Names | None:
        """Store names of a message that is not here. None: all nodes concerned have acknowledged it."""
        names = Names()
        self.learn(names, ids)
        if not names.unacked:
            self._unindex(names)
            return None
        self.foreign[names] = None
        return names

    def learn(self, names: Names, ids: Ids) -> Ids:
        """Add identifiers of a message. Returns those that are new."""
        new = {link: number for link, number in ids.items() if link not in names.ids}
        names.ids.update(new)
        for link, number in new.items():
            if isinstance(names, Entry):
                self._by_id[link, number] = names
            else:
                self._foreign_by_id[link, number] = names
            receiver = receiver_of(link)
            if receiver == self._around.me:
                if not self._processed(link, number):
                    names.unacked.add(link)
            elif receiver in self.near and not self.acked(link, number):
                names.unacked.add(link)
        return new

    # -- shrinking ----------------------------------------------------------------------------------------------

    def acknowledge(self, node: int, columns: Columns) -> list[Names]:
        """`node` reports its progress. Returns the messages that it has acknowledged under a further name."""
        known = self._acked.setdefault(node, {})
        found: dict[Names, None] = {}
        for sender, (reached, beyond) in columns.items():
            before, extra = known.get(sender, (0, frozenset()))
            known[sender] = max(before, reached), frozenset(n for n in (*beyond, *extra) if n > reached)
            link = link_to(sender, node)
            if reached - before > 64:  # one of the two was away: search the log, not all numbers
                numbers = [names.ids[link] for names in (*self.entries, *self.foreign) if link in names.unacked]
            else:
                numbers = [*range(before + 1, reached + 1), *beyond]
            for number in numbers:
                if number <= reached or number in beyond:
                    for index in (self._by_id, self._foreign_by_id):
                        names = index.get((link, number))
                        if names is not None and link in names.unacked:
                            names.unacked.discard(link)
                            found[names] = None
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
        index: dict[Id, Entry] | dict[Id, Names] = self._by_id if isinstance(names, Entry) else self._foreign_by_id
        for id_ in names.ids.items():
            index.pop(id_, None)
