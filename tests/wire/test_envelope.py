"""Envelopes: what goes in comes out, and nothing else does."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core import LimitError, ProtocolError, UsageError
from antecede.wire.envelope import BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX, label, seal, unseal

HEADERS = st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=5)
NAMES = st.text("abc/ é", min_size=1, max_size=20)


@given(NAMES, st.binary(max_size=300), st.integers(0, 2**62), HEADERS)
def test_round_trip(topic: str, body: bytes, time_us: int, headers: dict[str, str]) -> None:
    payload = seal(topic, body, time_us=time_us, headers=headers)
    envelope = unseal(payload)
    assert (envelope.topic, envelope.time_us, envelope.body, envelope.headers) == (topic, time_us, body, headers)
    assert label(payload) == topic


def test_it_is_compact() -> None:
    payload = seal("rooms/42/chat", bytes(128), time_us=1_700_000_000_000_000)
    assert len(payload) == 128 + len("rooms/42/chat") + 14


@given(st.binary(max_size=200))
def test_only_the_declared_error_escapes(payload: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        unseal(payload)
    with contextlib.suppress(ProtocolError):
        label(payload)


@given(st.data())
def test_a_mutated_envelope_reads_or_is_refused(data: st.DataObject) -> None:
    payload = bytearray(seal("a/b", b"body" * 8, time_us=5, headers={"k": "v"}))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        unseal(bytes(payload))


def test_what_a_caller_may_get_wrong() -> None:
    with pytest.raises(UsageError, match="is not bytes"):
        seal("a", "text", time_us=0)  # type: ignore[arg-type]
    with pytest.raises(LimitError, match="the body in bytes"):
        seal("a", bytes(BODY_BYTES_MAX + 1), time_us=0)
    with pytest.raises(LimitError, match="the number of headers"):
        seal("a", b"", time_us=0, headers={str(n): "" for n in range(HEADERS_MAX + 1)})
    with pytest.raises(LimitError, match="a header in bytes"):
        seal("a", b"", time_us=0, headers={"k": "v" * (HEADER_BYTES_MAX + 1)})
    with pytest.raises(UsageError, match="is not text"):
        seal("a", b"", time_us=0, headers={"k": 1})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="is not valid Unicode"):
        seal("a", b"", time_us=0, headers={"k": "\ud800"})
    with pytest.raises(UsageError, match="wildcard"):
        seal("a/#", b"", time_us=0)
