"""docs/limits.md from the constants: every bound that a user can meet, and what happens at it and one beyond."""

from typing import NamedTuple

from antecede.client.base import QUEUE_MESSAGES
from antecede.client.options import MAX_AGE_S_MAX, PUBLISH_TIMEOUT_S_MAX
from antecede.client.pending import PENDING_BYTES_MAX
from antecede.client.publications import PENDING_MAX
from antecede.core import limits
from antecede.gateway.ordered import UNREAD_MAX
from antecede.node.bulk import staging
from antecede.node.config import NodeConfig
from antecede.node.http import connection as http_connection
from antecede.node.http import last, server
from antecede.node.http import topics as http_topics
from antecede.node.local_cluster import NODES_MAX
from antecede.wire import accepting, bulk, codec, envelope, frames, requests, topics
from antecede.wire.admission import _KEPT_SHARE, AdmissionLimits
from antecede.wire.security import tokens
from antecede.wire.tcp import TcpLimits


class Limit(NamedTuple):
    """One row: the bound, what still works at it, and what happens one beyond."""

    what: str
    value: float | str
    at: str
    beyond: str


_DOOR = AdmissionLimits()
_LINKS = TcpLimits()
_CONFIG = NodeConfig()
_LIMIT_ERROR = "`LimitError`; nothing is sent"
_USAGE_ERROR = "`UsageError`; nothing is sent"
_CLOSED = "the connection is closed (`malformed`)"

TABLES: dict[str, tuple[Limit, ...]] = {
    "Messages and topics": (
        Limit("bytes of a topic or a filter", limits.TOPIC_BYTES_MAX, "is taken", _LIMIT_ERROR),
        Limit("levels of a topic or a filter", topics.TOPIC_LEVELS_MAX, "is taken", _LIMIT_ERROR),
        Limit("bytes of a payload", envelope.BODY_BYTES_MAX, "is published", _LIMIT_ERROR),
        Limit("headers of a message", envelope.HEADERS_MAX, "are published", _LIMIT_ERROR),
        Limit("bytes of a header's name or value", envelope.HEADER_BYTES_MAX, "are published", _LIMIT_ERROR),
        Limit("messages named by `after`", limits.DEPENDENCIES_MAX, "are waited for", _LIMIT_ERROR),
        Limit(
            "bytes of a message's proof, with `signed`",
            limits.PROOF_BYTES_MAX,
            "is checked",
            "the packet is refused (`malformed`)",
        ),
        Limit("seconds of a publication's timeout", PUBLISH_TIMEOUT_S_MAX, "is waited", _USAGE_ERROR),
    ),
    "One client": (
        Limit(
            "publications without an acknowledgement",
            PENDING_MAX,
            "are under way",
            "`publish` waits; `publish_nowait` raises `LimitError`",
        ),
        Limit(
            "bytes of these, where they are larger than 512",
            PENDING_BYTES_MAX,
            "are under way",
            "as above",
        ),
        Limit("characters of its name or token", codec.NAME_CHARACTERS_MAX, "is taken", _USAGE_ERROR),
        Limit(
            "open feeds", limits.FEEDS_MAX, "all get messages", "that feed fails with `UsageError`; the others go on"
        ),
        Limit(
            "bytes of memory of its feeds with their filters",
            limits.FEEDS_BYTES_MAX,
            "all are matched",
            "that feed fails with `UsageError`; the others go on",
        ),
        Limit("filters of one feed", requests.FILTERS_MAX, "all are matched", _LIMIT_ERROR),
        Limit("seconds of a feed's `max_age_s`", MAX_AGE_S_MAX, "older messages are skipped", _USAGE_ERROR),
        Limit(
            "messages that wait in a feed, by default",
            QUEUE_MESSAGES,
            "are queued",
            "the feed's policy decides: the node waits, drops the oldest, or ends the feed",
        ),
        Limit("messages that may wait in a feed", requests.CREDIT_MAX, "can be asked for", _USAGE_ERROR),
        Limit(
            "bytes that wait in its feeds that drop messages or disconnect",
            limits.WINDOW_BYTES_MAX,
            "are queued",
            "the feed drops its oldest, or ends with `SlowReaderError`",
        ),
        Limit(
            "publications that wait at the node",
            limits.WAITING_MAX,
            "wait",
            "fails with `PublishError`, not published; clients of ours hold back before",
        ),
        Limit("bytes of memory of these", limits.WAITING_BYTES_MAX, "wait", "as above"),
        Limit(
            "bytes of publications that are not yet as safe as was asked",
            limits.UNSETTLED_BYTES_MAX,
            "are under way",
            "the next ones wait at the node",
        ),
        Limit(
            f"bytes that it adds to one batch, with {limits.BATCH_MESSAGE_BYTES} for each message",
            limits.BATCH_BYTES_MAX,
            "are committed together",
            "the next ones wait for the next batch, those of others do not",
        ),
        Limit("publications in one record", limits.PUBLICATIONS_MAX, "are taken", _CLOSED),
        Limit("bytes of a frame with several records", codec.FRAME_BYTES_FULL, "is read", _CLOSED),
        Limit(
            "bytes of answers that it has not read",
            frames.WRITE_BYTES_HIGH,
            "are buffered",
            "the node does not read its connection until it has read",
        ),
        Limit(
            "work in one turn of the event loop, in units of about 10 µs",
            limits.RECORDS_COST_MAX,
            "is done at once",
            "the rest is done in later turns, in which all such clients share as much; meanwhile it is not read",
        ),
        Limit(
            "percent of the event loop's time for all such clients, while clients that ask for less make requests",
            round(100 / (1 + limits.REST_SHARE)),
            "are used",
            "they rest after each turn; deliveries and commits of what they published are not counted",
        ),
        Limit(
            "clients in a token file",
            tokens.CLIENTS_MAX,
            "are known",
            "the file is refused; the one read before stays in use",
        ),
        Limit("days of a certificate or token", limits.CREDENTIAL_DAYS_MAX, "is made", "`UsageError`"),
    ),
    "The door of a node": (
        Limit(
            "connections that others opened",
            _DOOR.connections_max,
            "are served",
            "the oldest handshake makes way; if none is under way, the newcomer is closed (`busy`)",
        ),
        Limit(
            "connections of one host, as a share",
            f"{_KEPT_SHARE - 1}/{_KEPT_SHARE} of these",
            "are served",
            "the oldest handshake of that host makes way, or the newcomer is closed (`busy`)",
        ),
        Limit(
            "file descriptors kept in reserve",
            f"1/{accepting._RESERVE_SHARE} of the limit, at most {accepting._RESERVE_MAX}",
            "the bound on connections is lowered to fit `ulimit -n`",
            "without any descriptor left the node pauses for a second, and logs that once",
        ),
        Limit(
            "handshakes under way",
            _DOOR.handshakes_max,
            "go on",
            f"after {_DOOR.excess_s:g} s the oldest of the host with the most of them makes way (`busy`)",
        ),
        Limit(
            "seconds of a handshake, TLS included",
            _DOOR.handshake_s,
            "is served",
            "the connection is closed (`silent`)",
        ),
        Limit(
            "malformed greetings of a host in a burst",
            _DOOR.malformed_burst,
            "are counted as `malformed`",
            f"counted as `rate`; the host may have {_DOOR.penalised_handshakes} handshakes under way, good ones are"
            f" answered; {_DOOR.malformed_per_s:g} a second is forgiven",
        ),
        Limit("bytes of a hello", codec.HELLO_BYTES_MAX, "is read", "the connection is closed (`malformed`)"),
        Limit("bytes of a frame", codec.FRAME_BYTES_MAX, "is read", "the connection is closed (`malformed`)"),
        Limit(
            "HTTP connections",
            server.CONNECTIONS_MAX,
            "are answered",
            "the connection open longest without a complete request makes way",
        ),
        Limit(
            "HTTP requests that wait for a publication, and streams",
            server.CLIENTS_MAX,
            "are served",
            "answered with 503",
        ),
        Limit("bytes of an HTTP request's head", http_connection.HEAD_BYTES_MAX, "is answered", "answered with 431"),
        Limit(
            "seconds for the head of an HTTP request, and for its answer",
            http_connection.CONNECTION_S,
            "is answered",
            "the connection is closed",
        ),
        Limit(
            "seconds for the body of an HTTP request, and until the next one",
            http_connection.BODY_S,
            "is read",
            "the connection is closed",
        ),
        Limit(
            "seconds that the reader of an HTTP stream takes nothing",
            http_connection.STALL_S,
            "the stream waits",
            "the connection is closed (`silent`); the reader can go on by its last id",
        ),
        Limit("seconds of an HTTP publication", http_topics.TIMEOUT_S_MAX, "is waited for", "answered with 400"),
        Limit(
            "topics whose last message HTTP tells",
            last.TOPICS_MAX,
            "are known",
            "those that had no message for longest are forgotten",
        ),
    ),
    "A node and its cluster": (
        Limit(
            "nodes at a time",
            f"`slots` (default {_CONFIG.live_settings().slots}, at most {limits.SLOTS_MAX:,})",
            "have joined",
            "cannot join",
        ),
        Limit(
            "partitions of its topics",
            limits.PARTITIONS_MAX,
            "can be asked for",
            "`UsageError`; the node does not start",
        ),
        Limit(
            "publications without a sequence number",
            f"{limits.UNNUMBERED_MAX:,}; with the protocol total {limits.UNNUMBERED_TOTAL_MAX:,}",
            "wait for their number",
            "publishers wait (back-pressure)",
        ),
        Limit(
            "bytes of publications that are not in the journal yet",
            limits.UNCOMMITTED_BYTES_MAX,
            "are being committed",
            "publishers wait (back-pressure)",
        ),
        Limit(
            "messages that one gate holds back",
            limits.HELD_MESSAGES_MAX,
            "wait for what they depend on",
            "the protocol asks for the missing message again, or refuses more",
        ),
        Limit(
            "bytes queued for another node",
            _LINKS.queue_bytes_high,
            "are queued",
            "publishers wait (back-pressure); forwarding goes on",
        ),
        Limit(
            "bytes queued for another node, at the most",
            _LINKS.queue_bytes_max,
            "are queued",
            "the newest packet is dropped and counted; the protocol retransmits it",
        ),
        Limit(
            "messages kept in memory for readers",
            f"`recent_messages` (default {_CONFIG.recent_messages:,})",
            "are served from memory",
            "served from the journal; without one, publishers wait for the slowest reader",
        ),
        Limit(
            "bytes of these",
            f"`recent_bytes` (default {_CONFIG.recent_bytes:,})",
            "are served from memory",
            "as above",
        ),
        Limit(
            "the journal's age and bytes",
            "`retain_s`, `retain_bytes` (default none)",
            "are kept",
            "the oldest are removed; a reader that asks for them gets `GapError`",
        ),
        Limit("processes of `antecede cluster`", NODES_MAX, "are started", "`UsageError`"),
        Limit("counters of LoCaMu's links", limits.LINK_COUNTERS_MAX, "are kept", "`UsageError` at the start"),
    ),
    "In bulk (Spark) and over NATS": (
        Limit("bytes of a page that is read", bulk.PAGE_BYTES, "is one answer", "the rest is another page"),
        Limit("parts of one batch", bulk.PARTS_MAX, "are released together", "the batch is refused"),
        Limit("bytes of staged batches", staging.STAGED_BYTES_MAX, "are staged", "`LimitError` to the writer"),
        Limit("named producers", staging.PRODUCERS_MAX, "are remembered", "a new producer is refused"),
        Limit("messages that wait for a NATS reader", UNREAD_MAX, "wait", "the reader fails; it can begin again"),
    ),
}


def render() -> str:
    lines = [
        "# Limits",
        "",
        "Generated by `make docs` from the constants in the code. Every buffer has a bound. The table says what still",
        "works at the bound, and what happens one beyond it. Words in brackets are reasons that `antecede status` and",
        "`/metrics` count (`refused`).",
        "",
    ]
    for title, rows in TABLES.items():
        lines += [f"## {title}", "", "| what | bound | at the bound | one beyond |", "|---|---|---|---|"]
        lines += [f"| {row.what} | {_value(row.value)} | {row.at} | {row.beyond} |" for row in rows]
        lines += [""]
    lines += _memory()
    return "\n".join(lines).rstrip() + "\n"


def _memory() -> list[str]:
    """The bound on a node's memory: its parts, and their sum for a number of connections."""
    parts = {
        "the node itself: Python, the protocol, the journal": limits.NODE_BYTES_OWN,
        "messages kept in memory for readers, with their objects: twice `recent_bytes`": 2 * _CONFIG.recent_bytes,
        "what all clients make it hold: feeds, messages that wait in them, publications": limits.POOL_BYTES_MAX,
        "for each connection of a client: a frame, its records, and answers": limits.CONNECTION_BYTES_MAX,
        "for each connection of a bulk client: a question, and its answer twice": limits.BULK_CONNECTION_BYTES_MAX,
        "for each other node: packets queued for it": _LINKS.queue_bytes_max,
    }
    lines = ["## Memory of a node", "", "| part | bytes |", "|---|---|"]
    lines += [f"| {what} | {size:,} |" for what, size in parts.items()]
    hundred = limits.node_bytes_max(clients=100, bulk_clients=10, recent_bytes=_CONFIG.recent_bytes)
    return [
        *lines,
        "",
        "When all clients together have used up their part, "
        f"{limits.SHARE_BYTES_KEPT:,} bytes of each bound stay free for every client.",
        "",
        "The sum bounds the node's memory. For a node with 100 clients, 10 bulk clients and the default settings it is "
        f"{hundred / 1e6:,.0f} MB. It grows with the connections: {limits.CONNECTION_BYTES_MAX / 1e6:.1f} MB for each"
        " that sends the largest frame, reads nothing and waits. A connection that does neither takes about 10 KB.",
        "`bench/hostile.py` measures it under attack.",
        "",
    ]


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"
