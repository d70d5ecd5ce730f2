"""Partial views: for each group a few of the brokers that relay it, mixed a little with every packet.

No broker needs to know all others (Kim & Ahn 3; lpbcast). Every packet between brokers carries the sender's own entry
and a few of its view. A new broker takes a free entry of the view, or replaces an entry drawn at random. Views are kept
by group, so that a broker in many groups does not lose sight of a small one.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from antecede.core.rng import Rng
from antecede.protocols.gossip.packets import Peer


class Views:
    """The brokers that one broker knows."""

    def __init__(self, node: int, size: int, rng: Rng) -> None:
        self._node = node
        self._size = size
        self._rng = rng
        self._peers: dict[int, Peer] = {}
        self._by_group: dict[str, list[int]] = {}
        # By broker: in which of these views it is, a bit for each group; and the bits.
        self._within: dict[int, int] = {}
        self._bits: dict[str, int] = {}
        self.down: set[int] = set()
        #: Brokers that were known and are suspected now.
        self.lost: dict[int, Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def of(self, group: str) -> tuple[int, ...]:
        return tuple(self._by_group.get(group, ()))

    def groups(self, node: int) -> frozenset[str]:
        """The groups that `node` relays, as far as is known."""
        peer = self._peers.get(node)
        return frozenset(peer.groups) if peer is not None else frozenset()

    def learn(self, peers: Iterable[Peer], shared: AbstractSet[str]) -> None:
        """Take in `peers` that relay one of the `shared` groups."""
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
        """`node` is suspected: leave it out until it is trusted again."""
        self.down.add(node)
        if node in self._peers:
            self.lost[node] = self._peers[node]
        self._remove(node)

    def trust(self, node: int, shared: AbstractSet[str]) -> None:
        """The suspicion of `node` is over."""
        self.down.discard(node)
        known = self.lost.pop(node, None)
        if known is not None:
            self.learn([known], shared)

    def targets(self, groups: Iterable[str], count: int) -> list[int]:
        """Up to `count` brokers drawn from those known to relay one of the groups."""
        among = {node: None for group in sorted(groups) for node in self._by_group.get(group, ())}
        found = list(among)
        return found if len(found) <= count else self._rng.sample(found, count)

    def piece(self, count: int) -> tuple[Peer, ...]:
        """A few entries of the view, to tell others."""
        peers = list(self._peers.values())
        return tuple(peers if len(peers) <= count else self._rng.sample(peers, count))

    def _enter(self, peer: Peer, groups: list[str]) -> None:
        """Put `peer` into the views of `groups`. If some are full, it replaces an entry in one of those."""
        if not groups:
            return
        node = peer.node
        self._peers[node] = peer
        within = self._within.get(node, 0)
        full: list[str] = []
        for group in groups:
            bit = self._bits.get(group)
            if bit is None:
                bit = self._bits[group] = 1 << len(self._bits)
            if within & bit:
                continue
            view = self._by_group.setdefault(group, [])
            if len(view) < self._size:
                view.append(node)
                within |= bit
            else:
                full.append(group)
        if full:
            group = full[self._rng.randrange(len(full))]
            view = self._by_group[group]
            place = self._rng.randrange(len(view))
            gone, view[place] = view[place], node
            bit = self._bits[group]
            within |= bit
            rest = self._within[gone] & ~bit
            if rest:
                self._within[gone] = rest
            else:
                del self._peers[gone], self._within[gone]
        self._within[node] = within

    def _remove(self, node: int) -> None:
        self._peers.pop(node, None)
        within = self._within.pop(node, 0)
        for group, view in self._by_group.items():
            if within & self._bits[group]:
                view.remove(node)
