"""The packets of VCube's diagnosis: a test and its answer."""

from antecede.core import Packet


class Probe(Packet, frozen=True, gc=False, tag="diagnosis.probe"):
    """Are you there? And what is new since your answer number `since`, of your life `life`?"""

    number: int
    life: int
    since: int


class Reply(Packet, frozen=True, gc=False, tag="diagnosis.reply"):
    """Yes; and the counters that changed since."""

    number: int
    life: int
    version: int
    news: tuple[tuple[int, int], ...]
