"""HyParView: the partial views of one topic at one node (Leitão, Pereira & Rodrigues, DSN 2007).

The *active* view is small and symmetric: its members are linked, and messages travel over these links. The *passive*
view is larger. It has members to link to when an active one fails, and shuffles keep it fresh.

  join       A contact takes the joiner into its active view, and sends it on random walks through the active views.
             Where a walk ends, that node links to the joiner. Half-way a node remembers it in its passive view.
  full view  A member drawn at random is dropped and told so. It remembers the node in its passive view, and mends.
  mend       A node that lost a link asks nodes of its passive view, one after the other. A request of high priority,
             from a node without any link, is never refused; others are only if there is room.
  shuffle    A node exchanges a sample of its views with the node at the end of a random walk.

The paper takes TCP for a failure detector. Here the driver's detector reports failures (`suspect`). Links may lose
packets, so each request has a timer. Assumed, since the paper leaves them out: a node that is sent a message over a
link which it does not have answers `Disconnect`; a node without links and candidates joins again; a node that has left
names others to those that ask it; shuffles pause while no message comes, so a system without traffic is at rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from antecede.core import Outbox
from antecede.core.rng import Rng
from antecede.protocols.plumtree.packets import (
    Disconnect,
    ForwardJoin,
    Join,
    Neighbour,
    Refuse,
    Shuffle,
    ShuffleReply,
    TopicPacket,
    Welcome,
)

#: How often a node without links asks for one before it waits to be asked.
JOIN_ATTEMPTS_MAX: Final = 32


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the views, lengths of random walks, and times. The defaults are the paper's, for 10,000 nodes."""

    active: int = 5
    passive: int = 30
    #: Links that a joiner's walk crosses, and how many are left when a node remembers it.
    join_walk: int = 6
    passive_walk: int = 3
    #: Members of the active and of the passive view in a shuffle.
    shuffle_active: int = 3
    shuffle_passive: int = 4
    shuffle_us: int
    #: How long a node waits for the answer to a request.
    answer_us: int


class HyParView(ABC):
    """The views of one topic. A subclass is told which links there are."""

    def __init__(
        self, topic: str, node: int, out: Outbox, rng: Rng, settings: ViewSettings, contacts: Iterable[int]
    ) -> None:
        self.topic = topic
        self.node = node
        self.out = out
        self.rng = rng
        self._views = settings
        self.active: list[int] = []
        self.passive: list[int] = []
        self.suspected: set[int] = set()
        #: Does this node take part? And has it asked a contact to?
        self.member = False
        self.joining = False
        self._contacts = [contact for contact in contacts if contact != node]
        #: The contact asked last, and how many were.
        self._contact = -1
        self._attempts = 0
        #: Nodes asked for a link that have not answered, and those asked since a link was lost.
        self.asked: set[int] = set()
        self._tried: set[int] = set()
        #: Nodes that asked for a link before this node had joined.
        self._early: list[int] = []
        self._shuffled: tuple[int, ...] = ()
        self._shuffling = False
        self._busy = False

    # -- what a subclass does ------------------------------------------------------------------------------------------

    @abstractmethod
    def linked(self, peer: int) -> None:
        """There is a new link."""

    @abstractmethod
    def unlinked(self, peer: int) -> None:
        """A link is gone."""

    @abstractmethod
    def greeting(self) -> Welcome:
        """The answer to a joiner."""

    @abstractmethod
    def joined(self, contact: int, welcome: Welcome) -> None:
        """A contact has taken this node in."""

    @abstractmethod
    def alone(self) -> None:
        """The node asks contacts no more: none has answered, or others have linked to it."""

    # -- joining and leaving -------------------------------------------------------------------------------------------

    def found(self, active: Iterable[int], passive: Iterable[int]) -> None:
        """Begin as a founder, with these views. They must be symmetric."""
        self.member = True
        self.active, self.passive = list(active), list(passive)

    def join(self) -> None:
        """Ask a contact for a link."""
        self._attempts = 0
        self.joining = True
        self._ask_contact()

    def leave(self) -> None:
        for peer in self.active:
            self.out.send(peer, Disconnect(self.topic, True))
        for peer in self.active.copy():
            self.active.remove(peer)
            self.unlinked(peer)
            self._remember(peer)
        self.member = self.joining = False
        self.asked.clear()
        self._early.clear()

    def _ask_contact(self) -> None:
        """Ask the next contact that is not suspected."""
        self._attempts += 1
        known = list(dict.fromkeys([*self._contacts, *self.passive]))
        able = [node for node in known if node not in self.suspected]
        if not able or self._attempts > JOIN_ATTEMPTS_MAX:
            self.joining = False
            self.alone()
            return
        self._contact = self.rng.choice(able)
        self.out.send(self._contact, Join(self.topic))
        self.out.wake_after(self._views.answer_us, ("join", self.topic, self._attempts))

    def wake(self, timer: tuple[object, ...]) -> None:
        match timer:
            case ("join", _, attempt) if self.joining and attempt == self._attempts:
                if self.active:  # others have asked it meanwhile
                    self.joining = False
                    self.alone()
                else:
                    self._ask_contact()
            case ("neighbour", _, int(peer)) if peer in self.asked:
                self.asked.discard(peer)
                self._forget(peer)
                self._mend()
            case ("shuffle", _):
                self._shuffling = False
                if self._busy and self.member:
                    self._busy = False
                    self._shuffle()
                    self._tried.clear()
                    self._mend()
            case _:
                """A stale timer."""

    # -- packets -------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: TopicPacket) -> None:
        match packet:
            case Welcome():
                self._welcomed(sender, packet)
            case Refuse():
                self._refused(sender, packet)
            case Disconnect():
                self.asked.discard(sender)
                self.lose(sender, keep=not packet.gone)
            case _ if not self.member:
                self._decline(sender, packet)
            case _:
                self._requested(sender, packet)

    def _requested(self, sender: int, packet: TopicPacket) -> None:
        match packet:
            case Join():
                self.out.send(sender, self.greeting())
                self._link(sender)
                for peer in self.active:
                    if peer != sender:
                        self.out.send(peer, ForwardJoin(self.topic, sender, self._views.join_walk))
            case ForwardJoin():
                self._forward_join(sender, packet)
            case Neighbour():
                if packet.high or len(self.active) < self._views.active or sender in self.active:
                    self.out.send(sender, Welcome(self.topic))
                    self._link(sender)
                else:
                    self.out.send(sender, Refuse(self.topic, True))
            case Shuffle():
                self._shuffle_came(sender, packet)
            case ShuffleReply():
                self._mix(packet.nodes, self._shuffled)

    def _decline(self, sender: int, packet: TopicPacket) -> None:
        """Not a member: tell it to nodes that take this one for one. A joiner will be one in a moment."""
        if self.joining:
            if isinstance(packet, Neighbour):
                self._early.append(sender)
        elif isinstance(packet, Join | Neighbour):
            self.out.send(sender, Refuse(self.topic, False, tuple(self.passive)))
        elif not isinstance(packet, ShuffleReply):
            self.out.send(sender, Disconnect(self.topic, True))

    def _welcomed(self, sender: int, packet: Welcome) -> None:
        asked, self.asked = sender in self.asked, self.asked - {sender}
        if self.joining:
            self.joining = False
            self.member = True
            self._link(sender)
            self.joined(sender, packet)
            while self._early:
                self.out.send(self._early[-1], Welcome(self.topic))
                self._link(self._early.pop())
        elif not self.member:
            self.out.send(sender, Disconnect(self.topic, True))
        elif asked and len(self.active) < self._views.active:
            self._link(sender)
        elif sender not in self.active:
            self.out.send(sender, Disconnect(self.topic, False))

    def _refused(self, sender: int, packet: Refuse) -> None:
        asked, self.asked = sender in self.asked, self.asked - {sender}
        if not packet.member:
            self._forget(sender)
            self._contacts = [node for node in self._contacts if node != sender]
            self._contacts += [node for node in packet.others if node not in (self.node, *self._contacts)]
        if self.joining:
            if sender == self._contact:
                self._ask_contact()
        elif asked and self.member:
            self._mend()

    def _forward_join(self, sender: int, packet: ForwardJoin) -> None:
        joiner = packet.joiner
        if joiner == self.node:
            return
        onwards = [peer for peer in self.active if peer not in (sender, joiner)]
        if packet.walk == 0 or not onwards:
            if joiner not in self.active:
                self._request(joiner)
            return
        if packet.walk == self._views.passive_walk:
            self._remember(joiner)
        self.out.send(self.rng.choice(onwards), ForwardJoin(self.topic, joiner, packet.walk - 1))

    # -- links ---------------------------------------------------------------------------------------------------------

    def suspect(self, peer: int) -> None:
        self.suspected.add(peer)
        self.asked.discard(peer)
        self.lose(peer, keep=False)

    def trust(self, peer: int) -> None:
        self.suspected.discard(peer)
        if self.member and not self.active and not self.joining:
            self.join()

    def lose(self, peer: int, *, keep: bool) -> None:
        """A link is gone, or a node of the passive view is. `keep`: the node may be linked to again."""
        if peer in self.active:
            self.active.remove(peer)
            self.unlinked(peer)
            self._tried.clear()
        if keep:
            self._remember(peer)
            self._tried.add(peer)
        else:
            self._forget(peer)
        if self.member:
            self._mend()

    def _link(self, peer: int) -> None:
        if peer in self.active or peer == self.node:
            return
        if len(self.active) >= self._views.active:
            dropped = self.active.pop(self.rng.randrange(len(self.active)))
            self.out.send(dropped, Disconnect(self.topic, False))
            self.unlinked(dropped)
            self._remember(dropped)
        self._forget(peer)
        self.asked.discard(peer)
        self.active.append(peer)
        self.linked(peer)

    def _mend(self) -> None:
        """Ask nodes of the passive view until the active one is full, each once for each link lost."""
        while len(self.active) + len(self.asked) < self._views.active:
            untried = [node for node in self.passive if node not in self._tried and node not in self.asked]
            if not untried:
                if not self.active and not self.asked and not self.joining:
                    self.join()
                return
            self._request(self.rng.choice(untried))

    def _request(self, peer: int) -> None:
        self.asked.add(peer)
        self._tried.add(peer)
        self.out.send(peer, Neighbour(self.topic, not self.active))
        self.out.wake_after(self._views.answer_us, ("neighbour", self.topic, peer))

    # -- the passive view ----------------------------------------------------------------------------------------------

    def _remember(self, peer: int) -> None:
        if peer == self.node or peer in self.active or peer in self.passive or peer in self.suspected:
            return
        if len(self.passive) >= self._views.passive:
            del self.passive[self.rng.randrange(len(self.passive))]
        self.passive.append(peer)

    def _forget(self, peer: int) -> None:
        if peer in self.passive:
            self.passive.remove(peer)

    def traffic(self) -> None:
        """A message came: shuffle before long."""
        self._busy = True
        if not self._shuffling and self.active:
            self._shuffling = True
            self.out.wake_after(self._views.shuffle_us, ("shuffle", self.topic))

    def _shuffle(self) -> None:
        if not self.active:
            return
        views = self._views
        nodes = (
            self.node,
            *self._sample(self.active, views.shuffle_active),
            *self._sample(self.passive, views.shuffle_passive),
        )
        self._shuffled = nodes
        self.out.send(self.rng.choice(self.active), Shuffle(self.topic, self.node, views.join_walk, nodes))

    def _shuffle_came(self, sender: int, packet: Shuffle) -> None:
        if packet.origin == self.node:
            return
        onwards = [peer for peer in self.active if peer not in (sender, packet.origin)]
        if packet.walk > 0 and onwards:
            shuffle = Shuffle(self.topic, packet.origin, packet.walk - 1, packet.nodes)
            self.out.send(self.rng.choice(onwards), shuffle)
            return
        reply = tuple(self._sample(self.passive, len(packet.nodes)))
        self.out.send(packet.origin, ShuffleReply(self.topic, reply))
        self._mix(packet.nodes, reply)

    def _mix(self, nodes: Iterable[int], sent: Collection[int]) -> None:
        """Remember these nodes. Those sent to the other side make room first."""
        leaving = [node for node in sent if node in self.passive]
        for node in nodes:
            if node == self.node or node in self.active or node in self.passive or node in self.suspected:
                continue
            if len(self.passive) >= self._views.passive and leaving:
                self._forget(leaving.pop())
            self._remember(node)

    def _sample(self, among: list[int], count: int) -> list[int]:
        return among.copy() if len(among) <= count else self.rng.sample(among, count)
