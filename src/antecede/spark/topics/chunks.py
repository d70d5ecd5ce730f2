"""What a store gives at a time: some blocks of deliveries as they lie in a journal, unopened."""

from collections.abc import Sequence
from typing import NamedTuple

from antecede.wire.bulk import Piece


class Chunk(NamedTuple):
    """Blocks in order. Of what they hold, the positions after `after` up to `last` are asked for.

    Everything wanted up to position `reached` is there.
    """

    pieces: Sequence[Piece]
    after: int
    last: int
    reached: int
