"""Options of message history."""

from typing import Annotated

from msgspec import Meta

from antecede.protocols.message_history.process import MessageHistory
from antecede.protocols.options import TICKS, Founders, GroupOptions, MakeProcess


class HistoryOptions(GroupOptions, frozen=True, kw_only=True):
    """Message history."""

    #: How long acknowledgements are collected.
    ack: Annotated[float, Meta(gt=0)] = 100.0
    #: After how long a source repeats what is not acknowledged. Longer than a round trip and that.
    retry: Annotated[float, Meta(gt=0)] = 1000.0

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        ack_us, retry_us = round(self.ack * TICKS), round(self.retry * TICKS)
        return lambda node: MessageHistory(node, founders, ack_us=ack_us, retry_us=retry_us)
