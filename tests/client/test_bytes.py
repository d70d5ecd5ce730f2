"""What order costs on the wire between node and client: the numbers that docs/live.md states."""

import pytest

from antecede.core import Message
from antecede.core.partitions import Partitions
from antecede.node.history import Entry, History
from antecede.wire.envelope import seal
from antecede.wire.requests import TO_CLIENT, TO_NODE, Acks, Items, Publish

TOPIC, BODY = "rooms/42/chat", bytes(128)
ENVELOPE = seal(TOPIC, BODY, time_us=1_794_727_694_568_125)
TOGETHER = 64


def published(count: int, past: tuple[tuple[int, int], ...]) -> float:
    """Bytes a message, without its envelope."""
    return len(TO_NODE.encode(Publish(1000, (ENVELOPE,) * count, past))) / count - len(ENVELOPE)


def delivered(count: int, past: tuple[tuple[int, int], ...]) -> float:
    entries = [
        Entry(100_000 + one, Message("main", 3, 1000 + one, () if one else past, ENVELOPE), 3, 0, TOPIC)
        for one in range(count)
    ]
    history = History(None, 0, partitions=Partitions(1, 2, "main"), entries_max=1, bytes_max=1)
    record = b"\x99\xa1m" + b"\x07\x00" + history.columns(entries)
    decoded = TO_CLIENT.decode(b"\x91" + record)
    assert decoded == [
        Items(7, 0, (ENVELOPE,) * count, ((100_000, count),), ((3, 1000, count),), {0: past} if past else {})
    ]
    return len(record) / count - len(ENVELOPE)


def test_the_envelope() -> None:
    assert len(ENVELOPE) - len(BODY) - len(TOPIC) == 14


@pytest.mark.parametrize(("predecessors", "publish", "deliver"), [(0, 13, 26), (1, 18, 33), (2, 23, 38)])
def test_a_message_alone_with_so_many_immediate_predecessors(predecessors: int, publish: int, deliver: int) -> None:
    past = tuple((3 + number, 1000 + number) for number in range(predecessors))
    assert published(1, past) == publish
    assert delivered(1, past) == deliver


def test_messages_that_travel_together() -> None:
    assert published(TOGETHER, ()) < 2.3
    assert delivered(TOGETHER, ()) < 2.5
    assert len(TO_CLIENT.encode(Acks(3, ((1000, 2000, TOGETHER),)))) == 13
