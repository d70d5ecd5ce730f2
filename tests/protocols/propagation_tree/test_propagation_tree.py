"""Propagation trees: one order for overlapping groups, and it depends on FIFO links."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import Report, audit
from antecede.core import Message, Packet, ProtocolError, UsageError
from antecede.protocols.fifo_links import FifoLinks
from antecede.protocols.propagation_tree import PropagationTree
from antecede.protocols.propagation_tree.forest import PropagationForest
from antecede.protocols.propagation_tree.process import Down
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules

GROUPS = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.integers(0, 9), min_size=1), min_size=1)
OVERLAPPING = "overlapping:count=5,taken=3,messages=40,interval=20"


def run(nodes: int, seed: int, workload: str = OVERLAPPING) -> Report:
    spec = RunSpec(
        protocol="propagation-tree",
        nodes=nodes,
        seed=seed,
        network="heavy-tailed",
        workload=workload,
        faults=("duplication:share=0.2",),
    )
    result = simulate(spec, trace=True)
    assert result.trace is not None
    assert result.metrics["still_held"] == 0
    return audit(result.trace.rows(), rules=promised_rules(spec), across_topics=False)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.integers(0, 9999), st.sampled_from(["uniform:messages=3,window=400", OVERLAPPING]))
def test_one_order_for_all(nodes: int, seed: int, workload: str) -> None:
    report = run(nodes, seed, workload)
    assert report.ok, report


@given(GROUPS)
def test_members_are_below_the_primary_destination_of_their_group(groups: dict[str, set[int]]) -> None:
    forest = PropagationForest(groups)
    for topic, members in groups.items():
        primary = forest.primary[topic]
        assert primary in members
        reached, todo = {primary}, [primary]
        while todo:
            below = forest.below(topic, todo.pop())
            assert not reached & set(below)
            reached |= set(below)
            todo += below
        assert members <= reached
        leaves = {node for node in reached if not forest.below(topic, node)}
        assert leaves <= members, "no message goes further than to the last member"


def test_without_fifo_links_nodes_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[int, int, int]] = set()

    def at_once(self: FifoLinks[Down], sender: int, packet: Down) -> list[Down]:
        once = (id(self), sender, packet.number) not in seen
        seen.add((id(self), sender, packet.number))
        return [packet] if once else []

    monkeypatch.setattr(FifoLinks, "take", at_once)
    broken = set()
    for seed in range(4):
        broken |= {rule.name for rule in run(8, seed).rules if rule.violations}
        seen.clear()
    assert "total" in broken


def test_mistakes() -> None:
    node = PropagationTree(0, PropagationForest({"t": [0, 1], "u": [1], "v": [0], "w": [0]}))
    with pytest.raises(UsageError, match="not a member"):
        node.publish("u", b"")
    with pytest.raises(UsageError, match="do not change"):
        node.subscribe("u")
    for packet in (Packet(), Down(1, Message("x", 1, 1))):
        with pytest.raises(ProtocolError, match="not one of its protocol"):
            node.receive(1, packet)
    assert node.children("t") == (1,)
