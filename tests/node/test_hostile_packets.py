"""Packets of a peer that has the right form and the wrong numbers: refused or taken, and the node goes on.

Every number of every packet is drawn from small ones, and from the largest that decoding accepts. A number used as a
range or as a size would take the node's memory or its time: both are bounded here, by the process and by the test.
"""

import random
import resource
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect as mi

from antecede.core import Message, Packet, ProtocolError
from antecede.node.config import DOMAIN, NodeConfig
from antecede.node.driving import _check_slots
from antecede.node.protocol import NodeProtocol
from antecede.protocols.diagnosis import Diagnosed, Reply
from antecede.protocols.diagnosis.process import JUMP_MAX
from antecede.protocols.live_registry import LIVE
from antecede.protocols.vcube_ps.packets import Pub

SLOTS = 4
NUMBERS = (0, 1, 2, 3, 0, 1, 2, 3, 4, 7, 100, 65_535, 1 << 20, 1 << 31, 1 << 40, 1 << 62, -1, -(1 << 40))


@cache
def shape(kind: type) -> mi.Type:
    return mi.type_info(kind)


def drawn(rng: random.Random, info: mi.Type) -> Any:  # noqa: PLR0911 - a table of types
    """A value that decoding accepts, most often."""
    match info:
        case mi.StructType() | mi.NamedTupleType():
            return info.cls(
                **{one.name: drawn(rng, one.type) for one in info.fields if one.required or rng.random() < 0.8}
            )
        case mi.IntType():
            low = info.ge if info.ge is not None else -(1 << 63)
            high = info.le if info.le is not None else (1 << 63) - 1 if info.lt is None else info.lt - 1
            return rng.choice([number for number in (*NUMBERS, low, high) if low <= number <= high])
        case mi.StrType():
            return DOMAIN if rng.random() < 0.9 else "other"
        case mi.BytesType():
            return rng.choice([b"", b"x", rng.randbytes(20)])
        case mi.BoolType():
            return rng.random() < 0.5
        case mi.LiteralType():
            return rng.choice(info.values)
        case mi.TupleType():
            return tuple(drawn(rng, one) for one in info.item_types)
        case mi.VarTupleType():
            return tuple(
                drawn(rng, info.item_type) for _ in range(max(rng.choice([0, 1, 1, 2, 3]), info.min_length or 0))
            )
        case mi.DictType():
            return {drawn(rng, info.key_type): drawn(rng, info.value_type) for _ in range(rng.choice([0, 1, 2]))}
        case mi.UnionType():
            return drawn(rng, rng.choice(info.types))
    assert isinstance(info, mi.NoneType), info
    return None


def packet(rng: random.Random, protocol: NodeProtocol) -> Packet | None:
    """A packet as it comes off the wire; None: it would not come through."""
    made = drawn(rng, shape(rng.choice(protocol.codec.types)))
    try:
        return protocol.codec.decode(protocol.codec.body([made]))[0]
    except (ProtocolError, OverflowError):
        return None


def running(protocol: NodeProtocol, rng: random.Random) -> Diagnosed:
    """A process that has joined alone, and has just heard of some of the others."""
    process = protocol.make(0)
    for other in range(1, SLOTS):
        process.peer_down(other)
    process.start()
    process.subscribe(DOMAIN)
    for _ in range(2):
        carry_out(process, rng)
    for other in range(1, SLOTS):
        if rng.random() < 0.6:
            process.peer_up(other)
    return process


def carry_out(process: Diagnosed, rng: random.Random) -> None:
    out = process.out
    look_ups, timers = out.look_ups.copy(), out.timers.copy()
    out.clear()
    for topic, source, first, last, _ in look_ups:
        process.found(topic, source, first, last, [])
    for _, timer in timers:
        if rng.random() < 0.5:
            process.wake(timer)


@pytest.fixture
def two_gigabytes_more() -> Iterator[None]:
    """An allocation for 2**40 of anything fails, instead of taking the machine's memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("two_gigabytes_more")
@pytest.mark.parametrize("name", sorted(LIVE))
def test_no_number_of_a_peer_stops_a_node(name: str) -> None:
    refused = 0
    first = 3 if name == "total" else 1  # managers number all messages together, and trust each other
    for seed in range(40):
        rng = random.Random(seed)
        journal = rng.choice([None, Path("unused")])
        config = NodeConfig(slots=SLOTS, protocol=name, directory=journal, managers=rng.choice([1, 3]))
        protocol = NodeProtocol(config)
        process = running(protocol, rng)
        for _ in range(100):
            one = packet(rng, protocol)
            if one is None:
                continue
            try:
                _check_slots([one], SLOTS)
                process.check([one])
                process.receive(rng.randrange(first, SLOTS), one)
            except ProtocolError:
                refused += 1
            carry_out(process, rng)
            process.missing(), process.holding(), process.delivered(DOMAIN), process.lagging(DOMAIN)
    assert refused


def test_a_slot_that_the_cluster_does_not_have() -> None:
    for message in (Message(DOMAIN, SLOTS, 1), Message(DOMAIN, 1, 1, ((2, 1), (SLOTS, 1)))):
        with pytest.raises(ProtocolError, match="there are 4"):
            _check_slots([Pub((message,))], SLOTS)
    _check_slots([Pub((Message(DOMAIN, SLOTS - 1, 1, ((0, 1),)),))], SLOTS)


def test_a_counter_of_the_failure_detector_does_not_jump() -> None:
    """A counter near the largest number could not be raised any more: the node could not refute a suspicion."""
    protocol = NodeProtocol(NodeConfig(slots=SLOTS))
    process = running(protocol, random.Random(1))
    with pytest.raises(ProtocolError, match="counter"):
        process.receive(1, Reply(1, 0, 1, ((0, 1 << 62),)))
    process.receive(1, Reply(1, 0, 1, ((0, JUMP_MAX),)))
    with pytest.raises(ProtocolError):
        protocol.codec.decode(msgspec.msgpack.encode([["diagnosis.reply", 1, 0, 1, [[0, (1 << 64) - 1]]]]))
