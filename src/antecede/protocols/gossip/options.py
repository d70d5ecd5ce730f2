"""Options of the gossip protocols. The first nodes are brokers, the others subscribe through them."""

from collections.abc import Callable
from math import log2
from typing import Annotated

import msgspec
from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.core.clocks import DomainFrontier
from antecede.core.rng import MakeRng, Rng
from antecede.protocols.gossip.broker import Broker, Founding
from antecede.protocols.gossip.config import GossipConfig
from antecede.protocols.gossip.groups import SEPARATOR, groups_of, together
from antecede.protocols.gossip.packets import Peer
from antecede.protocols.gossip.plan import Plan
from antecede.protocols.gossip.rounds import RoundsBroker, RoundsSubscriber
from antecede.protocols.gossip.subscriber import Subscriber
from antecede.protocols.options import TICKS, Founders, MakeProcess, RngOptions, taken_by

#: Rounds added to log2 of the number of brokers: the tail of a message's spread.
_MARGIN = 4
#: How many brokers a subscriber knows beside its own.
_ALTERNATES = 4

_ORDER = ("causal", "fifo", "exactly-once", "no-invention")

Count = Annotated[int, Meta(ge=0)]


class GossipOptions(RngOptions, frozen=True, kw_only=True):
    """Options of both versions."""

    #: Nodes 0 … `brokers` − 1 are brokers; any other node n begins at broker n mod `brokers`. 0: all nodes are brokers.
    brokers: Count = 0
    #: How many brokers a message is pushed to in each round.
    fanout: Annotated[int, Meta(ge=1)] = 3
    #: Size of a broker's view, for each group.
    view: Annotated[int, Meta(ge=1)] = 16
    #: A round, in units of time.
    round: Annotated[float, Meta(gt=0)] = 200.0
    #: Rounds for which a message is pushed; 0: log2 of the number of brokers, plus 4.
    young: Count = 0
    #: Rounds for which it can be pulled; 0: 32 times as long.
    retain: Count = 0
    #: Rounds to wait for a missing message before giving up; 0: 8 times as long as a message is young.
    patience: Count = 0
    #: Rounds without news after which a broker rests; 0: 4 times as long as a message is young.
    rest: Count = 0
    #: In how many rounds a broker sends a message to its subscribers.
    notices: Annotated[int, Meta(ge=1, le=64)] = 1
    #: Pull missing messages; otherwise a lost message stays lost.
    pull: bool = True
    #: How many messages a broker stores, and how many a node may hold.
    store: Annotated[int, Meta(ge=1)] = 65_536
    held: Annotated[int, Meta(ge=1)] = 65_536
    #: Keep the records that must survive a crash.
    durable: bool = False

    @property
    def across_topics(self) -> bool:
        return True

    @property
    def promises(self) -> tuple[str, ...]:
        """Order always. Agreement cannot be promised: a broker may crash when only some subscribers have a message."""
        return (*_ORDER, "complete") if self.pull else _ORDER

    def build_with_rng(self, nodes: int, founders: Founders, rng: MakeRng) -> MakeProcess:
        brokers = self.brokers or nodes
        if brokers > nodes:
            raise UsageError("brokers", brokers, f"there are {nodes} nodes", f"choose 0 … {nodes}")
        config = self.config(brokers)
        # A node that takes several groups takes each of them.
        takes = taken_by({topic: members for topic, members in founders.items() if SEPARATOR not in topic})
        homes: dict[int, dict[int, frozenset[str]]] = {}
        for node, groups in takes.items():
            if node >= brokers:
                homes.setdefault(node % brokers, {})[node] = groups
        relays = {node: takes.get(node, frozenset()).union(*homes.get(node, {}).values()) for node in range(brokers)}
        by_group: dict[str, list[int]] = {}
        for node, relayed in relays.items():
            for group in relayed:
                by_group.setdefault(group, []).append(node)
        make_broker, make_subscriber = self._makers(relays, config)

        def make(node: int) -> Process:
            drawn = rng(node)
            if node >= brokers:
                others = [broker for broker in range(brokers) if broker != node % brokers]
                alternates = drawn.sample(others, min(_ALTERNATES, len(others)))
                return make_subscriber(node, node % brokers, alternates, drawn, takes.get(node, frozenset()))
            peers = [
                Peer(other, 0, tuple(sorted(relays[other])))
                for group in sorted(relays[node])
                for other in _some(by_group[group], config.view + 1, drawn)
            ]
            founding = Founding(takes.get(node, frozenset()), peers, homes.get(node, {}))
            return make_broker(node, brokers, drawn, founding)

        return make

    def config(self, brokers: int) -> GossipConfig:
        young = self.young or round(log2(max(2, brokers))) + _MARGIN
        return GossipConfig(
            round_us=round(self.round * TICKS),
            fanout=self.fanout,
            view=self.view,
            young=young,
            retain=self.retain or 32 * young,
            patience=self.patience or 8 * young,
            rest=self.rest or 4 * young,
            notices=self.notices,
            pull=self.pull,
            store_max=self.store,
            held_max=self.held,
            durable=self.durable,
        )

    def _makers(self, relays: dict[int, frozenset[str]], config: GossipConfig) -> "tuple[MakeBroker, MakeSubscriber]":
        raise NotImplementedError


#: (node, brokers, rng, founding)
MakeBroker = Callable[[int, int, Rng, Founding], Broker]
#: (node, home, alternates, rng, takes)
MakeSubscriber = Callable[[int, int, list[int], Rng, frozenset[str]], Subscriber]


class ContextOptions(GossipOptions, frozen=True, kw_only=True):
    """Gossip with immediate predecessors."""

    #: Nodes have a log of what they delivered, and serve old messages from it. No message is given up for its age.
    log: bool = False

    def _makers(self, relays: dict[int, frozenset[str]], config: GossipConfig) -> tuple[MakeBroker, MakeSubscriber]:
        return (
            lambda node, brokers, rng, founding: Broker(
                node, brokers, config, rng, DomainFrontier(node, groups_of), founding, logged=self.log
            ),
            lambda node, home, alternates, rng, takes: Subscriber(node, home, alternates, config, rng, takes=takes),
        )


class RoundsOptions(GossipOptions, frozen=True, kw_only=True):
    """Gossip with one colour for each broker. A message goes to all groups that its broker has at the beginning."""

    #: How many rounds back an age may name a message; 0: twice the rounds for which a message is young. With fewer than
    #: a message takes to reach all nodes, more messages wait until their broker reports how far it is; without pull,
    #: more are lost. A message 64 times as many rounds old is sent to no subscriber.
    colours: Annotated[int, Meta(ge=0, le=255)] = 0

    def config(self, brokers: int) -> GossipConfig:
        """The plan names all brokers, so views have room for all: none is left out because it was silent."""
        return msgspec.structs.replace(super().config(brokers), view=max(self.view, brokers))

    def _makers(self, relays: dict[int, frozenset[str]], config: GossipConfig) -> tuple[MakeBroker, MakeSubscriber]:
        if self.colours == 1:
            raise UsageError("colours", 1, "cannot tell rounds apart", "choose 0, or 2 … 255")
        streams = tuple([(together(groups), node) for node, groups in relays.items() if groups])
        plan = Plan(streams, self.colours or 2 * config.young)
        return (
            lambda node, brokers, rng, founding: RoundsBroker(node, brokers, config, rng, plan, founding),
            lambda node, home, alternates, rng, takes: RoundsSubscriber(
                node, home, alternates, config, rng, plan, takes=takes
            ),
        )


def _some(among: list[int], count: int, rng: Rng) -> list[int]:
    return among if len(among) <= count else rng.sample(among, count)
