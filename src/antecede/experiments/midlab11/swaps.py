"""The swaps of topics (MIDLAB 9/2011, 5 and 6.2), by calculation: no network and no nodes, at the paper's size.

Three things decide over swaps: which topics are taken together, how often each is published on, and the rule, which
compares f of a topic's number with f of a higher one's, by α and β. None of it needs time. Any two topics are assumed
to be taken together by some node, so a timestamp has as many entries as its topic's rank. With the paper's 10,000
subscribers that take 100 of 1,000 topics each, by the power law, this holds for all topics with many publications:
nearly all nodes take them. Two of the rarest meet in every fourth run only, and those have few publications.

Parameters are what the paper does not print and what decides over the outcome: the number at which topics begin, the
topic with which a topic swaps among those it has outgrown, and whether events come in bursts.
"""

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

from antecede.protocols.tno.order import popularity

#: Topics that a node takes of 1,000.
TAKEN = 100


class Reading(NamedTuple):
    """One reading of what the text leaves open."""

    #: With which of the topics it has outgrown a topic swaps.
    place: Literal["highest", "nearest"] = "highest"
    #: Events counted on each topic before the first.
    begin: int = 0
    #: The paper says 1,000 for α and β; elsewhere it has 50.
    topics: int = 1000
    #: Nodes whose subscriptions, 100 topics each, have raised the topics' numbers before, as printed in Figure 7.
    joins: int = 0
    #: How many events in a row a topic has, on the mean, when one is published on it; 1: each is drawn by itself.
    burst: int = 1


READINGS = {
    "highest-from-0": Reading(),
    "highest-from-4": Reading(begin=4),
    "nearest-from-0": Reading(place="nearest"),
    "raised-by-joins": Reading(joins=10_000),
    "fifty-topics": Reading(topics=50),
    "bursts-of-50": Reading(topics=50, burst=50),
}


class Course(NamedTuple):
    """The result of a calculation."""

    swaps: int
    #: Entries of each event's timestamp.
    entries: list[int]


def course(
    order: Sequence[int], events: Sequence[int], *, alpha: float, beta: float, reading: Reading, shape: float = 0.901
) -> Course:
    """Publish `events`, given by their topics, under an order that adapts; with `beta` 0 it stays."""
    now = list(order)
    count = dict.fromkeys(order, reading.begin)
    if reading.joins:
        count = dict(enumerate(takers(reading.joins, reading.topics, shape)))
    swaps, entries = 0, []
    for topic in events:
        count[topic] += 1
        place = now.index(topic)
        entries.append(place + 1)
        if not beta:
            continue
        least = popularity(count[topic], alpha) - beta
        above = range(place) if reading.place == "highest" else range(place - 1, -1, -1)
        outgrown = next((higher for higher in above if popularity(count[now[higher]], alpha) < least), None)
        if outgrown is not None:
            now[outgrown], now[place] = now[place], now[outgrown]
            swaps += 1
    return Course(swaps, entries)


def takers(nodes: int, topics: int, shape: float, taken: int = TAKEN) -> list[int]:
    """How many of the nodes take each topic, by rank, if each draws from the power law until it has `taken` topics.

    These are expectations: after d draws a topic of weight p is among those drawn with probability 1 − (1 − p)^d.
    """
    weights = [rank**-shape - (rank + 1) ** -shape for rank in range(1, topics + 1)]
    total = sum(weights)

    def has(draws: float) -> list[float]:
        return [1 - (1 - weight / total) ** draws for weight in weights]

    low, high = 0.0, 1.0
    while sum(has(high)) < taken:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(has(middle)) < taken else (low, middle)
    return [round(nodes * share) for share in has(high)]


def publications(rng: random.Random, count: int, topics: int, shape: float, burst: int = 1) -> list[int]:
    """The topics of so many events, by rank, under the power law."""
    found: list[int] = []
    while len(found) < count:
        rank = int(rng.paretovariate(shape))
        if rank <= topics:
            found += [rank - 1] * (1 if burst == 1 else round(rng.uniform(1, 2 * burst - 1)))
    return found[:count]
