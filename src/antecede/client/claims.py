"""Lets a client publish each batch of a producer at one of several nodes, and at no other.

The nodes that the client names are the *voters* of its producers. Before a node publishes a batch, a majority of the
voters agrees on that node, with Paxos: the client is the proposer, the voters are the acceptors (`node.bulk.claims`).

1. Promise. The client asks all voters with a ballot. A majority must answer. A voter that answers accepts no lower
   ballot from then on, and tells which node it has accepted for the batch.
2. Accept. The client proposes the node accepted with the highest ballot; if there is none, the node it likes best. If a
   majority accepts, the node is agreed on, for good: every later majority has a voter that says so.
3. Publish. Only the agreed node publishes the batch. If it is down, the client waits for it: its journal may hold
   messages of the batch that no other node has.
4. Settle. The client tells a majority that the batch was published, and the last messages of its node. The next batch
   may be published elsewhere, by a node that has delivered these.

The first batch of a producer under a list of voters needs all of them, so that a list can be changed: the new list must
hold so many voters of the old one that every majority of the old one has a voter in the new one.
"""

import random
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from antecede.core import AntecedeError, UsageError
from antecede.core.errors import UnreachableError
from antecede.core.message import Dependency
from antecede.wire.bulk import Claim, Settle, Vote

#: Asks one voter, by its address. Gives None if it does not answer.
Ask = Callable[[str, Claim | Settle], Vote | None]

#: A ballot is a round, and a number drawn by the client, so that no two clients use the same one.
_DRAWN_BITS: Final = 40


class LostRoundError(AntecedeError):
    """Too few voters answered, or another client asked with a higher ballot. Ask again."""


class Agreed(NamedTuple):
    """What the voters have agreed on."""

    #: The address of the node that publishes the batch; "": it was published before.
    node: str
    #: The last messages of the node that published the batch before.
    after: tuple[Dependency, ...] = ()
    #: The batch to publish first: another client has agreed on its node, and did not settle it. None: there is none.
    earlier: int | None = None


class Voters:
    """The voters of one producer."""

    def __init__(self, producer: str, addresses: Collection[str], ask: Ask) -> None:
        self._producer = producer
        self._addresses = tuple(sorted(addresses))
        if len(set(self._addresses)) < len(self._addresses):
            raise UsageError("url", ",".join(addresses), "names a node twice", "name each node once")
        self._ask = ask
        self._round = 0

    @property
    def majority(self) -> int:
        return len(self._addresses) // 2 + 1

    def agree(self, batch: int, liked: str) -> Agreed:
        """Agree on the node that publishes the batch: `liked`, unless another one may have been agreed on.

        Raises `LostRoundError`, and `UnreachableError` if too few voters answer.
        """
        self._round += 1
        ballot = self._round << _DRAWN_BITS | random.getrandbits(_DRAWN_BITS)
        votes = self._hear(Claim(self._producer, batch, ballot, self._addresses))
        needed = self._needed(votes)
        if len(votes) < needed:
            silent = ", ".join(sorted(set(self._addresses) - set(votes)))
            must = "a majority must"
            if len(votes) >= self.majority:
                must = "and the first batch under a list of nodes needs all of them"
            raise UnreachableError(silent, f"{len(votes)} of {len(self._addresses)} nodes answer, {must}")
        self._round = max(self._round, max(vote.promised for vote in votes.values()) >> _DRAWN_BITS)
        last = max(votes.values(), key=lambda vote: vote.settled)
        begun = {vote.begun: address for address, vote in votes.items()}
        if last.settled >= batch:
            if sum(vote.settled >= batch for vote in votes.values()) < self.majority:
                self.settle(last.settled, last.settled_node, last.ends)
            return Agreed("")
        if max(begun) > batch or any(vote.batch > batch for vote in votes.values()):
            return Agreed("")
        # A voter that was down when a batch was settled votes on no later one before it knows.
        behind = [address for address, vote in votes.items() if vote.settled < last.settled]
        if behind:
            for address in behind:
                self._ask(address, Settle(self._producer, last.settled, last.settled_node, last.ends))
            raise LostRoundError("some voters were behind")
        earlier = [vote.batch for vote in votes.values() if vote.batch < batch and vote.accepted]
        earlier = [one for one in earlier if one > last.settled]
        if earlier:
            return Agreed("", earlier=min(earlier))
        if any(vote.promised != ballot for vote in votes.values()):
            raise LostRoundError("another client asks with a higher ballot")
        accepted = max(votes.values(), key=lambda vote: vote.accepted)
        if max(begun) > last.settled:
            liked = begun[max(begun)]  # it published without voters before; the next batch must follow there
        node = begun.get(batch) or accepted.node or liked
        accepting = self._hear(Claim(self._producer, batch, ballot, self._addresses, node))
        if sum(vote.accepted == ballot for vote in accepting.values()) < needed:
            raise LostRoundError("too few voters accepted")
        return Agreed(node, last.ends)

    def settle(self, batch: int, node: str, ends: tuple[Dependency, ...]) -> None:
        """Tell the voters that the batch was published. Raises `UnreachableError` if too few of them answer."""
        votes = self._hear(Settle(self._producer, batch, node, ends))
        if len(votes) < self.majority:
            silent = ", ".join(sorted(set(self._addresses) - set(votes)))
            raise UnreachableError(silent, f"{len(votes)} of {len(self._addresses)} nodes answer, a majority must")

    def _hear(self, question: Claim | Settle) -> dict[str, Vote]:
        votes: dict[str, Vote] = {}
        for address in self._addresses:
            vote = self._ask(address, question)
            if vote is not None:
                votes[address] = vote
        slots = [vote.voter for vote in votes.values()]
        if len(set(slots)) < len(slots):
            raise UsageError("url", ",".join(self._addresses), "names a node twice", "name each node once")
        return votes

    def _needed(self, votes: dict[str, Vote]) -> int:
        """How many voters must answer."""
        lists = [vote.voters for vote in votes.values()]
        for old in lists:
            enough = (len(old) + 1) // 2  # every majority of the old list has one of these
            if len(set(old) & set(self._addresses)) < enough:
                problem = f"keeps too few of the nodes named before ({', '.join(old)})"
                raise UsageError("url", ",".join(self._addresses), problem, f"keep {enough} of them, then change more")
        return self.majority if lists.count(self._addresses) >= self.majority else len(self._addresses)
