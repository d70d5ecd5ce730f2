"""The record a node of Scribe keeps across a crash."""

import msgspec


class Wish(msgspec.Struct, frozen=True, tag="scribe.wish"):
    """Kept across crashes: what this node takes, and how far its own numbers go."""

    topic: str
    takes: bool
    seq: int
    change: int
