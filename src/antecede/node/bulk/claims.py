"""A voter: remembers which node publishes which batch of a producer, so that no batch is published at two nodes.

A client that names several nodes may publish each batch at another one. Before it does, a majority of them agrees on
the node, with Paxos: the client is the proposer (`client.claims`), these nodes are the acceptors. A voter keeps one
batch of each producer, the last one. It begins to vote on the next when that one is settled, which means published.
"""

import msgspec

from antecede.core.message import Dependency
from antecede.wire.bulk import Claim, Settle


class Claimed(msgspec.Struct, frozen=True):
    """What a voter keeps of a producer. The fields are those of `wire.bulk.Vote`."""

    batch: int = 0
    promised: int = 0
    accepted: int = 0
    node: str = ""
    voters: tuple[str, ...] = ()
    settled: int = -1
    settled_node: str = ""
    ends: tuple[Dependency, ...] = ()

    @property
    def open(self) -> bool:
        """Was a node accepted for a batch that is not known to be published?"""
        return self.accepted > 0 and self.settled < self.batch


def vote(kept: Claimed, claim: Claim) -> Claimed:
    """What the voter keeps once it has answered `claim`."""
    if claim.batch < kept.batch or claim.batch <= kept.settled or (claim.batch > kept.batch and kept.open):
        return kept  # the answer tells why
    if claim.batch > kept.batch:
        kept = msgspec.structs.replace(kept, batch=claim.batch, promised=0, accepted=0, node="")
    if not claim.node:
        return msgspec.structs.replace(kept, promised=max(kept.promised, claim.ballot))
    if claim.ballot < kept.promised:
        return kept
    return msgspec.structs.replace(
        kept, promised=claim.ballot, accepted=claim.ballot, node=claim.node, voters=claim.voters
    )


def settle(kept: Claimed, told: Settle) -> Claimed:
    """The same for `told`."""
    if told.batch <= kept.settled:
        return kept
    known = msgspec.structs.replace(kept, settled=told.batch, settled_node=told.node, ends=told.ends)
    if told.batch <= kept.batch:
        return known
    return msgspec.structs.replace(known, batch=told.batch, promised=0, accepted=0, node="")
