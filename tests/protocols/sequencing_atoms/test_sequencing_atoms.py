"""Sequencing atoms: one order for overlapping groups. A mistake in the chain blocks members for ever."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Message, Packet, ProtocolError, UsageError
from antecede.protocols.sequencing_atoms import SequencingAtoms
from antecede.protocols.sequencing_atoms.network import SequencingNetwork
from antecede.protocols.sequencing_atoms.process import Passing, Sequenced
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules

GROUPS = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.integers(0, 9), min_size=1), min_size=1)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(0, 9999),
    st.sampled_from(["uniform:messages=3,window=400", "overlapping:count=5,taken=3,messages=40,interval=20"]),
)
def test_one_order_for_all(nodes: int, seed: int, workload: str) -> None:
    spec = RunSpec(
        protocol="sequencing-atoms",
        nodes=nodes,
        seed=seed,
        network="heavy-tailed",
        workload=workload,
        faults=("duplication:share=0.2",),
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    report = audit(result.trace.rows(), rules=promised_rules(spec), across_topics=False)
    assert report.ok, report
    assert result.metrics["still_held"] == 0


@given(GROUPS)
def test_the_network_has_an_atom_for_each_pair_that_shares_two(groups: dict[str, set[int]]) -> None:
    network = SequencingNetwork(groups)
    pairs = {frozenset(pair) for pair in combinations(groups, 2) if len(groups[pair[0]] & groups[pair[1]]) >= 2}
    assert {atom.groups for atom in network.atoms if len(atom.groups) == 2} == pairs
    for topic in groups:
        first, last = network.spans[topic]
        own = [index for index, atom in enumerate(network.atoms) if topic in atom.groups]
        assert own[0] == first
        assert own[-1] == last
        assert len(own) == 1 or all(len(network.atoms[index].groups) == 2 for index in own)
    for atom in network.atoms:
        assert atom.host in atom.members == frozenset.intersection(*[frozenset(groups[topic]) for topic in atom.groups])


class _Jumping(SequencingAtoms):
    """Messages go from one atom of their group to the next, past those of other groups."""

    def _after(self, topic: str, at: int) -> int:
        _, last = self._network.spans[topic]
        later = [index for index in range(at + 1, last + 1) if topic in self._network.atoms[index].groups]
        return later[0] if later else last + 1


def test_messages_that_jump_over_atoms_of_others_are_numbered_in_circles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then members wait for each other's messages for ever: the paper's circular dependencies."""
    monkeypatch.setattr("antecede.protocols.sequencing_atoms.options.SequencingAtoms", _Jumping)
    workload = "overlapping:count=5,taken=3,messages=60,interval=10"
    held = []
    for seed in range(5):
        result = simulate(
            RunSpec(protocol="sequencing-atoms", nodes=8, seed=seed, network="heavy-tailed", workload=workload)
        )
        held.append(result.metrics["still_held"])
    assert any(held), held


def test_mistakes() -> None:
    node = SequencingAtoms(0, SequencingNetwork({"t": [0, 1], "u": [1]}))
    with pytest.raises(UsageError, match="not a member"):
        node.publish("u", b"")
    with pytest.raises(UsageError, match="do not change"):
        node.subscribe("u")
    for packet in (Packet(), Sequenced(Message("u", 1, 1), 1, ()), Passing(1, Message("v", 1, 1), 0, 0, ())):
        with pytest.raises(ProtocolError, match="not one of its protocol"):
            node.receive(1, packet)
