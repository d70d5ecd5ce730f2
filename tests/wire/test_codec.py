"""The codec: every packet of every protocol there and back, and nothing but `ProtocolError` from anything else."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import LimitError, Message, Packet, ProtocolError, UsageError
from antecede.core.limits import DEPENDENCIES_MAX
from antecede.protocols.aggregation.packets import Bundle
from antecede.wire.codec import (
    FRAME_BYTES_FULL,
    HANDSHAKE,
    HELLO_BYTES_MAX,
    LENGTH_BYTES,
    Hello,
    PacketCodec,
    Refusal,
    Welcome,
    body_length,
)
from antecede.wire.shapes import difference

from .strategies import forged, instances, packet_types

TYPES = packet_types()
CODEC = PacketCodec("test", TYPES)
PACKETS = st.one_of([instances(kind) for kind in TYPES])


def split(data: bytes) -> list[bytes]:
    """Frames to bodies, slowly."""
    bodies = []
    while data:
        length = int.from_bytes(data[:4], "big")
        bodies.append(data[4 : 4 + length])
        data = data[4 + length :]
    return bodies


@given(st.lists(PACKETS, max_size=20))
def test_there_and_back(packets: list[Packet]) -> None:
    data = CODEC.frames([CODEC.encode(packet) for packet in packets])
    assert [packet for body in split(data) for packet in CODEC.decode(body)] == packets
    assert CODEC.decode(CODEC.body(packets)) == packets


@pytest.mark.parametrize("count", [1, 15, 16, 300, 70_000])
def test_any_number_of_packets_shares_frames(count: int) -> None:
    small = Bundle(())
    data = CODEC.frames([CODEC.encode(small)] * count)
    bodies = split(data)
    assert all(len(body) <= FRAME_BYTES_FULL + 5 for body in bodies)
    assert sum(len(CODEC.decode(body)) for body in bodies) == count


def test_a_large_packet_travels_alone_and_a_gigantic_one_not_at_all() -> None:
    codec = PacketCodec("test", (Bundle,), frame_bytes_max=200_000)
    large = Bundle((Message("t", 0, 1, (), bytes(150_000)),))
    bodies = split(codec.frames([codec.encode(Bundle(())), codec.encode(large), codec.encode(Bundle(()))]))
    assert [len(codec.decode(body)) for body in bodies] == [1, 1, 1]
    with pytest.raises(LimitError, match="an encoded packet in bytes"):
        codec.encode(Bundle((Message("t", 0, 1, (), bytes(200_000)),)))


def test_a_length_is_refused_before_anything_is_allocated() -> None:
    with pytest.raises(ProtocolError, match="announces 4294967295 bytes, at most 1000"):
        body_length(b"\xff\xff\xff\xff", 0, 1000)
    assert body_length(b"..\0\0\x03\xe8", 2, 1000) == 1000


@settings(max_examples=500)
@given(st.binary(max_size=300))
def test_random_bytes(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        CODEC.decode(body)
    with contextlib.suppress(ProtocolError):
        HANDSHAKE.decode(body)


@settings(max_examples=500)
@given(st.lists(PACKETS, min_size=1, max_size=3), st.data())
def test_mutated_frames(packets: list[Packet], data: st.DataObject) -> None:
    body = bytearray(CODEC.body(packets))
    for _ in range(data.draw(st.integers(1, 5))):
        what = data.draw(st.sampled_from(["change", "insert", "cut"]))
        at = data.draw(st.integers(0, max(0, len(body) - 1)))
        if what == "change" and body:
            body[at] = data.draw(st.integers(0, 255))
        elif what == "insert":
            body[at:at] = data.draw(st.binary(max_size=6))
        else:
            del body[at:]
    try:
        decoded = CODEC.decode(bytes(body))
    except ProtocolError:
        return
    assert all(type(packet) in TYPES for packet in decoded)


def forged_message(**fields: object) -> bytes:
    values = {
        "topic": "t",
        "source": 1,
        "seq": 1,
        "deps": [],
        "payload": b"",
        "across": [],
        "clock": 0,
        "proof": b"",
    } | fields
    return forged("bundle", [list(values.values())])


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": ""},
        {"topic": "t" * 1025},
        {"source": -1},
        {"source": 65_536},
        {"seq": 0},
        {"seq": 2**63},
        {"seq": "1"},
        {"deps": [[1, 0]]},
        {"deps": [[1, 2, 3]]},
        {"deps": [[1, 2]] * (DEPENDENCIES_MAX + 1)},
        {"payload": "text"},
        {"clock": -1},
    ],
    ids=str,
)
def test_fields_out_of_bounds_are_refused(fields: dict[str, object]) -> None:
    assert CODEC.decode(forged_message())
    with pytest.raises(ProtocolError):
        CODEC.decode(forged_message(**fields))


def test_only_fields_appended_by_a_later_version_are_tolerated() -> None:
    appended = ([1, {"more": [b"than"]}, "expected"], [None])
    assert CODEC.decode(forged_message(more=appended[0])) == CODEC.decode(forged_message())
    message = ["t", 1, 1, [], b"", [], 0, b""]
    (known,) = CODEC.decode(forged("bundle", [message]))
    assert CODEC.decode(forged("bundle", [[*message, *appended]], *appended)) == [known]
    # Fields missing at the end have their defaults; required ones do not.
    assert CODEC.decode(forged("bundle", [["t", 1, 1]])) == [known]
    for wrong in (["t", 1], [], {"topic": "t", "source": 1, "seq": 1}):
        with pytest.raises(ProtocolError):
            CODEC.decode(forged("bundle", [wrong]))
    # What is skipped must be sound, and nothing stands behind the body.
    sound = forged("bundle", [[*message, [0]]])
    for body in (sound[:-1] + b"\xc1", sound + b"\xc0", sound[:-2] + b"\x91" * 100_000):
        with pytest.raises(ProtocolError):
            CODEC.decode(body)


def test_deep_nesting_and_false_counts_are_refused() -> None:
    for body in (
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\x91\x92\xa6bundle\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ):
        with pytest.raises(ProtocolError):
            CODEC.decode(body)


def test_handshake_records_fit_their_frame() -> None:
    for record in (
        Hello(cluster="c" * 256, speaks="s" * 256, address="a" * 256, name="n" * 256, token="t" * 256, node=7),
        Welcome(node=3, incarnation=2),
        Refusal(reason="busy", detail="d" * 1024),
    ):
        frame = HANDSHAKE.frame(record)
        assert len(frame) <= HELLO_BYTES_MAX + LENGTH_BYTES
        assert HANDSHAKE.decode(frame[LENGTH_BYTES:]) == [record]


def test_codecs_of_other_packets_have_other_names_or_shapes() -> None:
    mine, again, more = (PacketCodec("p", types) for types in ((Bundle,), (Bundle,), TYPES))
    assert (mine.name, difference(mine.shapes, again.shapes)) == (again.name, None)
    assert difference(mine.shapes, more.shapes) is not None
    assert mine.name != PacketCodec("q", (Bundle,)).name
    assert mine.name != PacketCodec("p", (Bundle,), version=2).name


def test_the_protocols_that_are_there_have_packets_to_test() -> None:
    assert {"bundle", "vps.pub", "vps.ack"} <= {kind.__struct_config__.tag for kind in TYPES}


def test_types_that_cannot_be_told_apart_are_refused() -> None:
    class Untagged(Packet, frozen=True):
        n: int

    class Again(Packet, frozen=True, tag="bundle"):
        n: int

    for types, problem in (((), "there are none"), ((Untagged,), "told from others"), ((Bundle, Again), "the tag of")):
        with pytest.raises(UsageError, match=problem):
            PacketCodec("p", types)
