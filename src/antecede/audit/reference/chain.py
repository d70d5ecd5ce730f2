"""Why one message came before another, told as the shortest chain of things nodes did.

Only asked for the one example a report shows, so it walks the whole trace once rather than keep anything for it.
"""

from typing import Final, NamedTuple

from antecede.audit.reference.history import History, Take

#: Links shown of a chain; a longer one is cut in the middle. Nobody reads more, and the ends matter most.
LINKS_SHOWN_MAX: Final = 6


class _Link(NamedTuple):
    """`message` came after `before`: its publisher took that in `taken`, or (None) the message's deps say so."""

    before: int
    message: int
    taken: Take | None


def chain_in_words(history: History, first: int, last: int, *, across_topics: bool) -> str:
    links = [_in_words(history, link) for link in _chain(history, first, last, across_topics)]
    if not links:
        return "by way of messages that were known before they were published"
    if len(links) > LINKS_SHOWN_MAX:
        half = LINKS_SHOWN_MAX // 2
        links[half:-half] = [f"(then {len(links) - 2 * half} more)"]
    return "; ".join(links)


def _chain(history: History, first: int, last: int, across_topics: bool) -> list[_Link]:
    """The links from `first` to `last`; none when they lead through a delivery that precedes its publication.

    In row order a message's distance from `first` is final when it is published, so that the nearest message a node
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
    before, message = history.name(link.before), history.name(link.message)
    if link.taken is None:
        return f"{message} ({published.when}) names {before} as a dependency"
    verb = "published" if link.taken.published else "delivered"
    return f"node {link.taken.node} {verb} {before} ({link.taken.when}) and then published {message} ({published.when})"
