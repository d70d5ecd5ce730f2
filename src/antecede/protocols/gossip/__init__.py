"""Gossip publish/subscribe with short lists of predecessors (Kim & Ahn), both versions.

    groups       a message to several groups, and what covers what
    packets      what is said; `sizes` what it weighs; `records` what survives a crash
    views        partial views that evolve
    store        messages to push and to give to those who ask; what is stale goes
    order        the gate over overlapping groups, and when to give up
    broker       rounds, push, digests, pull; `edge` is its side of subscribers, `entrance` of groups that come later
    subscriber   home broker, pull, moving
    rounds       what gossip-rounds does otherwise: group vectors, one colour a broker, epochs (`plan`);
                 `round_reader` is a subscriber's order by them
    options      who is broker, who subscribes where; how many, how often, how long

What is wrong with the printed rules is in docs/papers.md; each file says what it does
instead, and tests/protocols/gossip puts each error back.
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
