"""The packets of VCube's diagnosis: a test and its answer."""

from antecede.core import Packet


class Probe(Packet, frozen=True, gc=False, tag="diagnosis.probe"):
    """A test: asks for an answer, and for the news since version `since` of the receiver's incarnation `life`."""

    number: int
    life: int
    since: int


class Reply(Packet, frozen=True, gc=False, tag="diagnosis.reply"):
    """The answer to test `number`, with the counters that changed since."""

    number: int
    life: int
    version: int
    news: tuple[tuple[int, int], ...]
