"""What order costs on the wire between node and client: the numbers that docs/live.md states."""

import pytest

from antecede.core import Message
from antecede.live.client.records import TO_CLIENT, TO_NODE, Acks, Publish
from antecede.live.envelope import seal
from antecede.live.node.history import Entry

TOPIC, BODY = "rooms/42/chat", bytes(128)
ENVELOPE = seal(TOPIC, BODY, time_us=1_794_727_694_568_125)


def test_the_envelope() -> None:
    assert len(ENVELOPE) - len(BODY) - len(TOPIC) == 14


@pytest.mark.parametrize(("predecessors", "publish", "deliver"), [(0, 10, 14), (1, 15, 19), (2, 20, 24)])
def test_a_message_with_so_many_immediate_predecessors(predecessors: int, publish: int, deliver: int) -> None:
    past = tuple((3 + number, 1000 + number) for number in range(predecessors))
    assert len(TO_NODE.encode(Publish(1000, ENVELOPE, past))) - len(ENVELOPE) == publish
    assert len(Entry(100_000, Message("main", 3, 1000, past, ENVELOPE), 0).raw()) - len(ENVELOPE) == deliver


def test_acknowledgements_travel_together() -> None:
    entries = tuple((1000 + number, 2000 + number) for number in range(64))
    assert len(TO_CLIENT.encode(Acks(3, entries))) / 64 < 8
