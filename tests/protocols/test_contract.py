"""Every protocol of the registry answers the contract's questions by what it does (`core.process`)."""

import random

import pytest

from antecede.core import UsageError
from antecede.protocols.options import GroupOptions, MakeProcess, RngOptions
from antecede.protocols.registry import PROTOCOLS, options
from antecede.sim.engine import Simulation
from antecede.sim.network import PacketSwitched, constant
from antecede.sim.units import TICKS

NODES = 8
MEMBERS = [0, 1, 2, 5]
#: Diagnosis carries no messages.
#: Their groups do not change.
FIXED = {
    "cbcast",
    "causal-barriers",
    "delta-neighbourhood",
    "pbcast",
    "lpbcast",
    "pabcast",
    "safe-links",
    "probabilistic-clocks",
    "message-history",
    "delta-causal",
    "jedi",
    "sequencing-atoms",
    "propagation-tree",
}
NAMES = sorted(PROTOCOLS.keys() - {"vcube-diagnosis"})


def build(name: str, members: list[int]) -> MakeProcess:
    """Makes processes that know `members` of topic "t" from the start; in a broadcast all are."""
    chosen = options(name, {"brokers": 4} if name == "srpt-b" or name.startswith("gossip") else {})
    if isinstance(chosen, RngOptions):
        return chosen.build_with_rng(NODES, {"t": members}, random.Random)
    if isinstance(chosen, GroupOptions):
        return chosen.build_groups(NODES, {"t": members})
    return chosen.build(NODES)


def simulation(name: str, members: list[int]) -> Simulation:
    return Simulation(build(name, members), range(NODES), PacketSwitched(constant(TICKS)), [])


@pytest.mark.parametrize("name", NAMES)
def test_members_take_a_topic(name: str) -> None:
    running = simulation(name, MEMBERS)
    broadcast = PROTOCOLS[name].options.broadcast
    for node, process in running.processes.items():
        assert process.takes("t") == process.wants("t") == (broadcast or node in MEMBERS), node


@pytest.mark.parametrize("name", NAMES)
def test_a_subscription_is_wanted_at_once_and_taken_in_the_end(name: str) -> None:
    running = simulation(name, MEMBERS)
    process = running.processes[6]
    if PROTOCOLS[name].options.broadcast or name in FIXED:
        with pytest.raises(UsageError, match=r"^topic"):
            running.subscribe(6, "t")
        return
    running.subscribe(6, "t")
    assert process.wants("t")
    running.run(until=running.now + 10_000 * TICKS)
    assert process.takes("t")
    assert process.unfinished() == []
    running.unsubscribe(6, "t")
    assert not process.wants("t")
    running.run(until=running.now + 10_000 * TICKS)
    assert not process.takes("t")


@pytest.mark.parametrize("name", NAMES)
def test_at_rest_nothing_is_held_nor_unfinished(name: str) -> None:
    running = simulation(name, MEMBERS)
    for number in range(10):
        running.publish(number % 3, "t", b"%d" % number)
    running.run(until=100_000 * TICKS)
    for process in running.processes.values():
        assert (process.held, process.holding(), process.unfinished(), process.backlog) == (0, [], [], 0)
        assert process.given_up == 0
        assert process.out.acknowledgements == []  # a driver reads or drops them
