"""Thicket: several Plumtree trees on the same views, so that each node forwards in few of them (Ferreira et al. 2010).

In one tree the leaves, often most of the nodes, forward nothing, and inner nodes carry all the load. Thicket has
several trees, and a source deals its messages out to them in turn. A node is *interior* in a tree if it has two eager
links or more there. It aims to be interior in one tree and a leaf in the others:

* Links begin lazy in every tree. A node that gets the first message of a tree, or publishes it, adds eager links if it
  is not interior in another tree. Otherwise its one link is the one the message came over.
* A message that does not come is asked for at an announcer, as in Plumtree. Announcements say in which trees their
  sender is interior, and announcers that are interior in no other tree are asked first. A node that is asked forwards,
  even if it becomes interior in a second tree: messages come before balance.

Assumed, since LoCaMu only names the system: trees are shared by all sources; the paper has one source, which chooses
the roots. Its limit of links by load, and its changes of trees that work, are not built. Section 3.8 of Plumtree, which
shortens ways, is left out: it would make leaves interior.
"""

from collections.abc import Iterable

from antecede.core import Outbox
from antecede.core.rng import Rng
from antecede.protocols.plumtree.order import NoOrder
from antecede.protocols.plumtree.packets import IHave, Name, TopicPacket
from antecede.protocols.plumtree.tree import Plumtree, Stored, TreeSettings
from antecede.protocols.plumtree.views import ViewSettings


class Thicket(Plumtree):
    """The trees of one topic at one node."""

    begins_lazy = True

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
        super().__init__(topic, node, out, rng, views, settings, order, contacts)
        #: The trees of which this node has had a message.
        self._begun: set[int] = set()
        #: By neighbour: the trees in which it was interior when it last announced something.
        self._loads: dict[int, tuple[int, ...]] = {}

    def interior(self) -> tuple[int, ...]:
        """The trees in which this node forwards."""
        return tuple([tree for tree in range(len(self.lazies)) if len(self._eager(tree)) > 1])

    def found(self, active: Iterable[int], passive: Iterable[int]) -> None:
        super().found(active, passive)
        for peer in self.active:
            self.begin_link(peer)

    def unlinked(self, peer: int) -> None:
        super().unlinked(peer)
        self._loads.pop(peer, None)

    def receive(self, sender: int, packet: TopicPacket) -> None:
        if isinstance(packet, IHave):
            self._loads[sender] = packet.interior
        super().receive(sender, packet)

    def _spread(self, stored: Stored) -> None:
        tree = stored.message.seq % len(self.lazies)
        eager = len(self._eager(tree))
        wanted = 1 - eager
        if tree not in self._begun:
            self._begun.add(tree)
            if not any(other != tree for other in self.interior()):
                wanted = self._tree.fanout
        lazy = [peer for peer in self.active if peer in self.lazies[tree]]
        if lazy and wanted > 0:
            self.lazies[tree].difference_update(self.rng.sample(lazy, min(wanted, len(lazy))))
        super()._spread(stored)

    def _shorten(self, sender: int, hops: int, missing: object) -> None:
        """Ways stay as they are."""

    def _choice(self, name: Name, announcers: list[tuple[int, int]]) -> int:
        """The announcer that is interior in the fewest other trees, of these the first one."""
        tree = name[1] % len(self.lazies)
        loads = [len({*self._loads.get(peer, ())} - {tree}) for peer, _ in announcers]
        return loads.index(min(loads))

    def _eager(self, tree: int) -> list[int]:
        return [peer for peer in self.active if peer not in self.lazies[tree]]
