"""Plumtree: the broadcast tree of one topic at one node (Leitão, Pereira & Rodrigues, SRDS 2007).

Links of the active view are *eager* or *lazy*. A message goes over the eager links in full; over the lazy ones goes its
name (`IHave`). All links begin eager. A copy over a second link prunes that link, so the eager links soon form one
tree that all sources share. A message that is announced and does not come within a time is asked for at an announcer,
and that link becomes part of the tree (`Graft`): a tree that a crash has cut is mended by the next message. A link is
also grafted if an announcement came over far fewer links than the message itself (`threshold`, section 3.8).

With causal order a held message announces its missing predecessors as well: the node that sent it is asked for them.
Neighbours are asked in turn, and in the end a predecessor is given up (`order`).

Assumed, since the paper runs over TCP: a copy that comes twice from the same node prunes nothing.
"""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import msgspec

from antecede.core import Message, Outbox
from antecede.core.caches import BoundedCache
from antecede.core.numbers import NumberSet
from antecede.core.rng import Rng
from antecede.protocols.plumtree.order import NoOrder
from antecede.protocols.plumtree.packets import Disconnect, Gossip, Graft, IHave, Name, Prune, TopicPacket, Welcome
from antecede.protocols.plumtree.records import Delivered, GaveUp, Member, Published
from antecede.protocols.plumtree.views import HyParView, ViewSettings


class TreeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and bounds of a tree."""

    #: How long announcements are collected; 0: each leaves at once.
    announce_us: int
    #: How long an announced message may take before it is asked for, and each further announcer before the next.
    missing_us: int
    graft_us: int
    #: How many neighbours are asked for a predecessor, beside its announcers, before it is given up.
    attempts: int
    #: Links by which an announcement must be shorter to be grafted.
    threshold: int
    #: How many messages a node stores for those that ask.
    store_max: int
    #: How many trees there are, and how many links a node adds when it begins to forward in one; both for Thicket.
    trees: int = 1
    fanout: int = 0


class Stored(NamedTuple):
    """A message, the node that it came from, and how many links it had crossed."""

    message: Message
    sender: int | None
    hops: int


class _Missing:
    """A message that was announced, or that a held one needs."""

    __slots__ = ("announcers", "asked", "needed")

    def __init__(self) -> None:
        self.announcers: list[tuple[int, int]] = []
        self.asked = 0
        self.needed = False


class Plumtree(HyParView):
    """The tree of one topic, on its views."""

    #: Is a link lazy at first? Then a peer may think it eager that is lazy here, and is told so when a copy comes.
    begins_lazy: ClassVar[bool] = False

    def __init__(
        self,
        topic: str,
        node: int,
        out: Outbox,
        rng: Rng,
        views: ViewSettings,
        settings: TreeSettings,
        order: NoOrder,
        contacts: Iterable[int],
    ) -> None:
        super().__init__(topic, node, out, rng, views, contacts)
        self._tree = settings
        self.order = order
        self.lazy: set[int] = set()
        #: The lazy links of each tree. Plumtree has one tree.
        self.lazies = [self.lazy, *[set[int]() for _ in range(settings.trees - 1)]]
        self.last = 0
        self._seen: dict[int, NumberSet] = {}
        self._store: BoundedCache[Name, Stored] = BoundedCache(settings.store_max)
        self.missing: dict[Name, _Missing] = {}
        #: By lazy peer: names to be announced.
        self._news: dict[int, list[tuple[int, int, int]]] = {}
        #: Payloads to be published once this node has a link.
        self.waiting: list[bytes] = []
        #: Was it a member before? Then it goes on where it was, instead of behind its contact.
        self.returning = False

    # -- the application -----------------------------------------------------------------------------------------------

    @property
    def seeking(self) -> bool:
        """Has this node no link yet, and asked for one? Its messages wait: they would go nowhere."""
        return self.joining or (not self.active and bool(self.asked))

    def publish(self, payload: bytes) -> Message | None:
        if self.seeking:
            self.waiting.append(payload)
            return None
        return self._publish(payload)

    def unsubscribe(self) -> None:
        self.leave()
        if self.order.leave():
            self._seen.clear()  # what was held may come again
        self.missing.clear()
        self._news.clear()
        self.waiting.clear()
        self.returning = False
        self.out.keep(Member(self.topic, False))
        self.out.left(self.topic)

    def restore(self, message: Message) -> None:
        """This message was published or delivered here before a crash."""
        own = message.source == self.node
        if own:
            self.last = max(self.last, message.seq)
        self.order.restore(message, own=own)
        self._seen_of(message.source).add(message.seq)
        self._store[message.source, message.seq] = Stored(message, None, 0)

    def _publish(self, payload: bytes, *, waited: bool = False) -> Message:
        self.last += 1
        message = self.order.stamp(self.topic, self.node, self.last, payload)
        if waited:
            self.out.published(message)
        self.out.keep(Published(message))
        self._seen_of(self.node).add(message.seq)
        self.out.deliver(message)
        self._spread(Stored(message, None, 0))
        return message

    # -- membership ----------------------------------------------------------------------------------------------------

    def found(self, active: Iterable[int], passive: Iterable[int]) -> None:
        super().found(active, passive)
        self.returning = True

    def lazy_for(self, seq: int) -> set[int]:
        """The lazy links of the tree that carries a source's message with this number."""
        return self.lazies[seq % len(self.lazies)]

    def begin_link(self, peer: int) -> None:
        for lazy in self.lazies:
            (lazy.add if self.begins_lazy else lazy.discard)(peer)

    def linked(self, peer: int) -> None:
        self.begin_link(peer)
        if self.returning and not self.joining:
            self._publish_waiting()

    def unlinked(self, peer: int) -> None:
        for lazy in self.lazies:
            lazy.discard(peer)
        self._news.pop(peer, None)

    def greeting(self) -> Welcome:
        return Welcome(self.topic, self.order.levels(), tuple(self.order.holding()))

    def joined(self, contact: int, welcome: Welcome) -> None:
        if not self.returning:
            self.order.begin(welcome.levels)
            self.out.keep(Member(self.topic, True, welcome.levels))
            self.out.joined(self.topic)
        self.returning = True
        for message in welcome.held:
            self._came(contact, message, 1)
        self._publish_waiting()

    def alone(self) -> None:
        if self.member:
            self._publish_waiting()

    def _publish_waiting(self) -> None:
        waiting, self.waiting = self.waiting, []
        for payload in waiting:
            self._publish(payload, waited=True)

    # -- packets -------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: TopicPacket) -> None:
        if not isinstance(packet, Gossip | IHave | Graft | Prune) or not self.member:
            super().receive(sender, packet)
            return
        if sender not in self.active and sender not in self.asked:
            self.out.send(sender, Disconnect(self.topic, False))
        match packet:
            case Gossip():
                self._came(sender, packet.message, packet.hops)
            case IHave():
                for source, seq, hops in packet.names:
                    if seq not in self._seen_of(source):
                        self._expect((source, seq), (sender, hops))
            case Graft():
                self.lazies[packet.tree % len(self.lazies)].discard(sender)
                if packet.name is not None and (stored := self._store.get(packet.name)) is not None:
                    self.out.send(sender, Gossip(self.topic, stored.message, stored.hops + 1))
            case Prune():
                if sender in self.active:
                    self.lazies[packet.tree % len(self.lazies)].add(sender)

    def wake(self, timer: tuple[object, ...]) -> None:
        match timer:
            case ("missing", _, int(source), int(seq)):
                self._ask((source, seq))
            case ("announce", _):
                self._announce()
            case _:
                super().wake(timer)

    def _came(self, sender: int, message: Message, hops: int) -> None:
        lazy = self.lazy_for(message.seq)
        if not self._seen_of(message.source).add(message.seq):
            stored = self._store.get((message.source, message.seq))
            surplus = sender not in lazy or self.begins_lazy
            if sender in self.active and surplus and (stored is None or stored.sender != sender):
                lazy.add(sender)
                self.out.send(sender, Prune(self.topic, message.seq % len(self.lazies)))
            return
        missing = self.missing.pop((message.source, message.seq), None)
        lazy.discard(sender)
        self._spread(Stored(message, sender, hops))
        if missing is not None:
            self._shorten(sender, hops, missing)
        self._deliver(self.order.take(message))
        for name in self.order.lacking(message):
            self._expect(name, (sender, hops), needed=True)

    def _deliver(self, ready: Iterable[Message]) -> None:
        for message in ready:
            self.out.keep(Delivered(message))
            self.out.deliver(message)

    # -- spreading -----------------------------------------------------------------------------------------------------

    def _spread(self, stored: Stored) -> None:
        message, sender, hops = stored
        self._store[message.source, message.seq] = stored
        packet = Gossip(self.topic, message, hops + 1)
        lazy = self.lazy_for(message.seq)
        for peer in self.active:
            if peer == sender:
                continue
            if peer not in lazy:
                self.out.send(peer, packet)
                continue
            if not self._news and self._tree.announce_us:
                self.out.wake_after(self._tree.announce_us, ("announce", self.topic))
            self._news.setdefault(peer, []).append((message.source, message.seq, hops))
        if not self._tree.announce_us:
            self._announce()
        self.traffic()

    def _announce(self) -> None:
        for peer, names in self._news.items():
            self.out.send(peer, IHave(self.topic, tuple(names), self.interior()))
        self._news.clear()

    def interior(self) -> tuple[int, ...]:
        """What announcements say of this node's load: nothing, in Plumtree."""
        return ()

    def _shorten(self, sender: int, hops: int, missing: _Missing) -> None:
        """Graft a link over which the message would have come on a much shorter way; prune the one it came over."""
        for peer, announced in missing.announcers:
            if hops - announced - 1 >= self._tree.threshold and peer in self.active and sender in self.active:
                self.lazy.discard(peer)
                self.lazy.add(sender)
                self.out.send(peer, Graft(self.topic, None))
                self.out.send(sender, Prune(self.topic))
                return

    # -- asking --------------------------------------------------------------------------------------------------------

    def _expect(self, name: Name, announcer: tuple[int, int], *, needed: bool = False) -> None:
        missing = self.missing.get(name)
        if missing is None:
            missing = self.missing[name] = _Missing()
            self.out.wake_after(self._tree.missing_us, ("missing", self.topic, *name))
        missing.announcers.append(announcer)
        missing.needed = missing.needed or needed

    def _ask(self, name: Name) -> None:
        """Ask the next announcer, then any neighbours; in the end give the message up."""
        missing = self.missing.get(name)
        if missing is None:
            return
        while missing.announcers:
            peer, _ = missing.announcers.pop(self._choice(name, missing.announcers))
            if peer in self.active:
                self._graft(peer, name)
                return
        if missing.needed and missing.asked < self._tree.attempts:
            missing.asked += 1
            if self.active:
                self._graft(self.rng.choice(self.active), name)
            else:
                self.out.wake_after(self._tree.graft_us, ("missing", self.topic, *name))
            return
        del self.missing[name]
        if missing.needed:
            before, passed = self.order.clock_floor, self.order.give_up(*name)
            if self.order.clock_floor > before:
                self.out.keep(GaveUp(self.topic, self.order.clock_floor))
            self._deliver(passed)

    def _choice(self, name: Name, announcers: list[tuple[int, int]]) -> int:
        """Which announcer to ask for the message: the first one."""
        return 0

    def _graft(self, peer: int, name: Name) -> None:
        self.lazy_for(name[1]).discard(peer)
        self.out.send(peer, Graft(self.topic, name, name[1] % len(self.lazies)))
        self.out.wake_after(self._tree.graft_us, ("missing", self.topic, *name))

    def _seen_of(self, source: int) -> NumberSet:
        seen = self._seen.get(source)
        if seen is None:
            seen = self._seen[source] = NumberSet()
        return seen
