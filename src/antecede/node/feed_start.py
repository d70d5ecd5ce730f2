"""Where a feed that begins in the past begins, and what it is given first.

A cursor is a position at this node, or says by stream what the reader has had, or both. Mostly the node has all
deliveries behind it, and the feed reads them by position. Where it does not, because it took a partition later, the
feed is first given the past of its partitions from their homes (`past.replay`).
"""

from typing import TYPE_CHECKING

from antecede.core.errors import GapError
from antecede.core.partitions import split_stream
from antecede.node.past.replay import Replay

if TYPE_CHECKING:
    from antecede.node.feed import Feed


async def find_start(feed: "Feed") -> None:
    """Find where to begin, and tell the client: it can go on from there at any node. Raises `GapError`."""
    hub, history = feed.hub, feed.hub.history
    had = await _lacking(feed) if hub.partitions.count > 1 else None
    if had is not None:
        await _replay(feed, had)
        return
    delivered = dict(hub.delivered)
    if feed.had and not feed.position:
        await _find_unseen(feed, delivered)
        feed.tell({})
        return
    if feed.from_oldest:
        feed.position = max(feed.position, history.oldest)
    elif feed.position < history.oldest:
        raise GapError(feed.position, history.oldest + 1)
    reached = await history.reached_at(feed.position, delivered)
    feed.left_out.reached(reached)
    feed.tell(reached)


async def _find_unseen(feed: "Feed", delivered: dict[int, int]) -> None:
    """Go to the first message the reader lacks. Raises `GapError` when this node lacks some of them, too."""
    hub, history = feed.hub, feed.hub.history
    present, oldest = hub.position, history.oldest
    unread = _unread(feed, delivered)
    found = await history.locate(unread)
    missing = []
    for stream, wanted in sorted(unread.items()):
        before = found[stream][0] - 1 if stream in found else delivered[stream]
        if hub.total:  # numbers that were declared void are not missing; those before the oldest message are
            before = min(before, (await history.reached_at(oldest, delivered)).get(stream, 0))
        missing += hub.ranges(stream, wanted, before)
    if missing and not feed.over_gaps:
        raise GapError(0, oldest + 1, tuple(missing))
    feed.position = max(oldest, min([present, *[position for _, position in found.values()]]))
    reached = await history.reached_at(feed.position, dict(hub.delivered))
    feed.left_out.reached(reached)


def _unread(feed: "Feed", delivered: dict[int, int]) -> dict[int, int]:
    """By stream: the first message that the reader lacks, of those that this node has delivered or passed."""
    mine = {stream: seq for stream, seq in delivered.items() if split_stream(stream)[0] in feed.partitions}
    seen = feed.left_out.seen
    return {stream: seen.get(stream, 0) + 1 for stream, seq in mine.items() if seq > seen.get(stream, 0)}


async def _lacking(feed: "Feed") -> dict[int, int] | None:
    """By stream, what the reader has had, if this node did not deliver all that comes behind. None: it did."""
    hub, history = feed.hub, feed.hub.history
    delivered = dict(hub.delivered)
    position = max(feed.position, history.oldest) if feed.from_oldest else feed.position
    gaps = [gap for gap in history.gaps_from(position) if gap.partition in feed.partitions and gap.lacked_by(feed.had)]
    if feed.had and not feed.position:
        unread = _unread(feed, delivered)
        found = await history.locate(unread)
        whole = all(stream in found and found[stream][0] == wanted for stream, wanted in unread.items())
        return None if whole and not gaps else dict(feed.had)
    if position < history.oldest:
        return dict(feed.had) or None  # a home may have what retention has removed here
    if not gaps:
        return None
    if feed.had or feed.from_oldest:
        return dict(feed.had)
    if any(not gap.missing for gap in gaps):
        return None  # the feed ends at the gap
    return await history.read_at(position, delivered, feed.partitions)


async def _replay(feed: "Feed", had: dict[int, int]) -> None:
    """Give the feed the past of its partitions, then let it go on by position."""
    replay = Replay(feed, feed.session.node.past, had, skip=feed.over_gaps)
    feed.position = 0
    feed.tell(had)  # from here on, a stream over HTTP is told of the next gap
    await replay.run()
    feed.goes_on_behind(replay.position, replay.cut)
