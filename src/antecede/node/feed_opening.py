"""Opens a feed for a client, or says why it cannot be opened."""

from functools import partial
from typing import TYPE_CHECKING

from antecede.core import UsageError
from antecede.core.limits import FEEDS_MAX
from antecede.node.feed import Feed
from antecede.node.predecessors import check_after
from antecede.node.shares import feed_bytes
from antecede.wire.requests import Subscribe
from antecede.wire.topics import check_filter

if TYPE_CHECKING:
    from antecede.node.owners import FeedClient


def open_feed(session: "FeedClient", record: Subscribe, kind: type[Feed] = Feed) -> tuple[str, str] | None:
    """Open a feed. If it cannot be opened: the kind and the text of the answer (`wire.requests.Ended`)."""
    refusal = _refusal(session, record)
    if refusal is None:
        feed = kind(session, session.node.hub, record)
        session.feeds[record.feed] = feed
        taking = session.node.taking
        feed.on_close = partial(taking.release, feed.partitions)
        taking.need(feed.partitions, feed.open)
    return refusal


def _refusal(session: "FeedClient", record: Subscribe) -> tuple[str, str] | None:
    """Why this feed cannot be opened; None: it can, and its bytes are taken.

    Grants come first: a client that may not read makes the node neither check filters nor keep them.
    """
    node = session.node
    denied = next((pattern for pattern in record.filters if not session.grant.may_subscribe(pattern)), None)
    if denied is not None:
        node.hub.counts.refused["subscribe"] += 1
        return "denied", f"may not subscribe to {denied[:200]!r}"
    if record.order == "total" and not node.hub.total:
        return "order", f"node {node.slot} gives every reader an order of its own"
    if record.max_age_us and (node.hub.total or record.order != "causal"):
        where = "a cluster with one order for all readers" if node.hub.total else f"order {record.order!r}"
        return "age", f"is not for {where}: there a message waits for nothing that could be late"
    kind = "filter"
    try:
        for pattern in record.filters:
            check_filter(pattern)
        kind = "usage"
        check_after(record.seen, node.config.slots, node.partitions.count)
    except UsageError as error:
        return kind, str(error)[:2000]
    return _take_share(session, feed_bytes(record))


def _take_share(session: "FeedClient", size: int) -> tuple[str, str] | None:
    share = session.feeds_share
    if len(session.feeds) >= FEEDS_MAX:
        return "limit", f"this client has {FEEDS_MAX} open feeds, the most there may be"
    if not share.take(size):
        text = f"the open feeds of this client cost {share.used:,} bytes of memory, with their filters"
        return "limit", f"{text}; this one would cost {size:,} more, and at most {share.bytes_max:,} are allowed"
    return None
