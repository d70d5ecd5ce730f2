"""The packet of the broadcasts on trees: messages that travel together."""

from antecede.core import Message, Packet


class Bundle(Packet, frozen=True, gc=False, tag="bundle"):
    """A packet: one or more messages on their way down an edge."""

    messages: tuple[Message, ...]  # a field, in the place of the base's empty property
