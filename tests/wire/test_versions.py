"""Versions: which ends may talk, what they say when they may not, and transports of neighbouring versions linked."""

import asyncio
from typing import Any

import msgspec
import pytest

from antecede.core import Message, Packet
from antecede.node.protocol import node_codec
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.live_registry import LIVE
from antecede.wire.codec import HANDSHAKE, HELLO_BYTES_MAX, LENGTH_BYTES, Hello, PacketCodec
from antecede.wire.handshake import VERSIONS, VersionRange, common_version, disagreement
from antecede.wire.shapes import difference, shapes_of
from antecede.wire.tcp import TcpTransport

from .helpers import CODEC, QUICK, Recorded, bundle, introduce, until


class Inside(msgspec.Struct, array_like=True):
    n: int
    text: str = ""


def packet(*fields: Any, tag: str = "p") -> type[Packet]:
    """A packet type with these fields."""
    return msgspec.defstruct("P", fields, bases=(Packet,), frozen=True, tag=tag)


OLD = packet(("a", int), ("inside", tuple[Inside, ...]), ("c", bytes, b""))


def test_shapes_in_words() -> None:
    assert shapes_of([OLD]) == {"p": "a:int,inside:[record]|c:bytes", "p/inside": "n:int|text:str"}
    assert shapes_of([packet(("a", dict[int, str]), ("b", OLD | None, None), tag="q")]) == {
        "q": "a:{int str}|b:p/null",
        "p": "a:int,inside:[record]|c:bytes",
        "p/inside": "n:int|text:str",
    }


class LongerInside(Inside, array_like=True):
    more: int = 0


class OtherInside(msgspec.Struct, array_like=True):
    n: str
    text: str = ""


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (OLD, None),
        (packet(("a", int), ("inside", tuple[Inside, ...]), ("c", bytes, b""), ("d", int, 0)), None),
        (packet(("a", int), ("inside", tuple[LongerInside, ...]), ("c", bytes, b"")), None),
        (packet(("a", int), ("inside", tuple[Inside, ...])), None),
        (packet(("a", int), ("inside", tuple[Inside, ...]), ("d", int, 0), ("c", bytes, b"")), "record 'p'"),
        (packet(("a", int), ("inside", tuple[Inside, ...]), ("c", bytes)), "record 'p'"),
        (packet(("a", int), ("inside", tuple[Inside, ...]), ("cc", bytes, b"")), "record 'p'"),
        (packet(("a", str), ("inside", tuple[Inside, ...]), ("c", bytes, b"")), "record 'p'"),
        (packet(("b", int), ("inside", tuple[Inside, ...]), ("c", bytes, b"")), "record 'p'"),
        (packet(("a", int), ("b", int), ("inside", tuple[Inside, ...]), ("c", bytes, b"")), "record 'p'"),
        (packet(("a", int), ("inside", tuple[OtherInside, ...]), ("c", bytes, b"")), "record 'p/inside'"),
        (packet(("a", int), tag="q"), "record 'p': they do not know it"),
    ],
)
def test_what_fits(new: type[Packet], problem: str | None) -> None:
    ours, theirs = shapes_of([OLD]), shapes_of([new])
    for one, other in ((ours, theirs), (theirs, ours)):
        found = difference(one, other)
        assert (found is None) == (problem is None)
    assert problem is None or (difference(ours, theirs) or "").startswith(problem)


@pytest.mark.parametrize(
    ("ours", "theirs", "version"),
    [((2, 2), (2, 2), 2), ((2, 2), (3, 2), 2), ((3, 2), (4, 3), 3), ((2, 2), (4, 3), None), ((5, 1), (3, 3), 3)],
)
def test_common_version(ours: tuple[int, int], theirs: tuple[int, int], version: int | None) -> None:
    assert common_version(VersionRange(*ours), VersionRange(*theirs)) == version
    assert common_version(VersionRange(*theirs), VersionRange(*ours)) == version


def test_disagreement_names_the_setting() -> None:
    assert disagreement({"slots": "8", "ours": "x"}, {"slots": "8", "theirs": "y"}) is None
    assert disagreement({"slots": "8"}, {"slots": "16"}) == (
        "slots is '8' at the one that answered and '16' at the one that called"
    )


def test_the_hello_of_every_protocol_fits_its_frame() -> None:
    for codec in map(node_codec, LIVE.values()):
        names = dict.fromkeys(("cluster", "address", "name", "token"), "n" * 256)
        hello = Hello(speaks=codec.name, shapes=codec.shapes, **names)
        frame = HANDSHAKE.frame(hello)
        assert HANDSHAKE.decode(frame[LENGTH_BYTES:]) == [hello]
        assert len(frame) < HELLO_BYTES_MAX - 8192  # room for agreements and what protocols will need


# -- two transports ----------------------------------------------------------------------------------------------------


class LongBundle(Bundle, frozen=True, tag="bundle"):
    """`Bundle` as a later version might have it."""

    urgent: int = 0


LATER: dict[str, Any] = {"codec": PacketCodec("test", (LongBundle,)), "versions": VersionRange(VERSIONS.latest + 1, 2)}
TOO_LATE: dict[str, Any] = LATER | {"versions": VersionRange(VERSIONS.latest + 2, VERSIONS.latest + 1)}
STRANGE: dict[str, Any] = {"codec": PacketCodec("test", (packet(("messages", list[int]), tag="bundle"),))}


def transport(node: int, **more: Any) -> TcpTransport:
    codec = more.pop("codec", CODEC)
    return TcpTransport(node, codec, cluster="test", limits=QUICK, **more)


@pytest.mark.parametrize("dialler", [0, 1])
def test_packets_of_neighbouring_versions_both_ways(dialler: int) -> None:
    async def test() -> None:
        old, new = transport(0), transport(1, agreement={"slots": "8"}, **LATER)
        ends = (old, new)
        seen = Recorded(), Recorded()
        for end, handler in zip(ends, seen, strict=True):
            await end.start(handler)
        introduce(ends)
        ends[dialler].connect(1 - dialler)
        await until(lambda: bool(seen[0].links and seen[1].links))
        for seq in range(1, 101):
            old.send(1, bundle(seq))
            new.send(0, LongBundle((Message("t", 1, seq, (), b"x"),), 7))
            old.flush()
            new.flush()
        await until(lambda: len(seen[0].packets) == len(seen[1].packets) == 100)
        assert {type(one) for _, one in seen[0].packets} == {Bundle}
        assert {one for _, one in seen[1].packets} == {LongBundle(bundle(seq).messages) for seq in range(1, 101)}
        for end in ends:
            await end.close()

    asyncio.run(test())


@pytest.mark.parametrize("dialler", [0, 1])
@pytest.mark.parametrize(
    ("settings", "reason", "problem"),
    [
        (TOO_LATE, "version", "we speak"),
        (STRANGE, "packets", "record 'bundle': we take"),
        ({"codec": PacketCodec("test", (Bundle,), version=2)}, "packets", "test/"),
        ({"agreement": {"slots": "16", "order": "total"}}, "settings", "slots is '"),
    ],
)
def test_a_real_mismatch_is_refused_by_name(settings: dict[str, Any], reason: str, problem: str, dialler: int) -> None:
    async def test() -> None:
        ends = transport(0, agreement={"slots": "8"}), transport(1, **settings)
        for end in ends:
            await end.start(Recorded())
        introduce(ends)
        ends[dialler].connect(1 - dialler)
        peer = ends[dialler].peers[1 - dialler]
        await until(lambda: peer.failures > 1)
        assert f": {reason} (" in peer.problem
        assert problem in peer.problem
        assert peer.link is None
        for end in ends:
            await end.close()

    asyncio.run(test())
