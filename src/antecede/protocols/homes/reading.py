"""Reads one stream of a partition from the nodes that have what this one lacks.

Other nodes are asked in this order: the homes of the partition, its other members, all others. A message is *gone* when
none of them has it. That is certain once every home and member has answered and has delivered the stream that far.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from antecede.core import Message
from antecede.protocols.homes.records import PAGE_BYTES, Ask, ReadHere, ReadStream, Steps, Store, StreamPage


class Candidates(NamedTuple):
    """The nodes to ask."""

    #: The homes and members of the partition.
    bound: Sequence[int]
    others: Sequence[int]


def candidates(
    node: int, homes: Collection[int], members: Collection[int], present: Sequence[int], left: Collection[int]
) -> Candidates:
    """The nodes that `node` asks for messages of a partition with these homes and members.

    `present`: the others that it knows to be in the cluster; `left`: those that it knows to have left. A member that it
    has not heard of yet cannot be asked, and may have the messages: it is one that does not answer.
    """
    bound = [one for one in homes if one in present]
    bound += [one for one in sorted(members) if one not in homes and one not in left and one != node]
    return Candidates(bound, [one for one in present if one not in bound])


class Found(NamedTuple):
    """Messages that follow each other without a hole, from the first one asked for on; or the numbers that are gone."""

    messages: tuple[Message, ...]
    #: Messages up to this one are gone, where there are none.
    gone: int = 0
    #: Is that certain? False: a node that does not answer may have them.
    certain: bool = True
    #: Did a home or member answer? False: there are some, and none of them did.
    answered: bool = True


def read_elsewhere(
    question: ReadStream, candidates: Candidates, trusts: Callable[[int, Sequence[Message]], bool]
) -> Steps[Found]:
    """Read messages at other nodes, once: at least the first of them, or those that are gone.

    `trusts`: is what this node sent what its sources published?
    """
    bound, others = candidates
    first, last = question.first, question.last
    certain, gone, answered = True, last, not bound
    for slot in (*bound, *others):
        page = yield Ask(slot, question)
        if page is None:
            certain = certain and slot in others
            continue
        if not isinstance(page, StreamPage):
            certain = False
            continue
        answered = answered or slot in bound
        messages = [one for one in page.messages if (one.topic, one.source) == (question.name, question.source)]
        if not trusts(slot, messages):
            certain = False
            continue
        if messages and messages[0].seq == first:
            return Found(without_holes(messages))
        gone = min([gone, *[message.seq - 1 for message in messages]])
        if slot in bound and page.delivered < last:
            certain = False  # it may yet deliver them
    return Found((), gone, certain, answered)


def fetch(
    name: str,
    source: int,
    first: int,
    last: int,
    candidates: Callable[[], Candidates],
    trusts: Callable[[int, Sequence[Message]], bool],
) -> Steps[bool]:
    """Store the messages `first` to `last` of a stream that this node lacks.

    Returns whether it has all that any node has.
    """
    at = first
    while at <= last:
        mine: Sequence[Message] = yield ReadHere(name, source, at, last)
        if mine and mine[0].seq == at:
            at = without_holes(mine)[-1].seq + 1
            continue
        until = min([last, *[message.seq - 1 for message in mine]])
        found = yield from read_elsewhere(ReadStream(0, name, source, at, until, PAGE_BYTES), candidates(), trusts)
        if found.messages:
            yield Store(found.messages)
            at = found.messages[-1].seq + 1
        elif found.certain:
            at = found.gone + 1
        else:
            return False
    return True


def without_holes(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages up to the first hole."""
    first = messages[0].seq
    count = next((index for index, one in enumerate(messages) if one.seq != first + index), len(messages))
    return tuple(messages[:count])
