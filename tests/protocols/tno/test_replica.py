"""Replicas of a manager under random loss, repetition, overtaking, suspicions and crashes: what is answered is final.

The rule: an event has one number and a number one event, whoever answers, as long as most replicas come back with what
they kept. And once the weather is fine every request is answered.
"""

import random

import pytest

from antecede.core import Outbox, Packet
from antecede.protocols.tno.manager import Manager, Rules
from antecede.protocols.tno.packets import Create, Promise, Stamp
from antecede.protocols.tno.replica import Replica, Tick

MEMBERS = (0, 1, 2)
#: Clients count from here, each publishes once: who is numbered first is a matter of who is heard first.
CLIENTS = 9


class _Host:
    """A node with one replica; its packets go to the world."""

    def __init__(self, node: int, world: "_World", make: type[Replica]) -> None:
        self.node = node
        self.retry_us = 1
        self.tries = 0
        self.out = Outbox()
        self.suspected: set[int] = set()
        self.world = world
        self.replica = make("t", MEMBERS, Manager("t", (), Rules(), {}), self, lambda replica, request: None)

    def post(self, to: int | str, packet: Packet) -> None:
        assert isinstance(to, int)
        self.world.send(self.node, to, packet)

    def suspects(self, node: int) -> bool:
        return node in self.suspected


class _World:
    """Three replicas, and clients that ask for numbers."""

    def __init__(self, seed: int, make: type[Replica] = Replica) -> None:
        self.make = make
        self.rng = random.Random(seed)
        self.kept: dict[int, list[object]] = {node: [] for node in MEMBERS}
        self.flying: list[tuple[int, int, Packet]] = []
        self.hosts = {node: _Host(node, self, make) for node in MEMBERS}
        self.asked = 0
        self.numbers: dict[int, int] = {}

    def send(self, sender: int, to: int, packet: Packet) -> None:
        """Nothing is sent before it is kept: the driver's rule."""
        self._keep(sender)
        if to in MEMBERS:
            self.flying.append((sender, to, packet))
        else:
            assert isinstance(packet, Stamp)
            known = self.numbers.setdefault(to - CLIENTS, packet.number)
            assert known == packet.number, f"event {to - CLIENTS} has the numbers {known} and {packet.number}"
            assert len(set(self.numbers.values())) == len(self.numbers), "two events have one number"

    def step(self) -> None:
        match self.rng.choice(["deliver"] * 8 + ["ask"] * 3 + ["tick"] * 2 + ["suspect", "trust", "crash"]):
            case "deliver" if self.flying:
                self.deliver(self.rng.randrange(len(self.flying)), self.rng.random())
            case "ask":
                self.asked += self.rng.random() < 0.5
                self.ask(self.rng.randint(1, max(1, self.asked)), self.rng.choice(MEMBERS))
            case "tick":
                self.tick(self.rng.choice(MEMBERS))
            case "suspect" | "trust" as what:
                node, peer = self.rng.sample(MEMBERS, 2)
                change = self.hosts[node].suspected
                change.add(peer) if what == "suspect" else change.discard(peer)
            case "crash":
                self.crash(self.rng.choice(MEMBERS))

    def deliver(self, index: int, luck: float) -> None:
        sender, to, packet = self.flying[index]
        if luck > 0.1:
            del self.flying[index]  # otherwise it will come again
        if luck < 0.9:  # otherwise it is lost
            replica = self.hosts[to].replica
            if isinstance(packet, Create):
                replica.request(packet)
            else:
                replica.receive(sender, packet)  # type: ignore[arg-type]
            self._keep(to)

    def ask(self, client: int, node: int) -> None:
        self.asked = max(self.asked, client)
        self.hosts[node].replica.request(Create("t", CLIENTS + client, 1))
        self._keep(node)

    def tick(self, node: int) -> None:
        timers = self.hosts[node].out.timers
        if timers:
            timers.clear()
            self.hosts[node].replica.tick()
            self._keep(node)

    def crash(self, node: int) -> None:
        host = self.hosts[node] = _Host(node, self, self.make)
        for record in self.kept[node]:
            host.replica.restore(record)  # type: ignore[arg-type]
        host.out.kept.clear()

    def _keep(self, node: int) -> None:
        out = self.hosts[node].out
        self.kept[node] += out.kept
        out.kept.clear()
        assert all(isinstance(timer, Tick) for _, timer in out.timers)

    def calm_down(self) -> None:
        """Nobody suspects anybody, nothing is lost, and clients ask until they are answered."""
        for host in self.hosts.values():
            host.suspected.clear()
        for _ in range(200):
            for client in range(1, self.asked + 1):
                if client not in self.numbers:
                    self.ask(client, 0)
            while self.flying:
                self.deliver(0, 0.5)
            for node in MEMBERS:
                self.tick(node)


def live_through(seed: int, make: type[Replica] = Replica) -> _World:
    world = _World(seed, make)
    for _ in range(300):
        world.step()
    world.calm_down()
    return world


@pytest.mark.parametrize("seed", range(40))
def test_what_is_answered_is_final(seed: int) -> None:
    world = live_through(seed)
    assert sorted(world.numbers) == list(range(1, world.asked + 1)), "somebody is never answered"
    assert sorted(world.numbers.values()) == list(range(1, world.asked + 1)), "a number was given to nobody"


class Hasty(Replica):
    """Answers before most replicas have the request."""

    def _advance(self) -> None:
        while self.leading and self._answers:
            for to, packet in self._answers.popleft()[1]:
                self._host.post(to, packet)


class Forgetful(Replica):
    """Comes back without what it kept."""

    def restore(self, record: object) -> None:
        """Nothing."""


class TakesTheFirst(Replica):
    """Goes on from its own state when elected, not from the one that is furthest."""

    def _elected(self, sender: int, promise: Promise) -> None:
        mine = Promise(self.topic, promise.ballot, self._accepted, self._index, self.machine.save())
        super()._elected(sender, mine)


def survives(mutant: type[Replica], seed: int) -> bool:
    try:
        live_through(seed, mutant)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("mutant", [Hasty, Forgetful, TakesTheFirst])
def test_errors_would_be_found(mutant: type[Replica]) -> None:
    assert not all(survives(mutant, seed) for seed in range(40))
