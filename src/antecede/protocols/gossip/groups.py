"""Groups and topics: a message to several groups is published on the topic that names them all.

"g1&g2" is a topic of its own, a stream of each source with numbers of its own, and is taken by everybody who takes g1
or g2. A position in each of its groups would be more numbers for the same: a message has one position, in the stream of
its topic, and a reader of g1 alone still sees every gap that concerns it. Whoever takes A takes B as well when A's
groups are among B's, so a message on B covers what lies before it on A (`core.clocks.DomainFrontier`).
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

SEPARATOR: Final = "&"


@lru_cache(maxsize=65_536)
def groups_of(topic: str) -> frozenset[str]:
    """The groups a topic names."""
    return frozenset(topic.split(SEPARATOR))


def together(groups: Iterable[str]) -> str:
    """The topic that names all of `groups`."""
    return SEPARATOR.join(sorted(set(groups)))
