"""Splitting into packets, held against its definition."""

from hypothesis import given
from hypothesis import strategies as st

from antecede.protocols.bundling import in_packets


@given(st.lists(st.integers(0, 12)), st.integers(1, 20), st.none() | st.integers(1, 5))
def test_packets_hold_every_item_in_order_and_no_more_than_fits(
    sizes: list[int], room: int, count_max: int | None
) -> None:
    items = list(enumerate(sizes))
    packets = in_packets(items, room, lambda item: item[1], count_max=count_max)
    assert [item for packet in packets for item in packet] == items
    for packet, following in zip(packets, [*packets[1:], None], strict=False):
        weight = sum(size for _, size in packet)
        assert weight <= room or len(packet) == 1
        assert count_max is None or len(packet) <= count_max
        if following is not None:
            assert weight + following[0][1] > room or len(packet) == count_max, "one more would have fitted"


@given(st.lists(st.integers()), st.integers(1, 5))
def test_without_sizes_packets_are_counted(items: list[int], room: int) -> None:
    packets = in_packets(items, room)
    assert [list(packet) for packet in packets] == [items[at : at + room] for at in range(0, len(items), room)]
