"""What a process keeps across a crash. Every protocol defines its records as small frozen structs below this one.

A record is written (`Outbox.keep`) before anything it promises is sent, and read back by `Process.restore`. A journal
stores it by its tag, so that a class may be renamed and old journals still open.
"""

import msgspec

from antecede.core.message import Message


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Base of all kept records. A subclass names itself with `tag`."""

    @property
    def own_messages(self) -> tuple[Message, ...]:
        """Messages that this node published and that may not be among its deliveries yet."""
        return ()
