"""The suite sees what is broken: protocols without order, transports without manners, worlds that lose things."""

import asyncio
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from antecede.core import Message, Packet, Process
from antecede.protocols.aggregation.packets import Bundle
from antecede.testing import (
    SCENARIOS,
    SUBJECTS,
    ConformanceError,
    MemoryWorld,
    SimWorld,
    Subject,
    TcpWorld,
    check_transport,
    live_world,
    play,
)
from antecede.testing import transports as transport_checks
from antecede.wire.memory import MemoryNetwork, MemoryTransport
from antecede.wire.transport import Transport


class Careless(Process):
    """Sends to everybody and delivers what comes as it comes. `flaw` adds to that."""

    def __init__(self, node: int, nodes: int, flaw: str) -> None:
        super().__init__(node)
        self.others = [other for other in range(nodes) if other != node]
        self.flaw = flaw
        self.seq = 0

    def publish(self, topic: str, payload: bytes) -> Message:
        self.seq += 2 if self.flaw == "skips numbers" and self.seq == 3 else 1
        message = Message(topic, self.node, self.seq, (), payload)
        self.out.deliver(message)
        for other in self.others:
            self.out.send(other, Bundle((message,)))
        return message

    def receive(self, sender: int, packet: Packet) -> None:
        for message in packet.messages:
            self.out.deliver(message)
            if self.flaw == "delivers twice":
                self.out.deliver(message)
            if self.flaw == "breaks":
                raise ZeroDivisionError("a bug")

    def size(self, packet: Packet) -> int:
        return 0


def careless(flaw: str = "") -> Subject:
    return Subject(
        name="careless",
        build=lambda nodes: lambda node: Careless(node, nodes, flaw),
        packets=(Bundle,),
        tolerates=frozenset({"loss", "duplicates", "partition", "crash"}),
    )


@pytest.mark.parametrize("world", [SimWorld, MemoryWorld, TcpWorld])
def test_without_order_the_triangle_fails_everywhere(world: type) -> None:
    """On a busy machine, packets on real links may come in order by chance."""
    said = ""
    seeds = iter(range(1, 2 if world is SimWorld else 6))
    while not said and (seed := next(seeds, 0)):
        try:
            asyncio.run(play(SCENARIOS["triangle"], careless(), world, seed=seed))
        except ConformanceError as error:
            said = str(error)
    assert re.search(rf"triangle with careless in \w+World, seed {seed}.*\n(.*\n)+causal violated", said)


@pytest.mark.parametrize(
    ("scenario", "flaw", "rule"),
    [
        ("pipeline", "delivers twice", "exactly-once"),
        ("pipeline", "skips numbers", "no-invention"),
        ("reorder", "", "causal"),
        ("duplicates", "", "exactly-once"),
    ],
)
def test_the_judge_names_the_rule(scenario: str, flaw: str, rule: str) -> None:
    with pytest.raises(ConformanceError, match=f"{rule} violated"):
        asyncio.run(play(SCENARIOS[scenario], careless(flaw), SimWorld))


def test_what_never_comes_is_waited_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_world, "_PATIENCE_S", 0.3)
    for world in (SimWorld, MemoryWorld):
        with pytest.raises(
            ConformanceError, match=r"waited in vain for \d+ deliveries at every node; deliveries so far:"
        ):
            asyncio.run(play(SCENARIOS["loss"], careless(), world))


def test_a_node_that_breaks_is_named() -> None:
    with pytest.raises(ConformanceError, match="node 1 stopped: a bug"):
        asyncio.run(play(SCENARIOS["triangle"], careless("breaks"), MemoryWorld))


def test_pairs_that_are_not_fair_are_refused() -> None:
    with pytest.raises(ConformanceError, match="does not claim to cope with loss"):
        asyncio.run(play(SCENARIOS["loss"], SUBJECTS["causal-aggregation"], SimWorld))
    with pytest.raises(ConformanceError, match="needs one with journals"):
        asyncio.run(play(SCENARIOS["crash-recover"], SUBJECTS["vcube-ps"], MemoryWorld))


class Forgetful(Careless):
    """Keeps nothing: after a crash it begins again from 1."""

    def restore(self, records: Iterable[object]) -> None: ...


def test_a_protocol_that_forgets_its_numbers_is_found_out(tmp_path: Path) -> None:
    subject = Subject(
        name="forgetful",
        build=lambda nodes: lambda node: Forgetful(node, nodes, ""),
        packets=(Bundle,),
        tolerates=frozenset({"loss", "crash"}),
    )

    async def crash_once(world: SimWorld) -> None:
        world.publish(0, b"before")
        await world.until_all_have(1)
        await world.crash_noticed(0)
        await world.recovery_noticed(0)
        world.publish(0, b"after")
        await world.until_all_have(2)

    scenario = SCENARIOS["crash-recover"]
    story = type(scenario)(
        name="forget",
        summary="",
        nodes=3,
        network=scenario.network,
        play=crash_once,
        needs=scenario.needs,  # type: ignore[arg-type]
    )
    for world in (SimWorld, partial(MemoryWorld, directory=tmp_path)):
        with pytest.raises(ConformanceError, match="exactly-once violated"):
            asyncio.run(play(story, subject, world))


# -- transports ----------------------------------------------------------------------------------------------------


class Rude(MemoryTransport):
    """A memory transport with one bad habit."""

    habit = ""

    def send(self, to: int, packet: Packet) -> None:
        number = next((message.seq for message in packet.messages), 0)
        if self.habit == "raises" and to == 77:
            raise KeyError(to)
        if self.habit == "does not count" and to == 77:
            return
        if self.habit == "loses" and number == 500:
            return
        if self.habit == "changes" and number == 500:
            packet = Bundle(tuple(Message("t", 5, message.seq, (), b"") for message in packet.messages))
        super().send(to, packet)
        if self.habit == "repeats" and number == 500:
            super().send(to, packet)

    def pause(self) -> None:
        if self.habit != "does not pause":
            super().pause()

    async def close(self) -> None:
        if self.habit != "does not close":
            await super().close()


def rude_pair(habit: str) -> Callable[[], object]:
    async def make() -> tuple[Transport, Transport, Callable[[], None]]:
        network = MemoryNetwork(inbox_max=2_000)
        ends = Rude(network, 3, 1), Rude(network, 8, 1)
        for end in ends:
            end.habit = habit
        return (*ends, lambda: None)

    return make


@pytest.mark.parametrize(
    ("habit", "problem"),
    [
        ("loses", "in vain for every packet"),
        ("repeats", "arrived twice"),
        ("changes", "arrived changed"),
        ("does not count", "was not counted"),
        ("does not pause", "never counted as behind"),
        ("does not close", "in vain for the end of the link"),
    ],
)
def test_bad_habits_are_found(habit: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_checks, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(transport_checks, "_SENDS_MAX", 5_000)
    with pytest.raises(ConformanceError, match=problem):
        asyncio.run(check_transport(rude_pair(habit)))  # type: ignore[arg-type]


def test_a_transport_that_raises_is_not_excused() -> None:
    with pytest.raises(KeyError):
        asyncio.run(check_transport(rude_pair("raises")))  # type: ignore[arg-type]


def test_simulated_worlds_repeat_exactly() -> None:
    def run(seed: int) -> list[object]:
        worlds: list[SimWorld] = []

        def make(*what: object) -> SimWorld:
            worlds.append(SimWorld(*what))  # type: ignore[arg-type]
            return worlds[-1]

        asyncio.run(play(SCENARIOS["storm"], SUBJECTS["vcube-ps"], make, seed=seed))
        return list(worlds[0].rows())

    assert run(5) == run(5)
    assert run(5) != run(6)
