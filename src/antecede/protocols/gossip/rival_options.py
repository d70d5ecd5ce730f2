"""Options of the gossip protocols that Kim & Ahn compare theirs with."""

from math import log2
from typing import Annotated

from msgspec import Meta

from antecede.core.rng import MakeRng
from antecede.protocols.gossip.epidemic import Rounds
from antecede.protocols.gossip.lpbcast import Lpbcast
from antecede.protocols.gossip.pabcast import Pabcast
from antecede.protocols.gossip.pbcast import Pbcast
from antecede.protocols.options import TICKS, Founders, MakeProcess, RngOptions

#: Rounds added to log2 of the number of nodes, as in `options`.
_MARGIN = 4


class EpidemicOptions(RngOptions, frozen=True, kw_only=True):
    """Options of all three."""

    #: How many members a node tells in each round.
    fanout: Annotated[int, Meta(ge=1)] = 3
    #: A round, in units of time.
    round: Annotated[float, Meta(gt=0)] = 200.0
    #: Rounds for which a message is told; 0: log2 of the number of nodes, plus 4.
    young: Annotated[int, Meta(ge=0)] = 0
    #: How many messages a node stores for those that ask.
    store: Annotated[int, Meta(ge=1)] = 65_536

    def rounds(self, nodes: int) -> Rounds:
        young = self.young or round(log2(max(2, nodes))) + _MARGIN
        return Rounds(round_us=round(self.round * TICKS), fanout=self.fanout, young=young, store_max=self.store)


class PbcastOptions(EpidemicOptions, frozen=True, kw_only=True):
    """pbcast."""

    #: Send each message to all members first, unreliably; otherwise messages spread by gossip alone.
    multicast: bool = True

    @property
    def promises(self) -> tuple[str, ...]:
        return ("fifo", "exactly-once", "no-invention")

    def build_with_rng(self, nodes: int, founders: Founders, rng: MakeRng) -> MakeProcess:
        rounds = self.rounds(nodes)
        return lambda node: Pbcast(node, rounds, rng(node), founders, multicast=self.multicast)


class LpbcastOptions(EpidemicOptions, frozen=True, kw_only=True):
    """lpbcast."""

    #: Size of a member's view.
    view: Annotated[int, Meta(ge=1)] = 16

    @property
    def promises(self) -> tuple[str, ...]:
        return ("exactly-once", "no-invention")

    def build_with_rng(self, nodes: int, founders: Founders, rng: MakeRng) -> MakeProcess:
        rounds = self.rounds(nodes)
        return lambda node: Lpbcast(node, rounds, rng(node), founders, view=self.view)


class PabcastOptions(EpidemicOptions, frozen=True, kw_only=True):
    """Probabilistic atomic broadcast."""

    #: Gossip rounds after which a ballot is closed with the votes there are, and an ordered message that has not come
    #: is given up; 0: twice as long as a message is told.
    patience: Annotated[int, Meta(ge=0)] = 0

    @property
    def promises(self) -> tuple[str, ...]:
        """One order for all is likely, not promised; the audit can be asked for it (`--rules total`)."""
        return ("fifo", "exactly-once", "no-invention")

    def build_with_rng(self, nodes: int, founders: Founders, rng: MakeRng) -> MakeProcess:
        rounds = self.rounds(nodes)
        return lambda node: Pabcast(node, rounds, rng(node), founders, patience=self.patience or 2 * rounds.young)
