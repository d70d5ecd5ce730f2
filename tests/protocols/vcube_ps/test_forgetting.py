"""A node that is gone for good is forgotten, and its number gets another owner whose numbers never collide."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
import pytest

from antecede.core import Message, UsageError
from antecede.core.epochs import epoch_base
from antecede.protocols.vcube_ps import FaithfulVCubePs, TopicOrder
from antecede.protocols.vcube_ps.options import VCubePsOptions
from antecede.protocols.vcube_ps.records import Closed, Forgotten
from antecede.search.vcube_ps import Trial, VCubePsRun, search, trial_of
from antecede.sim.engine import Simulation
from antecede.sim.network import PacketSwitched, constant
from antecede.sim.units import ticks
from tests.protocols.vcube_ps import mutations_forgetting as mutations

#: Two topics of one domain; nodes crash, are suspected wrongly, are forgotten and replaced.
FORGETTING = Trial(
    mode="pipelined",
    nodes=4,
    topics=2,
    domain="all",
    loss=0.1,
    crashes=2,
    stay_down=0.0,
    false_suspicions=4,
    forgets=2,
    reuses=0.9,
    founders=0.75,
    answers=0.15,
    leaves=0.1,
    window_of_time=3000.0,
)


def three(*, log: bool = False) -> Simulation:
    """Three members of one topic."""
    options = VCubePsOptions(domain="topic", log=log)
    network = PacketSwitched(constant(ticks(10)))
    return Simulation(options.build_groups(3, {"t": [0, 1, 2]}), range(3), network)


def lose(simulation: Simulation, node: int) -> None:
    simulation.crash(node)
    for other in simulation.processes:
        simulation.suspect(other, node)
    simulation.run()


@pytest.mark.parametrize("log", [False, True])
def test_nothing_is_kept_for_a_node_that_was_forgotten_and_all_learn_of_it(log: bool) -> None:
    simulation = three(log=log)
    lose(simulation, 2)
    for number in range(5):
        simulation.publish(0, "t", bytes([number]))
    simulation.run()
    process = simulation.processes[0]
    assert process.lagging("t") == {2: 5}
    simulation.forget(0, 2, 1)  # node 1 is told by node 0
    simulation.run()
    for node in (0, 1):
        assert simulation.processes[node].members("t") == {0, 1}
        assert simulation.processes[node].lagging("t") == {}
    kept = simulation._kept[1]
    assert Forgotten(2, 1) in kept
    assert Closed("t", 2, 1, 0) in kept


@pytest.mark.parametrize("log", [False, True])
def test_the_next_owner_of_a_number_begins_above_what_the_former_one_could_give(log: bool) -> None:
    simulation = three(log=log)
    delivered: list[tuple[int, Message]] = []
    simulation.on_delivery = lambda node, message: delivered.append((node, message))
    simulation.publish(2, "t", b"old")
    simulation.run()
    lose(simulation, 2)
    simulation.forget(0, 2, 1)
    simulation.run()
    simulation.replace(2, [Forgotten(2, 1)])
    for other in (0, 1):
        simulation.trust(other, 2)
    simulation.subscribe(2, "t")
    simulation.run()
    assert simulation.processes[2].last_published("t") == epoch_base(1)
    # It joined behind the seam, and knows where that is; also after a crash.
    assert simulation.processes[2].last_before("t", 2, 1) == 1
    simulation.crash(2)
    simulation.recover(2)
    simulation.run()
    assert simulation.processes[2].last_before("t", 2, 1) == 1
    assert simulation.publish(2, "t", b"new") is not None
    simulation.run()
    new = [(node, message.seq) for node, message in delivered if message.payload == b"new"]
    assert sorted(new) == [(node, epoch_base(1) + 1) for node in range(3)]
    # And after a crash of the new owner.
    simulation.crash(2)
    simulation.recover(2)
    simulation.run()
    again = simulation.publish(2, "t", b"again")
    simulation.run()
    assert again is None or again.seq == epoch_base(1) + 2
    assert simulation.processes[2].last_published("t") == epoch_base(1) + 2


def test_a_node_that_is_down_keeps_the_stream_open() -> None:
    """Perhaps it has delivered a message that no other node has."""
    simulation = three()
    lose(simulation, 1)
    lose(simulation, 2)
    simulation.forget(0, 2, 1)
    simulation.run()
    assert not [record for record in simulation._kept[0] if isinstance(record, Closed)]
    simulation.forget(0, 1, 1)
    simulation.run()
    assert {record.source for record in simulation._kept[0] if isinstance(record, Closed)} == {1, 2}


def test_the_mode_of_the_thesis_refuses_by_name() -> None:
    process = FaithfulVCubePs(0, 2, lambda: TopicOrder(0), {})
    with pytest.raises(UsageError, match="FaithfulVCubePs cannot forget a node"):
        process.forget(1, 1)


#: Each of these seeds showed an error while this was written.
@pytest.mark.parametrize("seed", [49, 184, 496, 683, 1484, 2510, 3178, 4166, 12978])
def test_seeds_that_went_wrong_once(seed: int) -> None:
    trial = trial_of(seed)
    assert trial.forgets
    verdict = search(seed)
    assert verdict.ok, verdict.words


def test_a_node_that_joined_behind_the_seam_can_close_it_for_others() -> None:
    """The next owner of the number is the custodian of its stream, and was not there when the nodes agreed."""
    verdict = search(444, msgspec.structs.replace(trial_of(444), forgets=1, stay_down=0.0))
    assert verdict.ok, verdict.words


def test_numbers_are_reused_in_the_search() -> None:
    run = VCubePsRun(0, FORGETTING)
    assert run.judge().ok
    assert +run.watcher.epochs


@pytest.mark.parametrize(
    ("mutation", "seed", "trial", "rule"),
    [
        (mutations.reuses_a_slot_without_epoch, 0, FORGETTING, "no-invention"),
        (mutations.closes_nothing, 0, FORGETTING, "blocked"),
        (mutations.does_not_wait_for_the_absent, 72, FORGETTING, "agreement"),
        (mutations.trusts_its_own_messages, 4166, trial_of(4166), "causal"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_search_finds_the_error(
    mutation: Callable[[], AbstractContextManager[None]], seed: int, trial: Trial, rule: str
) -> None:
    with mutation():
        verdict = search(seed, trial)
    assert rule in verdict.violated, verdict.words
    assert search(seed, trial).ok
