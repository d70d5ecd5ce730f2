"""Defines the rows of a trace: which events there are, and what each column means.

The audit, the metrics, the reports and the diagrams read only these columns. `trace.arrow` has the same columns as an
Arrow schema; this file needs no Arrow, so that a node without the extra `lab` can export its journal as rows.

Rows stand in the order in which things happened; at one node that order is exact, and `time_us` never decreases.
A packet with several messages has one send row and one receive row *per message*, all with the same packet number;
a control packet has one of each with source −1 and its kind in `note`.
"""

import enum
from typing import NamedTuple

#: Written into every file; a reader refuses what it does not know.
SCHEMA_VERSION = 1


class Event(enum.IntEnum):
    """What a row says. Stored by name."""

    PUBLISH = 0
    SEND = 1
    RECEIVE = 2
    DELIVER = 3
    DROP = 4
    SUBSCRIBE = 5
    UNSUBSCRIBE = 6
    CRASH = 7
    RECOVER = 8
    #: A clean stop; after it, as after a crash, the node is down until it recovers.
    STOP = 9


class Row(NamedTuple):
    """One row as Python values. What does not apply is −1, '' or ()."""

    time_us: int
    event: Event
    #: Where it happened.
    node: int
    #: The other end of a send (to) or a receive (from).
    peer: int = -1
    topic: str = ""
    #: The message: (topic, source, seq).
    source: int = -1
    seq: int = -1
    #: Number of the packet in its run; equal on the send row and the receive row.
    packet: int = -1
    #: Messages in that packet.
    bundle: int = -1
    #: Bytes of that packet by the protocol's byte model.
    bytes: int = -1
    #: Links the message has crossed (receive, deliver).
    hops: int = -1
    #: On publish rows: the message's dependencies as it carries them, (topic, source, seq) each.
    deps: tuple[tuple[str, int, int], ...] = ()
    #: On deliver rows: how long the message waited here after it was received.
    held_us: int = -1
    note: str = ""
