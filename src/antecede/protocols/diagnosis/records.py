"""The record a node of the diagnosis keeps across a crash."""

import msgspec


class Life(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="diagnosis.life"):
    """Kept across crashes: the counter of this life, so that the next one is higher."""

    counter: int
