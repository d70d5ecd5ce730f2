"""The header of a record: what is encoded is decoded, and nothing else is accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core.errors import ProtocolError
from antecede.protocols.logs import Header, decode_header, encode_header

_offset = st.integers(0, 2**63)
_headers = st.builds(
    Header,
    writer=st.integers(0, 2**64 - 1),
    number=st.integers(1, 2**40),
    past=st.dictionaries(st.integers(0, 2**16), _offset, max_size=70).map(lambda past: tuple(sorted(past.items()))),
    tombstone=st.booleans(),
    retry=st.booleans(),
)


@given(_headers)
def test_what_is_encoded_is_decoded(header: Header) -> None:
    assert decode_header(encode_header(header)) == header


@given(st.binary(max_size=80))
def test_other_bytes_are_refused_by_name(data: bytes) -> None:
    try:
        header = decode_header(data)
    except ProtocolError:
        return
    assert decode_header(encode_header(header)) == header


def test_four_logs_take_less_than_forty_bytes() -> None:
    past = tuple((log, 2_000_000 + log) for log in (17, 300, 9_000, 65_000))
    assert len(encode_header(Header(2**64 - 1, 100_000, past))) <= 40


@pytest.mark.parametrize("cut", range(1, 15))
def test_a_cut_header_is_refused(cut: int) -> None:
    data = encode_header(Header(7, 300, ((1, 1000),)))
    with pytest.raises(ProtocolError):
        decode_header(data[:cut])
