"""Partial views that evolve: for each group a few of the brokers that relay it, mixed a little with every packet.

No broker needs to know all others (Kim & Ahn 3; lpbcast). Every packet between brokers carries the sender's own entry
and a few of its view; who is new takes a free place, or the place of somebody drawn at random. Views are kept by group,
so that a broker in many groups does not lose sight of a small one.
"""

from collections.abc import Iterable

from antecede.core.rng import Rng
from antecede.protocols.gossip.packets import Peer


class Views:
    """Whom a broker knows."""

    def __init__(self, node: int, size: int, chance: Rng) -> None:
        self._node = node
        self._size = size
        self._chance = chance
        self._peers: dict[int, Peer] = {}
        self._by_group: dict[str, list[int]] = {}
        self.down: set[int] = set()
        self._lost: dict[int, Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def of(self, group: str) -> tuple[int, ...]:
        return tuple(self._by_group.get(group, ()))

    def groups(self, node: int) -> frozenset[str]:
        """What `node` relays, as far as it is known."""
        peer = self._peers.get(node)
        return frozenset(peer.groups) if peer is not None else frozenset()

    def learn(self, peers: Iterable[Peer], shared: Iterable[str]) -> None:
        """Somebody told of `peers`. Those who relay one of the `shared` groups are of interest."""
        shared = frozenset(shared)
        for peer in peers:
            if peer.node == self._node or peer.node in self.down:
                continue
            known = self._peers.get(peer.node)
            if known is not None and known.version > peer.version:
                continue
            if known is not None and known.version < peer.version:
                self._remove(peer.node)
            self._enter(peer, [group for group in peer.groups if group in shared])

    def forget(self, node: int) -> None:
        """`node` is suspected: nothing is sent to it until it is trusted again."""
        self.down.add(node)
        if node in self._peers:
            self._lost[node] = self._peers[node]
        self._remove(node)

    def trust(self, node: int, shared: Iterable[str]) -> None:
        """`node` is up after all, or again."""
        self.down.discard(node)
        known = self._lost.pop(node, None)
        if known is not None:
            self.learn([known], shared)

    def targets(self, groups: Iterable[str], count: int) -> list[int]:
        """Up to `count` brokers drawn from those known to relay one of the groups."""
        among = {node: None for group in sorted(groups) for node in self._by_group.get(group, ())}
        found = list(among)
        return found if len(found) <= count else self._chance.sample(found, count)

    def piece(self, count: int) -> tuple[Peer, ...]:
        """A few entries to tell others."""
        peers = list(self._peers.values())
        return tuple(peers if len(peers) <= count else self._chance.sample(peers, count))

    def _enter(self, peer: Peer, groups: list[str]) -> None:
        """Into free places, and where there are none into one that is taken, of one group."""
        if not groups:
            return
        self._peers[peer.node] = peer
        full: list[list[int]] = []
        for group in groups:
            view = self._by_group.setdefault(group, [])
            if peer.node in view:
                continue
            if len(view) < self._size:
                view.append(peer.node)
            else:
                full.append(view)
        if full:
            view = full[self._chance.randrange(len(full))]
            place = self._chance.randrange(len(view))
            gone, view[place] = view[place], peer.node
            if not any(gone in other for other in self._by_group.values()):
                del self._peers[gone]

    def _remove(self, node: int) -> None:
        self._peers.pop(node, None)
        for view in self._by_group.values():
            if node in view:
                view.remove(node)
