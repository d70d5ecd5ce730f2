"""The scenarios: written once, against `World`, each the smallest that shows what it is named for.

`needs` says what a protocol must cope with for the scenario to be fair to it: "duplicates", "loss", "partition",
"crash". Reordering is expected of every protocol here; that is what order is for.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from antecede.core import Message
from antecede.sim.faults import duplicating, losing
from antecede.sim.network import Network, PacketSwitched, Propagation, constant, heavy_tailed
from antecede.testing.world import World

Play: TypeAlias = Callable[[World], Awaitable[None]]
MakeNetwork: TypeAlias = Callable[[random.Random], Network]

#: An ordinary link, in microseconds.
_LINK_US: Final = 300


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A little story about a few nodes."""

    name: str
    summary: str
    nodes: int
    network: MakeNetwork
    play: Play
    needs: frozenset[str] = frozenset()


SCENARIOS: dict[str, Scenario] = {}


def _scenario(
    name: str, *, nodes: int, network: MakeNetwork, needs: frozenset[str] = frozenset()
) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        summary = (play.__doc__ or "").partition("\n")[0]
        SCENARIOS[name] = Scenario(name=name, summary=summary, nodes=nodes, network=network, play=play, needs=needs)
        return play

    return register


# -- networks --------------------------------------------------------------------------------------------------------


def _plain(rng: random.Random) -> Network:
    return PacketSwitched(constant(_LINK_US))


def _overtaking(rng: random.Random) -> Network:
    """Most packets quick, some very late: every order there is."""
    return PacketSwitched(heavy_tailed(rng, 1_000, 1.2))


def _slow_link(sender: int, to: int, delay_us: int) -> MakeNetwork:
    def propagation(rng: random.Random) -> Propagation:
        return lambda a, b: delay_us if (a, b) == (sender, to) else _LINK_US

    return lambda rng: PacketSwitched(propagation(rng))


def _lossy(rng: random.Random) -> Network:
    return losing(_plain(rng), 0.2, rng)


def _repeating(rng: random.Random) -> Network:
    return duplicating(_overtaking(rng), 0.4, rng, spread=5_000)


def _storm(rng: random.Random) -> Network:
    return duplicating(losing(_overtaking(rng), 0.1, rng), 0.1, rng, spread=5_000)


# -- stories ---------------------------------------------------------------------------------------------------------


@_scenario("triangle", nodes=4, network=_slow_link(0, 2, 50_000))
async def triangle(world: World) -> None:
    """0 asks, 1 answers; the question is slow on its way to 2, where the answer must wait for it."""

    def answer(node: int, message: Message) -> None:
        if node == 1 and message.payload == b"question":
            world.publish(1, b"answer")

    world.on_delivery = answer
    world.publish(0, b"question")
    await world.until_all_have(2)


@_scenario("pipeline", nodes=5, network=_plain)
async def pipeline(world: World) -> None:
    """One node publishes without waiting for anybody."""
    for number in range(300):
        world.publish(2, b"%d" % number)
    await world.until_all_have(300)


@_scenario("fan-in", nodes=6, network=_plain)
async def fan_in(world: World) -> None:
    """All publish at the same time."""
    for number in range(40):
        for node in range(world.nodes):
            world.publish(node, b"%d" % number)
    await world.until_all_have(40 * world.nodes)


@_scenario("reorder", nodes=6, network=_overtaking)
async def reorder(world: World) -> None:
    """A long discussion over links on which packets overtake each other."""
    await _discuss(world, 150)


@_scenario("duplicates", nodes=4, network=_repeating, needs=frozenset({"duplicates"}))
async def duplicates(world: World) -> None:
    """A discussion in which many packets arrive twice."""
    await _discuss(world, 100)


@_scenario("loss", nodes=4, network=_lossy, needs=frozenset({"loss"}))
async def loss(world: World) -> None:
    """A fifth of all packets is lost."""
    await _discuss(world, 60)


@_scenario("storm", nodes=6, network=_storm, needs=frozenset({"loss", "duplicates"}))
async def storm(world: World) -> None:
    """Loss, duplicates and overtaking together."""
    await _discuss(world, 60)


@_scenario("partition-and-heal", nodes=4, network=_plain, needs=frozenset({"loss", "partition"}))
async def partition_and_heal(world: World) -> None:
    """Two halves go on without each other, then find together again."""
    for node in range(world.nodes):
        world.publish(node, b"before")
    await world.until_all_have(world.nodes)
    world.cut.cut({0, 1})
    for number in range(10):
        for node in range(world.nodes):
            world.publish(node, b"apart %d" % number)
        await world.pause(2_000)
    world.cut.heal()
    for node in range(world.nodes):
        world.publish(node, b"after")
    await world.until_all_have(12 * world.nodes)


@_scenario("crash-recover", nodes=5, network=_plain, needs=frozenset({"loss", "crash"}))
async def crash_recover(world: World) -> None:
    """A node crashes in mid-stream, comes back with what it kept, and misses nothing."""
    for number in range(10):
        for node in range(world.nodes):
            world.publish(node, b"first %d" % number)
        await world.pause(500)
    await world.until_all_have(10 * world.nodes)
    await world.crash_noticed(3)
    for number in range(10):
        for node in sorted(world.up):
            world.publish(node, b"meanwhile %d" % number)
        await world.pause(500)
    await world.recovery_noticed(3)
    for node in range(world.nodes):
        world.publish(node, b"again")
    await world.until_all_have(10 * world.nodes + 10 * (world.nodes - 1) + world.nodes)


@_scenario("crash-again", nodes=4, network=_lossy, needs=frozenset({"loss", "crash"}))
async def crash_again(world: World) -> None:
    """Nodes crash one after the other, unannounced, while others publish and packets are lost."""
    for life in range(4):
        victim = (life * 3) % world.nodes
        for number in range(5):
            for node in range(world.nodes):
                world.publish(node, b"%d %d" % (life, number))
        await world.pause(2_000)
        await world.crash(victim)
        for node in sorted(world.up):
            world.publish(node, b"without %d" % victim)
        await world.pause(2_000)
        await world.recovery_noticed(victim)
    for node in range(world.nodes):
        world.publish(node, b"last")
    # A node that crashes may take with it what nobody had yet. What all are owed shows in the last words.
    await world.until(
        lambda: all(
            {message.source for message in world.delivered[node] if message.payload == b"last"}
            == set(range(world.nodes))
            for node in world.up
        ),
        "the last words of every node at every node",
    )


async def _discuss(world: World, count: int) -> None:
    """A few begin, and everybody answers what it reads until `count` messages are out: deep and wide causality."""
    said = 0

    def speak(node: int) -> None:
        nonlocal said
        if said < count:
            said += 1
            world.publish(node, b"%d" % said)

    def answer(node: int, message: Message) -> None:
        if message.source != node and (message.seq + node) % 2 == 0:
            speak(node)

    world.on_delivery = answer
    for node in range(min(3, world.nodes)):
        speak(node)
    while said < count:
        await world.until_all_have(said)
        speak(said % world.nodes)  # the conversation died down, or is about to: somebody says something
    await world.until_all_have(count)
