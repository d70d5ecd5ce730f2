"""The header of a record: what is encoded is decoded, and nothing else is accepted."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antecede.core.errors import ProtocolError
from antecede.protocols.logs import Header, decode_header, encode_header, log_number

_offset = st.integers(0, 2**63)
_headers = st.builds(
    Header,
    writer=st.integers(0, 2**64 - 1),
    number=st.integers(1, 2**40),
    past=st.dictionaries(st.integers(0, 2**27), _offset, max_size=20).map(lambda past: tuple(sorted(past.items()))),
    tombstone=st.booleans(),
    retry=st.booleans(),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine draws slowly
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
    """Streams named by hash, with a million records each."""
    names = ("orders", "shipping", "billing", "stock")
    past = tuple(sorted((log_number(name), 1_000_000 - 9 * index) for index, name in enumerate(names)))
    assert len(encode_header(Header(2**64 - 1, 10_000, past))) <= 40


def test_sixty_four_numbered_logs_take_less_than_two_hundred_bytes() -> None:
    past = tuple((log, 1_000_000 * log // 64) for log in range(1, 65))
    assert len(encode_header(Header(2**64 - 1, 10_000, past))) <= 200


def test_names_have_numbers_that_do_not_change() -> None:
    """Records in logs carry them: another number would be another log."""
    assert [log_number(name) for name in ("orders", "shipping")] == [98771599, 34111564]


@pytest.mark.parametrize("cut", range(1, 15))
def test_a_cut_header_is_refused(cut: int) -> None:
    data = encode_header(Header(7, 300, ((1, 1000),)))
    with pytest.raises(ProtocolError):
        decode_header(data[:cut])
