"""The kept record of the diagnosis."""

import msgspec


class Life(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="diagnosis.life"):
    """The counter of this incarnation, so that the next one is higher."""

    counter: int
