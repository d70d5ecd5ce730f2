"""Options of the gossip protocols, and who is who: the first nodes are brokers, the others subscribe through them."""

from collections.abc import Callable
from math import log2
from typing import Annotated

import msgspec
from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.core.clocks import DomainFrontier
from antecede.core.rng import MakeRng, Rng
from antecede.protocols.gossip.broker import Broker
from antecede.protocols.gossip.config import GossipConfig
from antecede.protocols.gossip.groups import SEPARATOR, groups_of, together
from antecede.protocols.gossip.packets import Peer
from antecede.protocols.gossip.plan import Plan
from antecede.protocols.gossip.rounds import RoundsBroker, RoundsSubscriber
from antecede.protocols.gossip.subscriber import Subscriber
from antecede.protocols.options import TICKS, Founders, MakeProcess, RngOptions

#: Rounds added to log2 of the number of brokers: the tail of a rumour's spread.
_MARGIN = 4
#: Brokers a subscriber knows of besides its own.
_ALTERNATES = 4

_ORDER = ("causal", "fifo", "exactly-once", "no-invention")

Count = Annotated[int, Meta(ge=0)]


class GossipOptions(RngOptions, frozen=True, kw_only=True):
    """What both versions have in common."""

    #: The first so many nodes are brokers; node n beyond them begins at broker n mod `brokers`. 0: all are brokers.
    brokers: Count = 0
    #: Brokers a message is pushed to in each round.
    fanout: Annotated[int, Meta(ge=1)] = 3
    #: Places of a broker's view, for each group.
    view: Annotated[int, Meta(ge=1)] = 16
    #: A round, in units of time.
    round: Annotated[float, Meta(gt=0)] = 200.0
    #: Rounds a message is pushed; 0: log2 of the brokers, and 4.
    young: Count = 0
    #: Rounds it can be asked for; 0: 32 times as long.
    retain: Count = 0
    #: Rounds something is waited for before it is given up; 0: 8 times as long as a message is young.
    patience: Count = 0
    #: Rounds without news after which a broker rests; 0: 4 times as long as a message is young.
    rest: Count = 0
    #: Ask for what is missing; without, what is lost is lost.
    pull: bool = True
    #: Messages a broker has at hand for those who ask; messages anybody holds back.
    store: Annotated[int, Meta(ge=1)] = 65_536
    held: Annotated[int, Meta(ge=1)] = 65_536
    #: Keep what must survive a crash.
    durable: bool = False

    @property
    def across_topics(self) -> bool:
        return True

    @property
    def promises(self) -> tuple[str, ...]:
        """Order always. Nobody can promise that all agree on what a broker told its subscribers before it crashed."""
        return (*_ORDER, "complete") if self.pull else _ORDER

    def build_chance(self, nodes: int, founders: Founders, chance: MakeRng) -> MakeProcess:
        brokers = self.brokers or nodes
        if brokers > nodes:
            raise UsageError("brokers", brokers, f"there are {nodes} nodes", f"choose 0 … {nodes}")
        habits = self.habits(brokers)
        takes: dict[int, set[str]] = {}
        for topic, members in founders.items():
            if SEPARATOR not in topic:  # who takes several groups at once takes each of them
                for node in members:
                    takes.setdefault(node, set()).add(topic)
        homes: dict[int, dict[int, frozenset[str]]] = {}
        for node, groups in takes.items():
            if node >= brokers:
                homes.setdefault(node % brokers, {})[node] = frozenset(groups)
        relays = {node: frozenset(takes.get(node, ())).union(*homes.get(node, {}).values()) for node in range(brokers)}
        by_group: dict[str, list[int]] = {}
        for node, relayed in relays.items():
            for group in relayed:
                by_group.setdefault(group, []).append(node)
        make_broker = self._broker_maker(relays, habits)

        def make(node: int) -> Process:
            drawn = chance(node)
            if node >= brokers:
                others = [broker for broker in range(brokers) if broker != node % brokers]
                alternates = drawn.sample(others, min(_ALTERNATES, len(others)))
                return self._subscriber(node, node % brokers, alternates, habits, drawn, takes.get(node, set()), relays)
            peers = [
                Peer(other, 0, tuple(sorted(relays[other])))
                for group in sorted(relays[node])
                for other in _some(by_group[group], habits.view + 1, drawn)
            ]
            return make_broker(node, drawn, takes.get(node, set()), peers, homes.get(node, {}), brokers)

        return make

    def habits(self, brokers: int) -> GossipConfig:
        young = self.young or round(log2(max(2, brokers))) + _MARGIN
        return GossipConfig(
            round_us=round(self.round * TICKS),
            fanout=self.fanout,
            view=self.view,
            young=young,
            retain=self.retain or 32 * young,
            patience=self.patience or 8 * young,
            rest=self.rest or 4 * young,
            pull=self.pull,
            store_max=self.store,
            held_max=self.held,
            durable=self.durable,
        )

    def _broker_maker(self, relays: dict[int, frozenset[str]], habits: GossipConfig) -> "MakeBroker":
        raise NotImplementedError

    def _subscriber(
        self,
        node: int,
        home: int,
        alternates: list[int],
        habits: GossipConfig,
        chance: Rng,
        takes: set[str],
        relays: dict[int, frozenset[str]],
    ) -> Subscriber:
        raise NotImplementedError


#: (node, chance, takes, peers, subscribers, brokers)
MakeBroker = Callable[[int, Rng, set[str], list[Peer], dict[int, frozenset[str]], int], Broker]


class ContextOptions(GossipOptions, frozen=True, kw_only=True):
    """Gossip with immediate predecessors."""

    def _broker_maker(self, relays: dict[int, frozenset[str]], habits: GossipConfig) -> MakeBroker:
        return lambda node, chance, takes, peers, subscribers, brokers: Broker(
            node,
            brokers,
            habits,
            chance,
            DomainFrontier(node, groups_of),
            takes=takes,
            peers=peers,
            subscribers=subscribers,
        )

    def _subscriber(
        self,
        node: int,
        home: int,
        alternates: list[int],
        habits: GossipConfig,
        chance: Rng,
        takes: set[str],
        relays: dict[int, frozenset[str]],
    ) -> Subscriber:
        return Subscriber(node, home, alternates, habits, chance, takes=takes)


class RoundsOptions(GossipOptions, frozen=True, kw_only=True):
    """Gossip with one colour a broker. Each message goes to all groups its broker has at the beginning."""

    #: How many rounds back an age may name a message; 0: twice the rounds a message is young. With fewer than a message
    #: takes to reach everybody, more messages wait until their broker says how far it is; without pull, more are lost.
    #: What is 64 times as many rounds old is told to no subscriber: who was cut off for so long goes on without it.
    colours: Annotated[int, Meta(ge=0, le=255)] = 0

    def habits(self, brokers: int) -> GossipConfig:
        """All brokers are known from the plan: views have room for them, so none is silent and out of everybody's."""
        return msgspec.structs.replace(super().habits(brokers), view=max(self.view, brokers))

    def _plan(self, relays: dict[int, frozenset[str]], habits: GossipConfig) -> Plan:
        if self.colours == 1:
            raise UsageError("colours", 1, "one colour tells no rounds apart", "choose 0, or 2 … 255")
        streams = tuple([(together(groups), node) for node, groups in relays.items() if groups])
        return Plan(streams, self.colours or 2 * habits.young)

    def _broker_maker(self, relays: dict[int, frozenset[str]], habits: GossipConfig) -> MakeBroker:
        plan = self._plan(relays, habits)
        return lambda node, chance, takes, peers, subscribers, brokers: RoundsBroker(
            node, brokers, habits, chance, plan, takes=takes, peers=peers, subscribers=subscribers
        )

    def _subscriber(
        self,
        node: int,
        home: int,
        alternates: list[int],
        habits: GossipConfig,
        chance: Rng,
        takes: set[str],
        relays: dict[int, frozenset[str]],
    ) -> Subscriber:
        return RoundsSubscriber(node, home, alternates, habits, chance, self._plan(relays, habits), takes=takes)


def _some(among: list[int], count: int, chance: Rng) -> list[int]:
    return among if len(among) <= count else chance.sample(among, count)
