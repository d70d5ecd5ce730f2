"""What a node remembers: no more the longer it runs, no more the larger the system, and all of it after a crash."""

import random
from collections.abc import Callable

import pytest

from antecede.core import LimitError, Message
from antecede.overlay.extended import Extended
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree, line
from antecede.protocols.locamu import LoCaMu, Sizes
from antecede.protocols.locamu.identifiers import Ids, link
from antecede.protocols.locamu.packets import Data, Interest, Parcel
from antecede.protocols.locamu.sizes import links_around
from antecede.search.locamu import TIMING, LocamuRun, make_locamu, trial_of
from antecede.sim.engine import Simulation
from antecede.sim.network import PacketSwitched, normal
from antecede.sim.units import ticks


def run(
    graph: BaseGraph, messages: int, publishers: list[int], every: float = 200.0
) -> tuple[dict[str, int], Simulation]:
    """The most any node remembered of each kind while so many messages were published one after the other."""
    rng = random.Random("state")
    everybody = {"all": list(range(graph.nodes))}
    network = PacketSwitched(normal(rng, ticks(100), ticks(25), ticks(1)))
    simulation = Simulation(make_locamu(graph, everybody, 1), range(graph.nodes), network)
    peak: dict[str, int] = {}

    def look() -> None:
        for process in simulation.processes.values():
            assert isinstance(process, LoCaMu)
            for kind, size in process.footprint().items():
                peak[kind] = max(size, peak.get(kind, 0))

    for number in range(messages):
        publisher = rng.choice(publishers)
        simulation.at(ticks(every * number), lambda node=publisher: simulation.publish(node, "all", b""))  # type: ignore[misc]
        if number % 10 == 5:
            simulation.at(ticks(every * number), look)
    simulation.run()
    return peak, simulation


def test_what_a_node_remembers_does_not_grow_with_the_life_of_the_run() -> None:
    graph = complete_tree(15)
    short, _ = run(graph, 50, list(range(15)))
    long, simulation = run(graph, 240, list(range(15)))
    for kind in ("counters", "routes"):
        assert long[kind] == short[kind], kind
    for kind in ("log", "names", "held", "unheard"):
        assert long[kind] <= 2 * short[kind] + 8, (kind, short, long)
    for process in simulation.processes.values():
        assert isinstance(process, LoCaMu)
        left = process.footprint()
        assert (left["log"], left["names"], left["held"], left["unheard"]) == (0, 0, 0, 0)


def test_what_a_node_remembers_does_not_grow_with_the_system() -> None:
    publishers = list(range(15))
    small, _ = run(complete_tree(31), 60, publishers)
    large, _ = run(complete_tree(127), 60, publishers)
    assert small["counters"] == large["counters"] <= 102 + 21
    assert small["routes"] == large["routes"] == 10
    for kind in ("log", "names"):
        assert large[kind] <= 2 * small[kind] + 8, (kind, small, large)


def test_the_papers_540_bytes() -> None:
    """102 links around an inner node at four bytes, and three vectors of nine targets."""
    inner = Extended(complete_tree(511), 1).around(7)
    assert len(inner.safe) == 22
    assert links_around(inner) == 102
    sizes = Sizes()
    vector = sizes.node + sizes.length + len(inner.numbered) * sizes.counter
    assert links_around(inner) * sizes.counter + 3 * vector == 540


def test_no_header_is_larger_than_the_papers() -> None:
    found: list[int] = []

    class Watch(LoCaMu):
        def size(self, packet: object) -> int:
            assert isinstance(packet, Parcel)
            if packet.data is not None:
                found.append(self._sizes.metadata(packet.data, links_around(self.around)))
            return 0

    graph = complete_tree(63)
    extended = Extended(graph, 1)
    founding = {"all": graph.directions(range(63))}

    def make(node: int) -> LoCaMu:
        return Watch(extended.around(node), founding, TIMING)

    network = PacketSwitched(normal(random.Random(1), ticks(100), ticks(25), ticks(1)), ticks_per_byte=1e-9)
    simulation = Simulation(make, range(63), network)
    for number in range(30):
        simulation.at(ticks(5 * number), lambda node=number: simulation.publish(node, "all", b""))  # type: ignore[misc]
    simulation.run()
    assert len(found) >= 30 * 62
    assert max(found) <= 540
    assert sum(found) / len(found) < 400


# -- a crash and after ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(0, 24, 4))
def test_what_was_kept_says_all(seed: int) -> None:
    """After any run, a node read back from its records knows what it knew; so does one read from a snapshot of that."""
    run = LocamuRun(seed, trial_of(seed))
    make = run.maker()
    assert run.judge().ok
    simulation = run.simulation
    for node, process in simulation.processes.items():
        assert isinstance(process, LoCaMu)
        again, from_snapshot = make(node), make(node)
        assert isinstance(again, LoCaMu)
        assert isinstance(from_snapshot, LoCaMu)
        again.restore(simulation._kept[node])
        assert known(again) == known(process)
        from_snapshot.restore(again.state.snapshot())
        assert known(from_snapshot) == known(process)
        assert not again.out.kept
        assert not again.out.sends


def known(process: LoCaMu) -> tuple[object, ...]:
    state = process.state
    return (
        state.past,
        {sender: progress for sender, progress in state.column.all_progress().items() if progress != (0, ())},
        state.published,
        state.life,
        [(entry.message.id, entry.ids, entry.past, sorted(entry.targets)) for entry in state.log.entries],
        sorted(sorted(names.ids.items()) for names in state.log.foreign),
        sorted(state.routing.joined),
        sorted(state.routing.joining),
    )


# -- small things -----------------------------------------------------------------------------------------------------


def test_a_publisher_delivers_its_own_and_nothing_goes_back() -> None:
    """As printed, a member never delivers what it published, and targets include where a message comes from."""
    sent: list[tuple[int, int, Message]] = []
    delivered: list[tuple[int, int]] = []

    class Watch:
        def sent(self, now: int, node: int, to: int, number: int, packet: Parcel, size: int) -> None:
            sent.extend((node, to, message) for message in packet.messages)

        def delivered(self, now: int, node: int, message: Message) -> None:
            delivered.append((node, message.seq))

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_: None

    graph = line(4)
    make = make_locamu(graph, {"all": [0, 1, 2, 3]}, 1)
    simulation = Simulation(make, range(4), PacketSwitched(lambda a, b: ticks(1)), [Watch()])  # type: ignore[list-item]
    simulation.publish(1, "all", b"")
    simulation.run()
    assert sorted(delivered) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert sorted((node, to) for node, to, _ in sent) == [(1, 0), (1, 2), (2, 3)]


def test_who_has_joined_is_not_given_what_it_was_overtaken_by() -> None:
    """On the line 0-1-2-3, news/0.2 came past node 1 and said that news/0.1 had come before it. That one comes now."""
    graph = Extended(line(4), 1)
    process = LoCaMu(graph.around(3), {"news": graph.base.directions([0, 3])}, TIMING)
    process.start()
    process.state.routing.learn(Interest(1, "news", 1, (0, 1, 2)))  # somebody has come, so relays may have disagreed

    def receive(sender: int, seq: int, message: int, path: Ids, past: Ids) -> list[int]:
        data = Data(Message("news", 0, message, (), b""), 0, True, path, {}, past)
        process.receive(sender, Parcel(1, seq, 0, 0, data))
        delivered = [delivery.seq for delivery in process.out.deliveries]
        process.out.clear()
        return delivered

    first, second = {link(0, 1): 1, link(0, 2): 1}, {link(0, 1): 2, link(0, 2): 2}
    assert receive(2, 1, 2, {**second, link(2, 3): 1}, first) == [2]
    assert receive(1, 1, 1, {**first, link(1, 3): 1}, {}) == []
    assert not process.held


def test_a_full_log_refuses_to_publish() -> None:
    """Nothing a neighbour may need is ever dropped: the publisher is told instead."""
    graph = Extended(line(3), 1)
    founding = {"all": graph.base.directions(range(3))}
    process = LoCaMu(graph.around(0), founding, TIMING, log_max=3)
    process.start()
    for _ in range(3):
        process.publish("all", b"")
    with pytest.raises(LimitError, match="bring back the nodes that are down"):
        process.publish("all", b"")
