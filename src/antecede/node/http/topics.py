"""The routes of topics: publish a message, read a stream of messages, ask for the last one."""

import math
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec

from antecede.core import AntecedeError, LimitError, UsageError
from antecede.core.limits import DEPENDENCIES_MAX
from antecede.node.http.answers import JSON, SOON, Answer, mistake, refusal
from antecede.node.http.messages import described
from antecede.node.http.publish import Publication
from antecede.node.http.stream import Stream
from antecede.node.predecessors import check_after
from antecede.wire.cursors import MessageId, cursor_text, parse_cursor
from antecede.wire.envelope import seal
from antecede.wire.requests import FILTERS_MAX, MAX_AGE_US_MAX, MAX_AGE_US_MIN, Failed, parse_durability
from antecede.wire.security.tokens import Grants
from antecede.wire.topics import check_filter, check_topic

if TYPE_CHECKING:
    from antecede.node.http.connection import Connection, Doing
    from antecede.node.http.request import Request
    from antecede.node.http.server import HttpServer

#: Seconds that a publication may take, unless the request says otherwise; and at the most.
TIMEOUT_S: Final = 30.0
TIMEOUT_S_MAX: Final = 300.0
#: Seconds in which a stream begins: the node may have to join partitions first.
OPENING_S: Final = 30.0

#: Headers of a request that become headers of the message begin with this.
_HEADER_PREFIX: Final = b"antecede-header-"
#: What programs call a body when they were told nothing about it.
_UNSAID_TYPES: Final = ("", "application/x-www-form-urlencoded", "application/octet-stream")


def publish(server: "HttpServer", grant: Grants) -> "Doing":
    """`POST /topics/{topic}`."""

    def do(connection: "Connection", request: "Request") -> Answer | Coroutine[Any, Any, Answer]:
        try:
            topic = check_topic(request.below("/topics/"))
            payload = seal(topic, request.body, time_us=time.time_ns() // 1000, headers=_headers(request))
            after = _after(server, request)
            level = parse_durability(request.header("Antecede-Durability"))
            timeout_s = _timeout_s(request)
        except AntecedeError as error:
            return mistake(error)
        if not grant.may_publish(topic):
            server.node.hub.counts.refused["publish"] += 1
            return refusal(403, "topic", topic, f"{grant.name!r} may not publish on it", "use a token with a grant")
        full = server.admit(connection)
        if full is not None:
            return full
        return _publish(server, Publication(server.node, grant), topic, payload, after, level, timeout_s)

    return do


async def _publish(
    server: "HttpServer",
    publication: Publication,
    topic: str,
    payload: bytes,
    after: tuple[tuple[int, int], ...],
    level: int,
    timeout_s: float,
) -> Answer:
    node = server.node
    # Where the node is now: a stream that begins there has this message, and every answer to it.
    cursor = cursor_text(node.slot, node.epoch, node.hub.position, node.hub.delivered)
    result = await publication.publish(payload, after, level, math.ceil(timeout_s * 1000))
    if not isinstance(result, Failed):
        told = {"id": str(MessageId(*result)), "topic": topic, "cursor": cursor}
        return Answer(200, msgspec.json.encode(told).decode() + "\n", JSON, keep=True)
    may_arrive = result.uncertain
    if result.kind == "denied":
        answer = refusal(403, "topic", topic, result.text, "use a token with a grant", may_arrive=may_arrive)
    elif result.kind == "usage":
        answer = refusal(400, "publication", topic, result.text, "correct the request", may_arrive=may_arrive)
    elif result.kind == "late":
        remedy = "wait longer (Antecede-Timeout), or see what the node waits for (/status)"
        answer = refusal(504, "Antecede-Timeout", timeout_s, result.text, remedy, may_arrive=may_arrive)
    else:
        answer = refusal(503, "node", node.name, result.text, "try again", headers=SOON, may_arrive=may_arrive)
    return answer._replace(keep=True)


def _headers(request: "Request") -> dict[str, str] | None:
    """The headers of the message."""
    found = {
        decoded_name: request.header(name.decode("ascii")) or ""
        for name in request.headers
        if name.startswith(_HEADER_PREFIX) and (decoded_name := name[len(_HEADER_PREFIX) :].decode("ascii"))
    }
    kind = request.header("Content-Type") or ""
    plain = kind.partition(";")[0].strip().lower()
    if plain == JSON:
        _check_json(request.body)
    if plain not in _UNSAID_TYPES:
        found["content-type"] = kind
    return found or None


def _check_json(body: bytes) -> None:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = body[:100].decode("utf-8", "replace")
        raise UsageError("body", shown, f"is not JSON ({error})", "correct it, or leave Content-Type out") from None


def _after(server: "HttpServer", request: "Request") -> tuple[tuple[int, int], ...]:
    """What the publication follows: ids of messages, or a cursor, which stands for all that was read before it."""
    text = request.header("Antecede-After")
    if not text:
        return ()
    pairs: tuple[tuple[int, int], ...]
    try:
        if ":" in text:
            seen = parse_cursor(text).seen
            if seen is None:
                raise UsageError("cursor", text, "does not say what was read", "use the id of an event, whole")
            pairs = tuple([pair for pair in seen.items() if pair[1]])
        else:
            pairs = tuple([MessageId.parse(one.strip()) for one in text.split(",")])
        if len(pairs) > DEPENDENCIES_MAX:
            raise LimitError("Antecede-After", len(pairs), DEPENDENCIES_MAX, "name the last message of each source")
        check_after(pairs, server.node.config.slots, server.node.partitions.count)
    except UsageError as error:
        remedy = "give ids of messages (0.17, 1.4), or the id of an event"
        raise UsageError("Antecede-After", text[:200], error.problem, remedy) from None
    return tuple([(source, seq) for source, seq in pairs])


def _timeout_s(request: "Request") -> float:
    text = request.header("Antecede-Timeout")
    if text is None:
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= TIMEOUT_S_MAX:
        problem = "is not a time to wait"
        raise UsageError("Antecede-Timeout", text[:100], problem, f"use up to {TIMEOUT_S_MAX:g} seconds")
    return seconds


def _max_age_us(text: str) -> int:
    """The parameter `max_age`, in seconds; 0: there is none."""
    if not text:
        return 0
    try:
        max_age_us = round(float(text) * 1_000_000)
    except (ValueError, OverflowError):
        max_age_us = 0
    if not MAX_AGE_US_MIN <= max_age_us <= MAX_AGE_US_MAX:
        remedy = f"use {MAX_AGE_US_MIN / 1_000_000:g} … {MAX_AGE_US_MAX // 1_000_000} seconds"
        raise UsageError("max_age", text[:100], "is not an age that a message may have", remedy)
    return max_age_us


def subscribe(server: "HttpServer", grant: Grants) -> "Doing":
    """`GET /topics?filter=…`."""

    def do(connection: "Connection", request: "Request") -> Answer | None:
        try:
            query = request.values(("filter", "since", "max_age"))
            filters = tuple(dict.fromkeys(query.get("filter", [])))
            if not filters:
                raise UsageError("filter", "", "there is none", "write for example /topics?filter=rooms/%23")
            if len(filters) > FILTERS_MAX:
                raise LimitError("filters of one stream", len(filters), FILTERS_MAX, "use wildcards, or more streams")
            for pattern in filters:
                check_filter(pattern)
            field, text = "Last-Event-ID", request.header("Last-Event-ID")
            if not text:
                field, text = "since", query.get("since", [""])[-1]
            cursor = parse_cursor(text) if text else None
            max_age_us = _max_age_us(query.get("max_age", [""])[-1])
        except UsageError as error:
            if error.field == "cursor":
                error = UsageError(field, error.value, error.problem, 'give the id of an event, or "0" for everything')
            return mistake(error)
        except AntecedeError as error:
            return mistake(error)
        full = server.admit(connection)
        if full is not None:
            return full
        connection.wait_at_most(OPENING_S)
        stream = Stream(server.node, connection, grant)
        return stream.open(filters, field, cursor, max_age_us)

    return do


def give_last(server: "HttpServer", grant: Grants) -> "Doing":
    """`GET /topics/{topic}/last`."""

    def do(connection: "Connection", request: "Request") -> Answer | Coroutine[Any, Any, Answer]:
        try:
            topic = check_topic(request.below("/topics/", "/last"))
        except UsageError as error:
            return mistake(error)
        if not grant.may_subscribe(topic):
            server.node.hub.counts.refused["subscribe"] += 1
            return refusal(403, "topic", topic, f"{grant.name!r} may not read it", "use a token with a grant")
        full = server.admit(connection)
        return full if full is not None else _last(server, topic)

    return do


async def _last(server: "HttpServer", topic: str) -> Answer:
    entry = await server.last.find(topic)
    if entry is None:
        problem = "this node knows no message on it that it still has"
        answer = refusal(404, "topic", topic, problem, "publish one, or read the past: /topics?filter=…&since=0")
        return answer._replace(keep=True)
    node = server.node
    every = range(node.partitions.count)
    levels = await node.hub.history.read_at(entry.position, dict(node.hub.delivered), every)
    told = described(MessageId(entry.stream, entry.message.seq), entry.message.payload)
    told["cursor"] = cursor_text(node.slot, node.epoch, entry.position, levels)
    return Answer(200, msgspec.json.encode(told).decode() + "\n", JSON, keep=True)
