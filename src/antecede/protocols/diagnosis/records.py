"""The kept record of the diagnosis."""

from antecede.core import Record


class Life(Record, frozen=True, gc=False, tag="diagnosis.life"):
    """The counter of this incarnation, so that the next one is higher."""

    counter: int
