"""What everybody in a pre-planned network knows beforehand (gossip-rounds), and how a round is told in few bits."""

from collections.abc import Mapping
from typing import Final

import msgspec

from antecede.core.domain_order import StreamName

#: Epochs that are told apart: a byte.
EPOCHS: Final = 256


class Plan(msgspec.Struct, frozen=True):
    """What everybody knows beforehand: the topic of each broker, and how many colours there are."""

    #: By broker: the topic that names all its groups. The order of the entries in a vector.
    streams: tuple[StreamName, ...]
    colours: int

    @property
    def rounds_told(self) -> int:
        """How many rounds back the round of a message can be told, to whoever is about as far behind."""
        return EPOCHS * self.colours // 4

    def code(self, round_: int) -> int:
        """Epoch and colour of a round."""
        return round_ % (EPOCHS * self.colours)

    def round(self, code: int, now: int) -> int:
        """The round with this code that is nearest to the present one."""
        turn = EPOCHS * self.colours
        found = now - now % turn + code
        return min((found - turn, found, found + turn), key=lambda round_: (abs(round_ - now), round_))

    def ages(self, round_: int, rounds: Mapping[StreamName, int]) -> bytes:
        """By broker: how many rounds before `round_`; 0 where there is none, or it is older than colours tell."""
        found = bytearray()
        for stream in self.streams:
            age = round_ - rounds[stream] if rounds.get(stream, 0) else 0
            found.append(age if 0 < age < self.colours else 0)
        return bytes(found)
