"""What a node of LoCaMu knows, and how each event changes it. `node` and `relay` send what follows.

Every change follows from a kept record (`records`), so a node that restarts reads its records and knows again what it
knew. Three rules are here. The past with which a message is forwarded does not contain the message itself. Only
identifiers that a copy was given on its path raise the past; names learned from others never do. A message known under
one name is known under all names it is said to have.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from antecede.overlay.extended import Surroundings
from antecede.protocols.locamu.column import Column
from antecede.protocols.locamu.identifiers import Ids, Shared, link, receiver_of, sender_of
from antecede.protocols.locamu.log import Entry, Log, Names
from antecede.protocols.locamu.records import Counted, Done, Heard, Learned, Logged, Member, Started, Took
from antecede.protocols.locamu.routing import Founding, Routing


class State:
    """Past, column, log, routing table and numbers of one node."""

    def __init__(self, around: Surroundings, founding: Founding, keep: Callable[[object], None]) -> None:
        self.around = around
        self.keep = keep
        self.column = Column(around.me, around.safe)
        #: By link between other nodes nearby: every number up to this one is in this node's past. By link of this node:
        #: the last number it gave.
        self.past: Ids = {}
        self.log = Log(around, self.column)
        self.routing = Routing(around, founding, lambda interest: keep(Heard(interest)))
        #: By topic: the sequence number of the last message published here.
        self.published: dict[str, int] = {}
        self.life = 0
        #: Messages and names that changed since the last check.
        self.changed: dict[Names, None] = {}
        # By link: are both ends nearby, and the receiver another node? Asked for every counter of every copy.
        self._counts: dict[Any, bool] = {}

    def _is_counted(self, at: int) -> bool:
        """Does this node's past have a counter for this link?"""
        safe, receiver = self.around.safe, receiver_of(at)
        return sender_of(at) in safe and receiver in safe and receiver != self.around.me

    def is_known(self, ids: Ids) -> bool:
        """Does one of these identifiers denote a message processed here?"""
        return self.column.has_any(ids) or self.log.find(ids) is not None

    def is_overtaken(self, ids: Ids) -> bool:
        """Was a message processed here that a node processed after giving one of these identifiers?"""
        past = self.past
        return any(number <= past.get(at, 0) for at, number in ids.items())

    # -- events -------------------------------------------------------------------------------------------------

    def take(self, took: Took) -> Entry:
        """Process the first copy of a message."""
        self.keep(took)
        self._raise_past(took.past)
        before = self.past.copy()  # without the message's own identifiers: it must not wait for itself
        self._raise_past(took.path)
        self.past.update(took.numbers)
        if took.message.source == self.around.me:
            self.published[took.message.topic] = took.message.seq
        return self._enter(took, before, took.alias)

    def duplicate(self, ids: Ids) -> None:
        """A copy of a message processed here has these identifiers."""
        ids = self._nearby(ids)
        if self._note(ids, self.log.find(ids)):
            self.keep(Learned(ids, True))

    def learn(self, ids: Ids, asks: int | None = None) -> None:
        """A node says that these identifiers denote one message. `asks`: see `_late_answer`."""
        ids = self._nearby(ids)
        if len(ids) < 2:
            return
        entry = self.log.find(ids)
        if entry is not None:
            news = self._note(ids, entry)
        else:  # not here, or no longer: others may need the names
            if asks is not None:
                ids = self._late_answer(ids, asks)
            news = self._note(ids, None) if self.column.has_any(ids) else False
            news |= self._learn_foreign(ids)
        if news:
            self.keep(Learned(ids, not self.log.find_foreign(ids)))

    def forget(self, names: Names) -> None:
        """Drop a message that all nodes have that need it."""
        if names.ids:
            self.keep(Done(*next(iter(names.ids.items()))))
        self._drop(names)

    def be(self, topic: str, what: Literal["joined", "joining", "left"]) -> None:
        """Become a member of a topic, ask to, or leave it."""
        self.keep(Member(topic, what))
        if what == "left":
            self.routing.unsubscribe(topic)
        elif what == "joining":
            self.routing.subscribe(topic)

    # -- inside -------------------------------------------------------------------------------------------------

    def _raise_past(self, ids: Shared) -> None:
        past: Shared = self.past
        counts = self._counts
        for at, number in ids.items():
            if number > past.get(at, 0):
                counted = counts.get(at)
                if counted is None:
                    counted = counts[at] = self._is_counted(at)
                if counted:
                    past[at] = number

    def _nearby(self, ids: Shared) -> Ids:
        """The names between nodes known here. A past that this node forwards for another may mention as much."""
        known = self.around.distance
        return {at: number for at, number in ids.items() if sender_of(at) in known and receiver_of(at) in known}

    def _enter(self, took: Took, past: Ids, alias: Ids) -> Entry:
        safe = self.around.safe
        given: Shared = took.path
        path = {at: number for at, number in given.items() if sender_of(at) in safe}
        given = self._nearby(alias)
        others = {at: number for at, number in given.items() if at not in path}
        if took.late:  # nodes that get it from here must see that it is late
            others |= took.numbers
        else:
            path |= took.numbers
        targets = {receiver_of(at) for at in (*path, *others) if sender_of(at) == self.around.me}
        entry = Entry(took, path, past, self.log.near & targets)
        entry.alias = others
        entry.numberers.update(map(sender_of, others))
        self.column.note_all(took.path)
        self.column.note_all(alias)
        self.log.add(entry, {**path, **others})
        self.changed[entry] = None
        self.column.all_known(entry.ids)
        self._absorb(entry, entry.ids)
        return entry

    def _note(self, ids: Ids, entry: Entry | None) -> bool:
        """These names denote a message processed here, `entry` if it is in the log. True: some were new."""
        news = self.column.note_all(ids)
        if entry is None:
            return self._note_foreign(ids) or news
        new = self.log.learn(entry, ids)
        if not new:
            return news
        new |= self._late(entry, new)
        entry.alias = {**entry.alias, **new}
        entry.numberers.update(map(sender_of, new))
        self.column.all_known(new)
        self.changed[entry] = None
        self._absorb(entry, new)
        return True

    def _late(self, entry: Entry, new: Ids) -> Ids:
        """Number it for nodes that others numbered it for and this node did not: they joined or left meanwhile.

        Relays must agree on a message's targets. A node that one relay numbered it for waits for the numbers of the
        others, to be sure that no further copy can come.
        """
        around, took = self.around, entry.took
        upstream = None if took.origin == around.me else around.first_step(took.origin)
        named = set(map(receiver_of, new)).difference(map(receiver_of, took.numbers))
        late = [to for to in around.linked if to in named and around.first_step(to) != upstream]
        numbers = {at: self.past.get(at, 0) + 1 for at in (link(around.me, to) for to in late) if at not in entry.ids}
        self.past.update(numbers)
        entry.targets |= self.log.near.intersection(map(receiver_of, numbers))
        return self.log.learn(entry, numbers)

    def _late_answer(self, ids: Ids, asks: int) -> Ids:
        """Number a message that is no longer in the log, for a node that lacks this node's number.

        Its request may be old, and the message have a number already. It then has two, which does no harm. Returns the
        names with that number.
        """
        own = link(self.around.me, asks)
        if not self.routing.changes or own in ids or not self.is_known(ids):
            return ids
        if not any(receiver_of(at) == asks for at in ids):
            return ids
        if link(asks, self.around.me) in ids:
            return ids  # it numbered the message for this node: it is before it on the path, and needs no number
        if any(own in names.ids for names in self.log.find_foreign(ids)):
            return ids
        self.past[own] = self.past.get(own, 0) + 1
        return {**ids, own: self.past[own]}

    def _note_foreign(self, ids: Ids) -> bool:
        """A message that is no longer in the log has these names, and all others that records say it has."""
        news = False
        for names in self.log.find_foreign(ids):
            if self.column.note_all(names.ids):
                news = True
            names.unacked = {at for at in names.unacked if receiver_of(at) != self.around.me}
            self.changed[names] = None
        return news

    def _absorb(self, entry: Entry, ids: Ids) -> None:
        """Merge records that turn out to denote this message."""
        for names in self.log.find_foreign(ids):
            if names in self.log.foreign:
                self._drop(names)
                self._note(names.ids, entry)

    def _learn_foreign(self, ids: Ids) -> bool:
        overlapping = self.log.find_foreign(ids)
        if not overlapping:
            names = self.log.new_foreign(ids)
            if names is None:
                return False  # all nodes that would need it have acknowledged
            self.changed[names] = None
            return True
        names, *others = overlapping
        for other in others:  # removed first: an identifier must lead to one record only
            self._drop(other)
            ids = other.ids | ids
        news = bool(self.log.learn(names, ids))
        if news:
            self.changed[names] = None
        return news

    def _drop(self, names: Names) -> None:
        self.log.drop(names)
        self.changed.pop(names, None)

    # -- a crash and after --------------------------------------------------------------------------------------

    def restore(self, records: Iterable[object]) -> None:
        """Restore what these records say, oldest first."""
        keep, self.keep = self.keep, lambda record: None
        for record in records:
            match record:
                case Started():
                    self.life = record.life
                case Took():
                    self.take(record)
                case Learned():
                    self._restore_learned(record)
                case Done():
                    self._restore_done({record.link: record.number})
                case Heard():
                    self.routing.learn(record.interest)
                case Member():
                    self.routing.be(record.topic, record.what)
                case Counted():
                    self.life = record.life
                    self.past = dict(record.past)
                    self.published = dict(record.published)
                    for sender, progress in record.columns.items():
                        self.column.begin(sender, progress)
                case Logged():
                    self._enter(record.took, record.past, record.alias)
        self.keep = keep
        self.column.freed.clear()

    def _restore_learned(self, record: Learned) -> None:
        for at, number in record.ids.items():
            if sender_of(at) == self.around.me:  # an answer to a question: the number is given
                self.past[at] = max(number, self.past.get(at, 0))
        (self.duplicate if record.known else self.learn)(record.ids)

    def _restore_done(self, ids: Ids) -> None:
        entry = self.log.find(ids)
        if entry is not None:
            self._drop(entry)
        for names in self.log.find_foreign(ids):
            self._drop(names)

    def snapshot(self) -> list[object]:
        """Fewer records that say the same."""
        counted = Counted(self.life, dict(self.past), self.column.all_progress(), dict(self.published))
        kept: list[object] = [counted, *self.routing.snapshot()]
        kept += [Logged(entry.took, entry.past, entry.alias) for entry in self.log.entries]
        kept += [Learned(names.ids, False) for names in self.log.foreign]
        return kept
