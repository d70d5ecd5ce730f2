"""The authors' time model, and what is measured in it."""

import random
from collections import Counter
from statistics import fmean

import pytest

from antecede.core import UsageError
from antecede.core.choices import parse
from antecede.sim import RunSpec, simulate
from antecede.sim.networks import NETWORKS
from antecede.sim.peersim import StepQueues
from antecede.sim.units import TICKS


class Clock:
    steps = 0


def sent(network: StepQueues, step: float, sender: int = 0, size: int = 0) -> int:
    (arrival,) = network.arrivals(round(step * TICKS), sender, 1, size)
    assert arrival % TICKS == 0 or size
    return arrival // TICKS


def test_a_hop_takes_99_plus_the_place_in_the_queue_on_average() -> None:
    delays: dict[int, list[int]] = {place: [] for place in range(1, 6)}
    for seed in range(2000):
        network = StepQueues(random.Random(seed), propagation=100)
        for found in delays.values():
            found.append(sent(network, 7) - 7)
    for place, found in delays.items():
        assert fmean(found) == pytest.approx(99 + place, abs=0.06)
    assert Counter(delays[1]).keys() == {99, 100, 101}


def test_one_packet_a_step_and_node() -> None:
    network = StepQueues(random.Random(1), propagation=100)
    network.record()
    leaving = [sent(network, 3) for _ in range(200)]
    assert leaving[-1] - leaving[0] == pytest.approx(199, abs=1)
    assert list(network.places) == list(range(1, 201))
    assert sent(network, 3, sender=9) <= 104, "another node has another queue"


def test_between_two_steps_a_packet_leaves_with_the_next() -> None:
    network = StepQueues(random.Random(1), propagation=100)
    assert sent(network, 7.5) in (107, 108)


def test_the_turn_to_send_falls_anywhere_among_the_events_of_a_step() -> None:
    """Of two events in one step both are before the turn, both after, or one is: a third each."""
    found: Counter[tuple[int, int]] = Counter()
    for seed in range(3000):
        network, clock = StepQueues(random.Random(seed), propagation=100), Clock()
        network.events = clock
        network.record()
        for _ in range(2):
            clock.steps += 1
            sent(network, 5)
        found[network.places[0], network.places[1]] += 1
    assert set(found) == {(1, 1), (1, 2)}
    assert found[1, 1] / 3000 == pytest.approx(1 / 3, abs=0.03)


def test_short_packets_may_bypass_the_queue() -> None:
    network = StepQueues(random.Random(1), propagation=100, express_bytes=40)
    for _ in range(50):
        sent(network, 3, size=80)
    assert sent(network, 3, size=40) in (102, 103)
    assert network.weighs


def test_chosen_by_name() -> None:
    network = parse("network", "peersim:delay=1000", NETWORKS).build(8, "seed")
    (arrival,) = network.arrivals(0, 0, 1, 0)
    assert arrival // TICKS in (999, 1000, 1001)
    with pytest.raises(UsageError, match="delay"):
        parse("network", "peersim:delay=0", NETWORKS)


def test_what_is_measured_of_a_group() -> None:
    metrics = simulate(
        RunSpec(protocol="vcube-ps", nodes=8, network="peersim", workload="one", options={"mode": "faithful"})
    ).metrics
    assert metrics["sent"] == {"pub": 7, "ack": 7}
    assert metrics["hops"] == {"0": 1, "1": 3, "2": 3, "3": 1}
    assert metrics["place_mean"] == pytest.approx(18 / 14)
    assert metrics["place_mean_by_kind"] == {"pub": pytest.approx(11 / 7), "ack": 1.0}
    assert metrics["wait"]["mean"] == 0  # type: ignore[index]
    assert metrics["turn"] == 0


def test_a_message_that_waits_for_its_turn_is_counted_from_the_request() -> None:
    metrics = simulate(
        RunSpec(
            protocol="vcube-ps",
            nodes=8,
            network="constant:delay=100,t_pc=0,t_t=0",
            workload="one:messages=2",
            options={"mode": "faithful"},
        )
    ).metrics
    assert metrics["turn"] == 300, "the second waits for a round trip of three hops each way"
    mean = metrics["reception_latency"]["mean"]  # type: ignore[index]
    assert metrics["latency_from_request"] == pytest.approx(mean + 300)


# -- who takes part ---------------------------------------------------------------------------------------------------


def test_exactly_the_share_subscribes_and_publishers_are_members() -> None:
    for seed in range(5):
        metrics = simulate(
            RunSpec(
                protocol="srpt-s",
                nodes=32,
                seed=seed,
                workload="uniform:subscribers=0.25,publishers=0.5",
                options={"root": 0},
            )
        ).metrics
        assert metrics["subscriptions"] == 8
        assert metrics["published"] == 4


def test_churn_keeps_the_group_at_its_size() -> None:
    spec = RunSpec(protocol="srpt-s", nodes=32, workload="churn:size=12,session=2000,messages=100,interval=50")
    metrics = simulate(spec).metrics
    assert metrics["published"] == 100
    assert metrics["subscriptions"] == 12 + metrics["unsubscriptions"]  # type: ignore[operator]
    assert 15 < metrics["unsubscriptions"] < 50  # type: ignore[operator]


def test_churn_needs_somebody_outside() -> None:
    with pytest.raises(UsageError, match="leave some outside"):
        simulate(RunSpec(protocol="srpt-s", nodes=8, workload="churn:size=8,session=100"))


def test_brokers_stand_aside() -> None:
    spec = RunSpec(
        protocol="srpt-b", nodes=32, workload="one:aside=8", options={"brokers": 8, "root": 0}, network="peersim"
    )
    metrics = simulate(spec).metrics
    assert metrics["subscriptions"] == metrics["receptions"] == 24
    assert metrics["relayed"] == 7, "every broker but the root"


def test_quiet() -> None:
    metrics = simulate(RunSpec(protocol="vcube-diagnosis", nodes=8, workload="quiet", options={"rounds": 3})).metrics
    assert metrics["sent"] == {"probe": 72, "reply": 72}
