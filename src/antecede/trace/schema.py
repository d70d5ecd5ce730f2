"""Defines the rows of a trace: which events there are, and what each column means.

The audit, the metrics, the reports and the diagrams read only these columns. `trace.arrow` has the same columns as an
Arrow schema; this file needs no Arrow, so that a node without the extra `lab` can export its journal as rows.

Rows stand in the order in which things happened; at one node that order is exact, and `time_us` never decreases.
A packet with several messages has one send row and one receive row *per message*, all with the same packet number;
a control packet has one of each with source −1 and its kind in `note`.
"""

import enum
from hashlib import blake2b
from typing import Final, NamedTuple

#: Written into every file. Version 2 added the event `stop` and the column `digest`; files of version 1 are still read.
SCHEMA_VERSION = 2
#: The columns that files of version 1 do not have.
ADDED_IN_2 = frozenset(("digest",))


#: A time from here on is of the wall clock: microseconds since 1970 (this is in 2001). Earlier ones are simulated.
WALL_CLOCK_US: Final = 10**15


class Event(enum.IntEnum):
    """What a row says. Stored by name, in lower case; `EVENTS` has the meanings."""

    PUBLISH = 0
    SEND = 1
    RECEIVE = 2
    DELIVER = 3
    DROP = 4
    SUBSCRIBE = 5
    UNSUBSCRIBE = 6
    CRASH = 7
    RECOVER = 8
    STOP = 9


EVENTS: Final[dict[Event, str]] = {
    Event.PUBLISH: "the node publishes a message",
    Event.SEND: "a packet leaves the node for `peer`: one row for each message in it, one row for a control packet",
    Event.RECEIVE: "a packet from `peer` reaches the node; rows as for send",
    Event.DELIVER: "the node gives a message to the application",
    Event.DROP: "a packet from `peer` is lost at the node, which is down",
    Event.SUBSCRIBE: "the node subscribes to the topic or filter in `topic`",
    Event.UNSUBSCRIBE: "the node ends that subscription",
    Event.CRASH: "the node fails; it is down until it recovers",
    Event.RECOVER: "the node is up again",
    Event.STOP: "the node stops cleanly; it is down until it recovers",
}


class Row(NamedTuple):
    """One row as Python values; `COLUMNS` has the meanings. A value that does not apply is −1, '' or ()."""

    time_us: int
    event: Event
    node: int
    peer: int = -1
    topic: str = ""
    source: int = -1
    seq: int = -1
    packet: int = -1
    bundle: int = -1
    bytes: int = -1
    hops: int = -1
    deps: tuple[tuple[str, int, int], ...] = ()
    held_us: int = -1
    note: str = ""
    digest: int = -1


#: The meaning of each column, and of the column `run` that only tables have. A value that does not apply is null there.
COLUMNS: Final[dict[str, str]] = {
    "run": "name of the run; the rows of one run make one trace",
    "time_us": "time in microseconds: since 1970 by the node's clock, or since the start of a simulation, in which "
    "1,000,000 is one unit of time; it never decreases at a node",
    "event": "what happened",
    "node": "number of the node where it happened, from 0",
    "peer": "the other end of a packet: the receiver of a send, the sender of a receive or drop",
    "topic": "topic of the message; of subscribe and unsubscribe rows the topic or filter",
    "source": "the node that published the message",
    "seq": "sequence number of the message at its source, from 1; (topic, source, seq) names a message",
    "packet": "number of the packet in its run, equal on its send and receive rows",
    "bundle": "number of messages in the packet; 0 in a control packet",
    "bytes": "size of the packet in bytes, by the byte model of the protocol",
    "hops": "number of links the message has crossed (receive, deliver)",
    "deps": "dependencies of the message as it carries them (publish)",
    "held_us": "how long the message waited at the node after it was received, in microseconds (deliver)",
    "note": "`out_of_order`: later messages came before it; `incomplete`: messages that it depends on are gone"
    " (deliver); the kind of a control packet (send, receive); in exported journals the topic the application named",
    "digest": "hash of the payload, 63 bits (publish, deliver); null: unknown",
}


def payload_digest(payload: bytes) -> int:
    """A 63-bit hash of the payload, by which the audit sees one sequence number with two contents."""
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), "big") >> 1
