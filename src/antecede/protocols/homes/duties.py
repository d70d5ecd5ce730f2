"""Which partitions a node must keep, and when it may let go of them.

A node takes a partition as one of its homes, or in passing: for a feed of its clients. What it takes in passing it may
leave at any time. A home that is none any more, a *former home*, leaves under this rule:

    Each home is a member, is whole (it has every earlier message that any node has), and has delivered what this node
    had delivered when it first asked.

A node that leaves the cluster first tells the homes, which find others in its stead, and leaves under the same rule.

Nodes learn of each other at different times, so they may name different homes for a while. Three rules make up for it:

* What the homes confirmed holds until this node is a home again. Then other nodes rely on it, and the homes may change.
* A node that answers a former home is relied upon as a home, whether it knows that it is one or not. So it does not
  take the partition in passing any more, and lets go only when the homes confirm all that it had delivered then.
* A node that is said to leave counts as a home, and those that will be homes without it do, too. It does not answer
  that it is whole: two nodes that leave at a time must not rely on each other.
"""

from collections.abc import Iterable, Mapping, Sequence

from antecede.core.partitions import homes
from antecede.protocols.homes.records import Ask, AskHome, HomeState, Steps


class Duties:
    """The partitions that one node must keep."""

    def __init__(self, node: int, replicas: int, leaving_for: float) -> None:
        """`leaving_for`: how long a node that is said to leave counts as gone."""
        self._leaving_for = leaving_for
        self.node = node
        self._replicas = replicas
        #: Partitions of which this node is a home.
        self.homes: frozenset[int] = frozenset()
        #: Partitions that it takes in passing.
        self._passing: set[int] = set()
        #: By partition: by source, how far the homes must be before this node lets go; and how far all of them are.
        self._owed: dict[int, dict[int, int]] = {}
        self._confirmed: dict[int, dict[int, int]] = {}
        #: By slot: until when a node that is said to leave counts as gone.
        self._leaving: dict[int, float] = {}
        #: This node is about to leave the cluster.
        self._goes = False

    # -- homes ---------------------------------------------------------------------------------------------------------

    def find_homes(self, partitions: int, members: Sequence[int], now: float) -> None:
        """Find the partitions, of so many, of which this node is a home among these members of the cluster."""
        leaving = self.leaving(now)
        found = [
            one
            for one in range(partitions)
            if self.node in self.homes_of(one, members)
            or (leaving and self.node in self.homes_of(one, members, without=leaving))
        ]
        for partition in frozenset(found) - self.homes:
            self._begin_anew(partition)
        self.homes = frozenset(found)
        self._passing -= self.homes

    def homes_of(self, partition: int, members: Sequence[int], without: Iterable[int] = ()) -> tuple[int, ...]:
        """The homes of a partition among these members, but those named."""
        absent = frozenset(without)
        return homes(partition, [one for one in members if one not in absent] if absent else members, self._replicas)

    def leaving(self, now: float) -> frozenset[int]:
        """The nodes that are about to leave the cluster."""
        return frozenset([slot for slot, until in self._leaving.items() if until > now])

    def expect_leave(self, slot: int, now: float) -> None:
        """The node with this slot is about to leave the cluster: others become homes in its stead."""
        self._leaving[slot] = now + self._leaving_for

    def state(self, number: int, partition: int, *, member: bool, lacks: bool, reached: Mapping[int, int]) -> HomeState:
        """What this node answers question `number` of a former home, which relies on it from now on.

        `lacks`: are there earlier messages that it has not fetched? `reached`: by source, how far it has delivered.
        """
        self._passing.discard(partition)
        if (owed := self._owed.get(partition)) is not None:
            owed |= {source: max(seq, owed.get(source, 0)) for source, seq in reached.items()}
        return HomeState(number, member and not lacks and not self._goes, tuple(reached.items()), self._goes)

    # -- a former home -------------------------------------------------------------------------------------------------

    def take_in_passing(self, partition: int) -> None:
        """This node joins a partition for a feed: it may leave it again."""
        if partition not in self.homes:
            self._passing.add(partition)

    def is_passing(self, partition: int) -> bool:
        return partition in self._passing

    def may_leave(self, partition: int) -> bool:
        """Need this node not keep the partition?"""
        return partition not in self.homes and self._is_free(partition)

    def left(self, partition: int) -> None:
        """This node leaves the partition."""
        self._passing.discard(partition)
        self._begin_anew(partition)

    def let_go(
        self, partition: int, name: str, members: Sequence[int], delivered: Mapping[int, int], now: float
    ) -> Steps[None]:
        """Ask the homes of a partition that this node takes as a former home. It may leave if they have everything."""
        yield from self._ask(partition, AskHome(0, name), self.homes_of(partition, members), delivered, now)

    def hand_over(
        self, partition: int, name: str, members: Sequence[int], delivered: Mapping[int, int], now: float
    ) -> Steps[None]:
        """This node leaves the cluster: ask the homes there will be whether they have everything of a partition."""
        self._goes = True
        remain = self.homes_of(partition, members, without={self.node, *self.leaving(now)})
        yield from self._ask(partition, AskHome(0, name, self.node), remain, delivered, now)

    def may_go(self, taken: Iterable[int]) -> bool:
        """May this node, which takes these partitions, leave the cluster?"""
        return all(map(self._is_free, taken))

    def _ask(
        self, partition: int, question: AskHome, remain: Sequence[int], delivered: Mapping[int, int], now: float
    ) -> Steps[None]:
        """Ask these homes how far they are. `delivered`: how far this node is."""
        owed = self._owed.setdefault(partition, dict(delivered))
        states = []
        for home in remain:
            if home != self.node:
                state = yield Ask(home, question)
                if isinstance(state, HomeState) and state.leaves:
                    self.expect_leave(home, now)
                if not isinstance(state, HomeState) or not state.whole:
                    return
                states.append(dict(state.reached))
        if states and self._owed.get(partition) is owed:  # else this node was a home again
            sources = set().union(*states)
            self._confirmed[partition] = {one: min([state.get(one, 0) for state in states]) for one in sources}

    def _is_free(self, partition: int) -> bool:
        """Does this node take the partition in passing, or do the homes have everything?"""
        if partition in self._passing:
            return True
        confirmed = self._confirmed.get(partition)
        if confirmed is None:
            return False
        return all(confirmed.get(source, 0) >= seq for source, seq in self._owed[partition].items())

    def _begin_anew(self, partition: int) -> None:
        self._owed.pop(partition, None)
        self._confirmed.pop(partition, None)
