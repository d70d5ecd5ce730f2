"""What all nodes of a pre-planned network know (gossip-rounds), and how a round is coded in a few bits."""

from collections.abc import Mapping
from typing import Final

import msgspec

from antecede.core.domain_order import StreamName

#: How many epochs can be told apart: an epoch is a byte.
EPOCHS: Final = 256


class Plan(msgspec.Struct, frozen=True):
    """What all nodes know beforehand: the topic of each broker, and the number of colours."""

    #: By broker: the topic that names all its groups. Entries of a vector are in this order.
    streams: tuple[StreamName, ...]
    colours: int

    @property
    def rounds_told(self) -> int:
        """How many rounds back the round of a message can be decoded, by a node that is about as far behind."""
        return EPOCHS * self.colours // 4

    def code(self, round_: int) -> int:
        """The code of a round: its epoch and colour."""
        return round_ % (EPOCHS * self.colours)

    def round(self, code: int, now: int) -> int:
        """The round with this code that is nearest to `now`."""
        turn = EPOCHS * self.colours
        found = now - now % turn + code
        return min((found - turn, found, found + turn), key=lambda round_: (abs(round_ - now), round_))

    def ages(self, round_: int, rounds: Mapping[StreamName, int]) -> bytes:
        """By broker: how many rounds before `round_`; 0 if there is none or it is older than the colours reach."""
        found = bytearray()
        for stream in self.streams:
            age = round_ - rounds[stream] if rounds.get(stream, 0) else 0
            found.append(age if 0 < age < self.colours else 0)
        return bytes(found)
