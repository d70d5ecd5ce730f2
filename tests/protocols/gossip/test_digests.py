"""A digest tells its sender that it is behind, also where only a log has what it lacks.

The last message of a source has no successor that would show the gap. A broker that is behind and sends digests must
hear of the message, however few digests of others reach it (seed 6954 of the search).
"""

import random

from antecede.core import Message, Packet
from antecede.protocols.gossip import Broker
from antecede.protocols.gossip.options import ContextOptions
from antecede.protocols.gossip.packets import Digest, Fetch, Peer, Pull, Rumour, Spread

STREAM = ("g", 2)
#: Messages of node 2. A broker stores only the last message it has delivered, which is of node 1.
COUNT = 5


def broker_at(node: int, reached: int, *, log: bool = True) -> Broker:
    """Broker `node` of three, which has delivered `reached` messages of node 2 and then one of node 1."""
    options = ContextOptions(brokers=3, store=1, durable=True, log=log)
    broker = options.build_with_rng(3, {"g": [0, 1, 2]}, random.Random)(node)
    assert isinstance(broker, Broker)
    rumours = [Rumour(Message("g", 2, seq), seq) for seq in range(1, reached + 1)]
    broker.receive(1, Spread((*rumours, Rumour(Message("g", 1, 1), 100)), ()))
    assert broker.order.reached(STREAM) == reached
    broker.out.clear()
    return broker


def digest(*levels: tuple[str, int, int]) -> Digest:
    return Digest(levels, (Peer(0, 0, ("g",)),))


def sent(broker: Broker) -> list[tuple[int, Packet]]:
    packets = list(broker.out.sends)
    broker.out.clear()
    return packets


def asks_for(broker: Broker) -> list[tuple[str, int, int, int]]:
    """What the broker pulls in its next round."""
    broker.wake("round")
    return [want for _, packet in sent(broker) if isinstance(packet, Pull) for want in packet.wants]


def test_a_broker_that_is_behind_learns_of_a_message_that_is_only_in_a_log() -> None:
    behind, ahead = broker_at(0, COUNT - 1), broker_at(1, COUNT)
    assert asks_for(behind) == []
    ahead.receive(0, digest(("g", 1, 1), (*STREAM, COUNT - 1)))
    ((to, answer),) = sent(ahead)
    assert to == behind.node
    behind.receive(1, answer)
    assert sent(behind) == [], "it does not answer an answer"
    assert asks_for(behind) == [(*STREAM, COUNT - 1, COUNT)]
    fetches: list[Packet] = []
    for _ in range(behind.config.young):
        behind.wake("round")
        fetches += [packet for _, packet in sent(behind) if isinstance(packet, Fetch)]
    assert fetches == [Fetch(*STREAM, COUNT, COUNT)]


def test_a_broker_that_is_behind_itself_does_not_answer_with_a_digest() -> None:
    """Two brokers that each lack something would answer each other without end."""
    broker = broker_at(1, COUNT)
    broker.receive(0, digest(("g", 1, 2), (*STREAM, COUNT - 1)))
    assert sent(broker) == []
    assert asks_for(broker) == [("g", 1, 1, 2)]


def test_a_stored_message_is_the_answer() -> None:
    broker = broker_at(1, COUNT)
    broker.receive(0, digest((*STREAM, COUNT)))
    ((_, answer),) = sent(broker)
    assert isinstance(answer, Spread)
    assert [rumour.message.id for rumour in answer.rumours] == [Message("g", 1, 1).id]


def test_a_broker_without_a_log_does_not_tell_of_messages_that_it_cannot_give() -> None:
    broker = broker_at(1, COUNT, log=False)
    broker.receive(0, digest(("g", 1, 1), (*STREAM, COUNT - 1)))
    assert sent(broker) == []
