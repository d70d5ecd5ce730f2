"""Puts violations and refusals into words, the same words for every judge.

An example is complete in itself: it names the nodes, the messages, the row numbers and the times, so that its reader
needs no second look at the trace.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from antecede.audit.report import Example, MessageKey
from antecede.trace import Event

#: The number of links shown of a chain; a longer chain is cut in the middle, because its ends matter most.
LINKS_SHOWN_MAX: Final = 6


class Moment(NamedTuple):
    """One row of the trace: its number and its time."""

    row: int
    time_us: int

    def __str__(self) -> str:
        return f"row {self.row}, time_us {self.time_us}"


class At(NamedTuple):
    """One node's publish or deliver row of one message."""

    node: int
    message: MessageKey
    moment: Moment
    published: bool = False

    def __str__(self) -> str:
        return f"{name(self.message)} ({self.moment})"

    @property
    def act(self) -> str:
        """For instance "node 2 delivered chat/0.1 (row 7, time_us 40)"."""
        return f"node {self.node} {'published' if self.published else 'delivered'} {self}"


def name(message: MessageKey) -> str:
    topic, source, seq = message
    return f"{topic}/{source}.{seq}"


# -- examples, one function per rule ----------------------------------------------------------------------------------


def overtaking(early: At, late: At, why: str) -> Example:
    """Rule `causal`: the node took `early` before `late`, although `late` came before it."""
    first, then = name(late.message), name(early.message)
    return Example(
        words=f"{early.act} before {late}, but {first} came before {then}: {why}",
        nodes=(early.node,),
        messages=(late.message, early.message),
        rows=(early.moment.row, late.moment.row),
    )


def chain(links: Sequence[str]) -> str:
    """Why one message came before another: the links from the first to the last."""
    if not links:
        return "by way of messages that were known before they were published"
    if len(links) > LINKS_SHOWN_MAX:
        half = LINKS_SHOWN_MAX // 2
        links = [*links[:half], f"(then {len(links) - 2 * half} more)", *links[-half:]]
    return "; ".join(links)


def out_of_turn(before: At, late: At) -> Example:
    """Rule `fifo`: the node delivered `before` earlier than `late`, a lower number of the same source."""
    return Example(
        words=f"{before.act} before {late} of the same source",
        nodes=(late.node,),
        messages=(late.message, before.message),
        rows=(before.moment.row, late.moment.row),
    )


def repeated(node: int, message: MessageKey, first: Moment, again: Moment) -> Example:
    """Rule `exactly-once`."""
    return Example(
        words=f"node {node} delivered {name(message)} twice, first at {first}, again at {again}",
        nodes=(node,),
        messages=(message,),
        rows=(first.row, again.row),
    )


def invention(taken: At, problem: str, dependency: MessageKey | None = None) -> Example:
    """Rule `no-invention`. `dependency`: the one that `problem` is about, if it is about one."""
    about = (taken.message,) if dependency is None else (dependency, taken.message)
    return Example(words=f"{taken.act}, {problem}", nodes=(taken.node,), messages=about, rows=(taken.moment.row,))


def two_contents(first: At, other: At) -> Example:
    """Rule `same-content`: `other` has another content than `first`, the row that decides the message's content."""
    verb = "published" if first.published else "delivered"
    return Example(
        words=f"{other.act} with another content than node {first.node} {verb} it with ({first.moment})",
        nodes=(first.node,) if first.node == other.node else (first.node, other.node),
        messages=(other.message,),
        rows=(first.moment.row, other.moment.row),
    )


def never_published() -> str:
    return "which was never published"


def published_later(when: Moment) -> str:
    return f"which was published only later ({when})"


def in_another_name(source: int) -> str:
    return f"in the name of node {source}"


def published_already(node: int, when: Moment) -> str:
    return f"which was already published by node {node} ({when})"


def skipped_number(due: MessageKey) -> str:
    return f"where {name(due)} was due: numbers count from 1 without holes"


def early_dependency(dependency: MessageKey, published: Moment | None) -> str:
    state = "was never published" if published is None else f"was not published before ({published})"
    return f"depending on {name(dependency)}, which {state}"


def loss(
    node: int, message: MessageKey, published: Moment, witness: tuple[int, Moment] | None, since: int, *, back: bool
) -> Example:
    """Rules `complete` and `agreement`: `node` was owed `message` and never took it.

    `witness`: a node that has the message, for `agreement`. `since`: the row of the subscription, −1 for a broadcast.
    `back`: the node was down meanwhile.
    """
    had_it = f", which node {witness[0]} has (since {witness[1]})" if witness else ""
    steady = f"has subscribed to {message[0]} since row {since}" if since >= 0 else "takes every message"
    return Example(
        words=f"node {node} never delivered {name(message)} (published at {published}){had_it}, "
        f"though node {node} {steady}{', went down and came back,' if back else ''} and is up at the end",
        nodes=(node, witness[0]) if witness else (node,),
        messages=(message,),
        rows=(published.row, witness[1].row) if witness else (published.row,),
    )


def crossed_twice(message: MessageKey, node: int, peer: int, first: Moment, again: Moment) -> Example:
    """Rule `tree-edges-once`."""
    return Example(
        words=f"{name(message)} crossed the edge from node {node} to node {peer} twice, first at {first}, "
        f"again at {again}",
        nodes=(node, peer),
        messages=(message,),
        rows=(first.row, again.row),
    )


def disagreement(here: tuple[At, At], there: tuple[At, At]) -> Example:
    """Rule `total`: one node delivered two messages in one order, another node in the other."""
    return Example(
        words=f"{here[0].act} before {here[1]}, {there[0].act} before {there[1]}",
        nodes=(here[0].node, there[0].node),
        messages=(here[0].message, here[1].message),
        rows=tuple(at.moment.row for at in (*here, *there)),
    )


# -- refusals: the problem with a row, and the remedy -----------------------------------------------------------------


def row_of(event: Event) -> str:
    word = event.name.lower()
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word} row"


def wrong_node(event: Event, node: int) -> tuple[str, str]:
    return f"{row_of(event)} at node {node}", "node numbers count from 0"


def time_backwards(node: int, before: Moment, time_us: int) -> tuple[str, str]:
    return (
        f"time at node {node} goes backwards, from {before.time_us} (row {before.row}) to {time_us}",
        "give the rows of a node in the order in which they happened",
    )


def acts_while_down(event: Event, node: int, down_row: int) -> tuple[str, str]:
    problem = f"{row_of(event)} at node {node}, which went down at row {down_row}"
    return problem, "record a recover row when a node comes back"


def no_topic(event: Event) -> tuple[str, str]:
    return f"{row_of(event)} without a topic", "record the topic or filter"


def no_peer(event: Event) -> tuple[str, str]:
    return f"{row_of(event)} without a peer", "record the node the packet goes to"


def incomplete_name(event: Event, key: tuple[bool, int, int], *, dependency: bool = False) -> tuple[str, str]:
    """What an incomplete name lacks. `key`: whether there is a topic, the source and the seq."""
    has_topic, source, seq = key
    lack = "topic" if not has_topic else f"source (it says {source})" if source < 0 else f"seq (it says {seq})"
    where = "a dependency on " if dependency else ""
    return f"{where}{row_of(event)} without a {lack}", "a message is named by topic, source and seq (from 1)"
