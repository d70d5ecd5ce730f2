"""Defines what a store returns at a time: some blocks of deliveries as they lie in a journal, undecoded."""

from collections.abc import Sequence
from typing import NamedTuple

from antecede.spark.topics.frontiers import Window
from antecede.wire.bulk import Piece


class Chunk(NamedTuple):
    """Blocks in order, of which the positions after `after` up to `last` are wanted.

    The chunk holds everything wanted up to position `reached`. Of the messages in it, `window` chooses those that are
    wanted; without one all are.
    """

    pieces: Sequence[Piece]
    after: int
    last: int
    reached: int
    window: Window | None = None
