"""docs/limits.md from the constants: every bound that a user can meet, and what happens at it and one beyond."""

from typing import NamedTuple

from antecede.client.bus import PENDING_MAX, QUEUE_MESSAGES
from antecede.client.options import PUBLISH_TIMEOUT_S_MAX
from antecede.core import limits
from antecede.gateway.ordered import UNREAD_MAX
from antecede.node import http
from antecede.node.bulk import staging
from antecede.node.config import NodeConfig
from antecede.node.local_cluster import NODES_MAX
from antecede.node.node import _UNSTAMPED_MAX
from antecede.node.publishing import WAITING_BYTES_MAX, WAITING_MAX
from antecede.node.session import FEEDS_MAX
from antecede.wire import accepting, bulk, codec, envelope, requests, topics
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

TABLES: dict[str, tuple[Limit, ...]] = {
    "Messages and topics": (
        Limit("bytes of a topic or a filter", limits.TOPIC_BYTES_MAX, "is taken", _LIMIT_ERROR),
        Limit("levels of a topic or a filter", topics.TOPIC_LEVELS_MAX, "is taken", _LIMIT_ERROR),
        Limit("bytes of a payload", envelope.BODY_BYTES_MAX, "is published", _LIMIT_ERROR),
        Limit("headers of a message", envelope.HEADERS_MAX, "are published", _LIMIT_ERROR),
        Limit("characters of a header's name or value", envelope.HEADER_BYTES_MAX, "are published", _LIMIT_ERROR),
        Limit("messages named by `after`", limits.DEPENDENCIES_MAX, "are waited for", _LIMIT_ERROR),
        Limit("seconds of a publication's timeout", PUBLISH_TIMEOUT_S_MAX, "is waited", _USAGE_ERROR),
    ),
    "One client": (
        Limit(
            "publications without an acknowledgement",
            PENDING_MAX,
            "are under way",
            "`publish` waits; `publish_nowait` raises `LimitError`",
        ),
        Limit("characters of its name or token", codec.NAME_CHARACTERS_MAX, "is taken", _USAGE_ERROR),
        Limit("open feeds", FEEDS_MAX, "all get messages", "that feed fails with `UsageError`; the others go on"),
        Limit("filters of one feed", requests.FILTERS_MAX, "all are matched", _LIMIT_ERROR),
        Limit(
            "messages that wait in a feed, by default",
            QUEUE_MESSAGES,
            "are queued",
            "the feed's policy decides: the node waits, drops the oldest, or ends the feed",
        ),
        Limit("messages that may wait in a feed", requests.CREDIT_MAX, "can be asked for", _USAGE_ERROR),
        Limit("publications that wait at the node", WAITING_MAX, "wait", "fails with `PublishError`, not published"),
        Limit("bytes of these", WAITING_BYTES_MAX, "wait", "fails with `PublishError`, not published"),
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
            http._CONNECTIONS_MAX,
            "are answered",
            "the connection open longest without a request makes way",
        ),
        Limit("bytes of an HTTP request's head", http._HEAD_BYTES_MAX, "is answered", "answered with an error"),
        Limit("seconds of an HTTP connection", http._CONNECTION_S, "is answered", "the connection is closed"),
    ),
    "A node and its cluster": (
        Limit("nodes, ever", f"`slots` (default {_CONFIG.slots}, at most {1 << 16})", "have joined", "cannot join"),
        Limit(
            "publications without a sequence number",
            _UNSTAMPED_MAX,
            "wait for their number",
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
        "Not bounded in bytes yet: the answers that a client does not read, and the filters of all its feeds together.",
        "See [security.md](security.md) for what that means.",
        "",
    ]
    for title, rows in TABLES.items():
        lines += [f"## {title}", "", "| what | bound | at the bound | one beyond |", "|---|---|---|---|"]
        lines += [f"| {row.what} | {_value(row.value)} | {row.at} | {row.beyond} |" for row in rows]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"
