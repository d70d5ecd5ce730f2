"""Groups and topics: a message to several groups is published on the topic that names them all.

"g1&g2" is a topic of its own, with sequence numbers of its own, and is taken by every node that takes g1 or g2. So a
message has one position, in the stream of its topic, and a reader of g1 alone still sees every gap that concerns it. A
node that takes A also takes B if A's groups are among B's, so a message on B covers what precedes it on A
(`core.clocks.DomainFrontier`).
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

SEPARATOR: Final = "&"


@lru_cache(maxsize=65_536)
def groups_of(topic: str) -> frozenset[str]:
    """The groups that a topic names."""
    return frozenset(topic.split(SEPARATOR))


def together(groups: Iterable[str]) -> str:
    """The topic that names all of `groups`."""
    return SEPARATOR.join(sorted(set(groups)))
