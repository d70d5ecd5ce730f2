"""The packet of the broadcasts on trees."""

from antecede.core import Message, Packet


class Bundle(Packet, frozen=True, gc=False, tag="bundle"):
    """One or more messages on their way down an edge."""

    messages: tuple[Message, ...]  # a field, instead of the base's empty property
