"""The kept record of Scribe."""

from antecede.core import Record


class Wish(Record, frozen=True, gc=False, tag="scribe.wish"):
    """What this node takes of a topic, and its last numbers there."""

    topic: str
    takes: bool
    seq: int
    change: int
