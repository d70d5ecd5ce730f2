"""Computes the sequencing network: an atom for each pair of groups with two members in common, and their chain.

Only members of both groups see messages of both, and two nodes can disagree about an order only if there are two of
them. So a pair of groups needs an atom if they share two members or more.

The paper asks for a network without loops, in which the atoms of a group lie on one path: then the numbers of different
atoms never contradict each other. How it builds one is not in the surveys that we have. Assumed: groups that overlap,
directly or through others, have one chain. Every message travels along it in the same direction, from the first atom of
its group to the last, through atoms of other groups in between, which do not number it. A group without overlaps has an
atom to itself. Atoms that follow each other share a host as far as one node belongs to all their overlaps: a message
then takes one hop for all of them.
"""

from itertools import combinations
from typing import NamedTuple

from antecede.protocols.options import Founders


class Atom(NamedTuple):
    """A sequencer of one or two groups, the nodes that need its numbers, and its host."""

    groups: frozenset[str]
    members: frozenset[int]
    host: int


class SequencingNetwork:
    """All atoms, each chain in order, one chain after the other."""

    def __init__(self, groups: Founders) -> None:
        self.groups = {topic: tuple(sorted(members)) for topic, members in groups.items()}
        sets = {topic: frozenset(members) for topic, members in groups.items() if members}
        overlaps = {frozenset(pair) for pair in combinations(sorted(sets), 2) if len(sets[pair[0]] & sets[pair[1]]) > 1}
        near: dict[str, set[str]] = {topic: set() for topic in sets}
        for pair in overlaps:
            for topic in pair:
                near[topic] |= pair - {topic}
        rank = {topic: place for place, topic in enumerate(_by_component(near))}
        overlaps |= {frozenset((topic,)) for topic in sets if not near[topic]}
        pairs = sorted(overlaps, key=lambda pair: sorted([rank[topic] for topic in pair]))
        members = [frozenset.intersection(*[sets[topic] for topic in pair]) for pair in pairs]
        self.atoms = [Atom(*atom) for atom in zip(pairs, members, _hosts(members), strict=True)]
        #: By group: its first and its last atom, as indices of `atoms`.
        self.spans: dict[str, tuple[int, int]] = {}
        for index, atom in enumerate(self.atoms):
            for topic in atom.groups:
                first, _ = self.spans.get(topic, (index, index))
                self.spans[topic] = (first, index)


def _hosts(members: list[frozenset[int]]) -> list[int]:
    """The host of each atom: the node that can go on to host the most of the atoms behind it."""
    hosts: list[int] = []
    while len(hosts) < len(members):
        able = members[len(hosts)]
        run = 0
        for following in members[len(hosts) :]:
            if not able & following:
                break
            able &= following
            run += 1
        hosts += [min(able)] * run
    return hosts


def _by_component(near: dict[str, set[str]]) -> list[str]:
    """The groups, those that overlap directly or through others one after the other, breadth first."""
    order: list[str] = []
    met: set[str] = set()
    for start in sorted(near, key=lambda topic: (-len(near[topic]), topic)):
        if start in met:
            continue
        met.add(start)
        todo = [start]
        for topic in todo:  # grows during the loop
            fresh = sorted(near[topic] - met)
            met.update(fresh)
            todo += fresh
        order += todo
    return order
