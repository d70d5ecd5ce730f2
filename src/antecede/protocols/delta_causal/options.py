"""Options of Δ-causal order."""

from typing import Annotated

from msgspec import Meta

from antecede.protocols.delta_causal.process import DeltaCausal
from antecede.protocols.options import TICKS, Founders, GroupOptions, MakeProcess


class DeltaCausalOptions(GroupOptions, frozen=True, kw_only=True):
    """Δ-causal order."""

    #: Δ: how long after it was sent a message may be delivered. Rounded up to whole ticks of the clock.
    delta: Annotated[float, Meta(gt=0)] = 500.0
    #: A tick of the clock that each node counts, and when the count pauses.
    tick: Annotated[float, Meta(gt=0)] = 10.0
    horizon: Annotated[float, Meta(ge=0)] = 20_000.0

    @property
    def promises(self) -> tuple[str, ...]:
        return ("causal", "fifo", "exactly-once", "no-invention")

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        delta, horizon = -int(-self.delta // self.tick), -int(-self.horizon // self.tick)
        tick_us = round(self.tick * TICKS)
        return lambda node: DeltaCausal(node, founders, delta=delta, tick_us=tick_us, horizon=horizon)
