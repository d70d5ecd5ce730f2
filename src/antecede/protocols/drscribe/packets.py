"""The packet that DRScribe adds to Scribe's."""

from antecede.core import Packet


class Filter(Packet, frozen=True, gc=False, tag="drscribe.filter"):
    """The sender's Bloom filter of the topics that it takes."""

    bits: bytes
    #: Does it replace what the receiver knew? Otherwise it is added to it: no topic was given up.
    anew: bool
