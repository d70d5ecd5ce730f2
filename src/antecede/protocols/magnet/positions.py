"""Magnet: Scribe on a ring on which nodes with similar interests are neighbours (Girdzijauskas et al., DEBS 2010).

A hash spreads the subscribers of a topic over the whole ring, and joins pass through nodes that do not subscribe. In
Magnet a node asks a membership service for its position on the ring. The service looks at a sample of the subscribers
and puts the node beside the one whose interests are most like its own. The subscribers of a topic are together then,
and a join meets few others on its way (thesis 3.5.1.1).

Trees, packets and what is promised are Scribe's: the processes are `protocols.scribe`'s, on another ring.

Assumed, since the thesis gives the idea and no algorithm:

* The ring is Pastry's, as for Scribe here, so that only the positions differ; Magnet has Oscar, a small-world ring.
  Oscar's links skip nodes, not distances. So nodes are spread evenly here in the end, and only their order counts.
* Interests are alike by their share of common topics (Jaccard). The more alike, the closer the positions: from 2^36 for
  the same topics to 2^56 for hardly any in common, on a circle of 2^64.
* A node that has nothing in common with its sample, or takes no topic, has the position that a hash gives it.
* A topic's rendezvous is at its first subscriber. At the hash of the topic's name it would be far from the subscribers,
  and they would leave their neighbourhood over as many relays as they have different links.
* Nodes ask in the order of their numbers, once, when the run begins. Nodes that subscribe or leave later stay where
  they are: a position that changes would move roots, and this ring is the same for all nodes during a run.
"""

from collections.abc import Mapping, Set
from typing import NamedTuple

from antecede.overlay.pastry import NAME_BITS, name_of

#: Bits of the distance between nodes with the same interests, and what is added to them where nothing is in common.
NEAR_BITS, FAR_BITS = 36, 20


class Positions(NamedTuple):
    """Positions on the circle: of all nodes, and of the topics that have subscribers."""

    nodes: list[int]
    topics: dict[str, int]


def positions(nodes: int, interests: Mapping[int, Set[str]], sample: int) -> Positions:
    """What the membership service answers to each node. `interests` are the topics of each subscriber."""
    found = [name_of(f"node {node}") for node in range(nodes)]
    first: dict[str, int] = {}
    taken = set(found)
    asked: list[int] = []
    for node in sorted(interests):
        known = [asked[name_of(f"{node} asks {number}") % len(asked)] for number in range(sample if asked else 0)]
        like = max(known, key=lambda other: likeness(interests[node], interests[other]), default=None)
        if like is not None and (alike := likeness(interests[node], interests[like])):
            bits = NEAR_BITS + round(FAR_BITS * (1 - alike))
            place = found[like] + found[node] % (1 << bits) - (1 << bits - 1)
            while (place := place % (1 << NAME_BITS)) in taken:
                place += 1
            taken.add(place)
            found[node] = place
        asked.append(node)
        for topic in interests[node]:
            first.setdefault(topic, node)
    even = [0] * nodes
    for rank, node in enumerate(sorted(range(nodes), key=found.__getitem__)):
        even[node] = (rank << NAME_BITS) // nodes
    return Positions(even, {topic: even[node] for topic, node in first.items()})


def likeness(one: Set[str], other: Set[str]) -> float:
    """The share of their topics that two nodes have in common (Jaccard)."""
    return len(one & other) / len(one | other)
