"""Options of the gossip protocols Kim & Ahn compare theirs with."""

from math import log2
from typing import Annotated

from msgspec import Meta

from antecede.core.rng import MakeRng
from antecede.protocols.gossip.epidemic import Rounds
from antecede.protocols.gossip.lpbcast import Lpbcast
from antecede.protocols.gossip.pbcast import Pbcast
from antecede.protocols.options import TICKS, Founders, MakeProcess, RngOptions

#: Rounds added to log2 of the number of nodes, as for the protocols of this package.
_MARGIN = 4


class EpidemicOptions(RngOptions, frozen=True, kw_only=True):
    """What both have in common."""

    #: Members a node tells in each round.
    fanout: Annotated[int, Meta(ge=1)] = 3
    #: A round, in units of time.
    round: Annotated[float, Meta(gt=0)] = 200.0
    #: Rounds a message is told of; 0: log2 of the nodes, and 4.
    young: Annotated[int, Meta(ge=0)] = 0
    #: Messages at hand for those who ask.
    store: Annotated[int, Meta(ge=1)] = 65_536

    def rounds(self, nodes: int) -> Rounds:
        young = self.young or round(log2(max(2, nodes))) + _MARGIN
        return Rounds(round_us=round(self.round * TICKS), fanout=self.fanout, young=young, store_max=self.store)


class PbcastOptions(EpidemicOptions, frozen=True, kw_only=True):
    """pbcast."""

    #: Send to everybody first, unreliably; without, messages spread by gossip alone.
    multicast: bool = True

    @property
    def promises(self) -> tuple[str, ...]:
        return ("fifo", "exactly-once", "no-invention")

    def build_chance(self, nodes: int, founders: Founders, chance: MakeRng) -> MakeProcess:
        rounds = self.rounds(nodes)
        return lambda node: Pbcast(node, rounds, chance(node), founders, multicast=self.multicast)


class LpbcastOptions(EpidemicOptions, frozen=True, kw_only=True):
    """lpbcast."""

    #: Places of a view.
    view: Annotated[int, Meta(ge=1)] = 16

    @property
    def promises(self) -> tuple[str, ...]:
        return ("exactly-once", "no-invention")

    def build_chance(self, nodes: int, founders: Founders, chance: MakeRng) -> MakeProcess:
        rounds = self.rounds(nodes)
        return lambda node: Lpbcast(node, rounds, chance(node), founders, view=self.view)
