"""Tells the log what a node waits for and which members fall behind, before anybody has to ask."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from antecede.node.status import in_words

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Between two looks.
_PAUSE_S: Final = 2.0

#: Pauses of the protocol without an answer before the log is told that messages are missing; and looks until it is told
#: again.
_ATTEMPTS: Final = 4
_AGAIN: Final = 30

#: A member that lacks so many messages of this node is told of, and again at ten times as many.
_LAG: Final = 10_000


async def watch(node: "Node") -> None:
    """Look now and then, for as long as the node runs."""
    missing: dict[tuple[str, int], int] = {}
    lagging: dict[int, int] = {}
    while True:
        await asyncio.sleep(_PAUSE_S)
        _tell_missing(node, missing)
        _tell_lagging(node, lagging)


def _tell_missing(node: "Node", looks: dict[tuple[str, int], int]) -> None:
    """`looks`: by topic and source, at how many looks something of it was missing."""
    now = {(one.topic, one.source): one for one in node.process.missing() if one.attempts >= _ATTEMPTS}
    for key in [key for key in looks if key not in now]:
        del looks[key]
        log.info("node %d: the messages of node %d that were missing have come", node.slot, key[1])
    for key, one in now.items():
        looks[key] = looks.get(key, 0) + 1
        if looks[key] % _AGAIN == 1:
            log.warning("node %d: %s", node.slot, in_words(one))


def _tell_lagging(node: "Node", told: dict[int, int]) -> None:
    """`told`: by member, the lag at which it is told of next."""
    lagging = node.lagging()
    for member in [member for member in told if member not in lagging]:
        del told[member]
        log.info("node %d: member %d has caught up", node.slot, member)
    for member, lag in lagging.items():
        if lag >= told.get(member, _LAG):
            told[member] = lag * 10
            state = "down" if member in node.process.down else "behind"
            log.warning("node %d: member %d is %s and lacks %d messages of this node", node.slot, member, state, lag)
