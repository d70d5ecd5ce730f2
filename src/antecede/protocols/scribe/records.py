"""The kept record of Scribe."""

import msgspec


class Wish(msgspec.Struct, frozen=True, tag="scribe.wish"):
    """What this node takes of a topic, and its last numbers there."""

    topic: str
    takes: bool
    seq: int
    change: int
