"""Explains why one message came before another, by the shortest chain of publish and deliver rows.

A report shows one example for each rule, so this file walks the whole trace once and keeps nothing for it beforehand.
"""

from typing import NamedTuple

from antecede.audit import wording
from antecede.audit.reference.history import History, Take


class _Link(NamedTuple):
    """`message` came after `before`: its publisher took `before` in `taken`, or (None) its deps name `before`."""

    before: int
    message: int
    taken: Take | None


def links_between(history: History, first: int, last: int, *, across_topics: bool) -> list[str]:
    """The chain from `first` to `last`, one sentence per link."""
    return [_in_words(history, link) for link in _chain(history, first, last, across_topics)]


def _chain(history: History, first: int, last: int, across_topics: bool) -> list[_Link]:
    """The links from `first` to `last`; none if they lead through a delivery that precedes its publication.

    In row order a message's distance from `first` is final when it is published. So the nearest message that a node
    has taken so far is all there is to remember of the node.
    """
    distance = {first: 0}
    how: dict[int, _Link] = {}
    nearest: dict[tuple[int, str], Take] = {}
    for take in history.takes():
        message = take.message
        topic = history.topic(message)
        scope = (take.node, "" if across_topics else topic)
        if take == history.publication[message] and message not in distance:
            seen = nearest.get(scope)
            links = [_Link(seen.message, message, seen)] if seen else []
            for before in history.deps[message]:
                if before in distance and (across_topics or history.topic(before) == topic):
                    links.append(_Link(before, message, None))
            if links:
                how[message] = min(links, key=lambda link: distance[link.before])
                distance[message] = distance[how[message].before] + 1
        if message in distance and (scope not in nearest or distance[message] < distance[nearest[scope].message]):
            nearest[scope] = take
    chain: list[_Link] = []
    while last != first and last in how:
        chain.append(how[last])
        last = how[last].before
    return chain[::-1]


def _in_words(history: History, link: _Link) -> str:
    published = history.publication[link.message]
    assert published is not None  # links end in publish rows
    if link.taken is None:
        return f"{history.at(published)} names {wording.name(history.keys[link.before])} as a dependency"
    return f"{history.at(link.taken).act} and then published {history.at(published)}"
