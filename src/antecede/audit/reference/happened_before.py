"""Rebuilds happened-before between messages, by its definition and from the trace alone.

m came before m′ if the node that published m′ had delivered or published m by then; and transitively. The `deps` of a
publish row count as well, for traces that lack the publisher's own deliveries. The judge uses only the acts of nodes
and their order, never times or anything a protocol keeps.

A past is a Python integer with one bit for each message: union and intersection run at memory speed. M messages take at
most M²/8 bytes; see `history.MESSAGES_MAX`.
"""

from antecede.audit.reference.history import History


def pasts(history: History, *, across_topics: bool) -> list[int]:
    """By message: the bits of all messages before it. With `across_topics` false only messages on one topic relate.

    One pass in row order is enough unless a message is delivered, or depended upon, before its own publish row. Rule
    `no-invention` reports such a trace, and its order is judged all the same: the pass is repeated until nothing
    changes. A message in a circle then has its own bit set.
    """
    past = [0] * len(history.keys)
    while True:
        settled = list(past)
        looked_ahead = _pass(history, past, across_topics)
        if not looked_ahead or settled == past:
            return past


def _pass(history: History, past: list[int], across_topics: bool) -> bool:
    """Fill in `past` from what it holds already. True when a message was met before its publish row."""
    looked_ahead = False
    met = bytearray(len(history.keys))
    # By (node, topic or everything): what the node took since it last published, and that publication, which stands for
    # all before it. Most nodes take far more than they publish, and a node's past is needed only when it publishes.
    taken: dict[tuple[int, str], list[int]] = {}
    for take in history.takes():
        message = take.message
        scope = (take.node, "" if across_topics else history.topic(message))
        if take.published and not met[message]:
            met[message] = 1
            for earlier in taken.pop(scope, ()):
                past[message] |= past[earlier] | 1 << earlier
            for dependency in history.deps[message]:
                if across_topics or history.topic(dependency) == history.topic(message):
                    looked_ahead |= not met[dependency]
                    past[message] |= past[dependency] | 1 << dependency
        looked_ahead |= not met[message]
        taken.setdefault(scope, []).append(message)
    return looked_ahead
