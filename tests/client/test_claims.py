"""Voters agree on one node for each batch, whatever the clients and the network do."""

import random

import msgspec
import pytest

from antecede.client.claims import Agreed, LostRoundError, Voters
from antecede.core import UsageError
from antecede.core.errors import UnreachableError
from antecede.node.bulk.claims import Claimed, settle, vote
from antecede.wire.bulk import Claim, Settle, Vote

NODES = ("a:1", "b:1", "c:1", "d:1", "e:1")


class Network:
    """Voters in memory. With `loss`, a question or its answer may be lost."""

    def __init__(self, rng: random.Random, loss: float = 0.0) -> None:
        self.rng, self.loss = rng, loss
        self.kept = {address: Claimed() for address in NODES}
        self.begun = dict.fromkeys(NODES, -1)
        self.down: set[str] = set()

    def ask(self, address: str, question: Claim | Settle) -> Vote | None:
        if address in self.down or self.rng.random() < self.loss:
            return None
        kept = self.kept[address]
        kept = self.kept[address] = vote(kept, question) if isinstance(question, Claim) else settle(kept, question)
        if self.rng.random() < self.loss:
            return None
        return Vote(NODES.index(address), begun=self.begun[address], **msgspec.structs.asdict(kept))

    def voters(self, addresses: tuple[str, ...] = NODES[:3]) -> Voters:
        return Voters("p", addresses, self.ask)


@pytest.fixture
def network() -> Network:
    network = Network(random.Random(1))
    assert publish(network.voters(), 0, "a:1") == "a:1"
    return network


def publish(voters: Voters, batch: int, liked: str) -> str:
    """Agree and settle; where."""
    agreed = patiently(voters, batch, liked)
    if agreed.node:
        voters.settle(batch, agreed.node, ((NODES.index(agreed.node), batch + 1),))
    return agreed.node


def patiently(voters: Voters, batch: int, liked: str) -> Agreed:
    while True:
        try:
            return voters.agree(batch, liked)
        except LostRoundError:
            continue


def test_a_batch_that_was_published_is_published_nowhere_again(network: Network) -> None:
    assert publish(network.voters(), 0, "b:1") == ""
    assert publish(network.voters(), 1, "b:1") == "b:1"
    assert publish(network.voters(), 0, "c:1") == ""


def test_a_node_may_be_down_between_batches(network: Network) -> None:
    network.down = {"a:1"}
    agreed = patiently(network.voters(), 1, "b:1")
    assert agreed == Agreed("b:1", ((0, 1),))  # behind the last message of the batch before
    network.voters().settle(1, "b:1", ((1, 7),))
    network.down = {"b:1"}  # the first voter is back, and knows nothing of batch 1
    assert patiently(network.voters(), 2, "a:1") == Agreed("a:1", ((1, 7),))


def test_a_node_that_was_agreed_on_stays_so(network: Network) -> None:
    assert patiently(network.voters(), 1, "a:1").node == "a:1"
    network.down = {"a:1"}
    assert patiently(network.voters(), 1, "b:1").node == "a:1"
    network.down = {"b:1"}
    assert patiently(network.voters(), 1, "c:1").node == "a:1"


def test_without_a_majority_nothing_is_agreed_on(network: Network) -> None:
    network.down = {"a:1", "c:1"}
    with pytest.raises(UnreachableError, match="a:1, c:1 cannot be reached: 1 of 3 nodes answer, a majority must"):
        network.voters().agree(1, "b:1")


def test_an_earlier_batch_is_published_first(network: Network) -> None:
    assert patiently(network.voters(), 1, "c:1").node == "c:1"
    assert patiently(network.voters(), 5, "a:1").earlier == 1
    assert publish(network.voters(), 1, "a:1") == "c:1"
    assert publish(network.voters(), 5, "a:1") == "a:1"


def test_the_list_of_voters_changes_only_as_far_as_majorities_meet(network: Network) -> None:
    with pytest.raises(UsageError, match="keeps too few of the nodes named before"):
        network.voters(("c:1", "d:1", "e:1")).agree(1, "c:1")
    network.down = {"b:1"}
    with pytest.raises(UnreachableError, match="the first batch under a list of nodes needs all of them"):
        network.voters(("b:1", "c:1", "d:1")).agree(1, "c:1")
    network.down = set()
    assert publish(network.voters(("b:1", "c:1", "d:1")), 1, "d:1") == "d:1"
    network.down = {"b:1"}
    assert publish(network.voters(("b:1", "c:1", "d:1")), 2, "c:1") == "c:1"
    with pytest.raises(UnreachableError):  # a client that still has the old list
        network.voters().agree(2, "a:1")
    with pytest.raises(UsageError, match="names a node twice"):
        network.voters(("a:1", "a:1", "b:1"))


def test_a_node_that_published_without_voters_goes_on(network: Network) -> None:
    network.kept = {address: Claimed() for address in NODES}
    network.begun["b:1"] = 4
    assert publish(network.voters(), 4, "a:1") == "b:1"
    network.begun["b:1"] = 4
    network.kept = {address: Claimed() for address in NODES}
    assert publish(network.voters(), 3, "a:1") == ""
    assert publish(network.voters(), 5, "a:1") == "b:1"


@pytest.mark.parametrize("seed", range(300))
def test_at_most_one_node_for_each_batch(seed: int) -> None:
    """Clients with the same producer at the same time, with questions and answers lost: no two nodes for one batch."""
    rng = random.Random(seed)
    network = Network(rng)
    addresses = NODES[: rng.choice((2, 3, 5))]
    clients = [Voters("p", addresses, network.ask) for _ in range(3)]
    assert publish(clients[0], 0, addresses[0])  # the first batch needs all of them
    network.loss = rng.choice((0.0, 0.1, 0.2))
    agreed: dict[int, str] = {}
    published: set[int] = set()
    batch = 1
    for _ in range(200):
        client, liked = rng.choice(clients), rng.choice(addresses)
        network.down = {address for address in addresses if rng.random() < 0.1}
        try:
            found = client.agree(batch, liked)
            if found.node:
                assert agreed.setdefault(batch, found.node) == found.node
                network.begun[found.node] = max(batch, network.begun[found.node])
                if rng.random() < 0.7:
                    published.add(batch)
                    client.settle(batch, found.node, ())
                    batch += 1
            else:
                assert batch in published
                assert found.earlier is None
                batch += 1
        except (LostRoundError, UnreachableError):
            continue
    assert agreed
