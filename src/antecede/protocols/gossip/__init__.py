"""Gossip publish/subscribe with short lists of predecessors, both versions (Kim & Ahn 2.2 and 2.3).

    groups        messages to several groups at once
    packets, sizes, records, restoring
    views         partial views of the brokers, mixed with every packet
    store         messages to push, and to give to those that ask
    order         causal order over overlapping groups, and when to give up
    broker        rounds and push; its parts are `digests`, `pulling`, `catching_up` (old messages, from logs),
                  `subscriber_sessions` and `group_join`
    subscriber    home broker, pull, moving to another broker
    rounds        gossip-rounds: group vectors, one colour for each broker, epochs (`plan`, `round_reader`)
    options       which nodes are brokers, which subscribe where; `config` in rounds

docs/errors_in_papers.md lists what is wrong with the printed rules. Each file says what it does instead, and
tests/protocols/gossip puts each error back.
"""

from antecede.protocols.gossip.broker import Broker
from antecede.protocols.gossip.config import GossipConfig
from antecede.protocols.gossip.groups import SEPARATOR, groups_of, together
from antecede.protocols.gossip.packets import BROKER_PACKETS, PACKETS
from antecede.protocols.gossip.subscriber import Subscriber

__all__ = [
    "BROKER_PACKETS",
    "PACKETS",
    "SEPARATOR",
    "Broker",
    "GossipConfig",
    "Subscriber",
    "groups_of",
    "together",
]
