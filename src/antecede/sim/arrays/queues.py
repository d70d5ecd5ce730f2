"""`sim.peersim.StepQueues` for all packets of a step at once: the same queues, the same coins, the same random words.

Words are used as there: one for the propagation of each packet. After it, for the first packet an event puts into a
queue, come those of the event's coin: one word for the first such event of a node and step, two for each later one.

The packets a node sends in a step are queued in order. If no packet of the node leaves in this step yet, the first one
whose event comes before the node's moment to send leaves now. All others follow behind the packets already queued.
"""

import numpy as np
from numpy.typing import NDArray

from antecede.sim.arrays.words import Words, as_bits, as_fractions

#: No packet of a node leaves in the step itself.
_NONE = np.iinfo(np.int64).max

Ints = NDArray[np.int64]


class ArrayQueues:
    """The send queues of all nodes."""

    def __init__(self, words: Words, nodes: int, *, propagation: int) -> None:
        self._words = words
        self._propagation = propagation
        #: By node: the step in which its last packet leaves.
        self._last = np.full(nodes, -1, np.int64)

    def between(self, step: int, sender: int, packets: int) -> tuple[Ints, Ints]:
        """The packets of one event between `step` and the next: steps of arrival, and places in the queue."""
        leaves = max(int(self._last[sender]), step) + 1 + np.arange(packets)
        self._last[sender] = leaves[-1]
        return leaves + self._propagation - as_bits(self._words.take(packets)), leaves - step

    def at(self, step: int, senders: Ints, packets: Ints, bypass: NDArray[np.bool_] | None) -> tuple[Ints, Ints]:
        """The packets of the events of a step, in order. Given for each event: its node and how many packets it sends.

        Packets of an event with `bypass` do not queue. Returns for all packets, event by event: their steps of arrival
        and their places.
        """
        queued = np.arange(len(senders)) if bypass is None else np.flatnonzero(~bypass)
        # Events with a queue, by sender and then in order; where a sender begins; and which of its events each is.
        by_sender = queued[np.argsort(senders[queued], kind="stable")]
        starts, group = _groups(senders[by_sender])
        rank = np.arange(len(by_sender)) - starts[group]

        coin_words = np.zeros(len(senders), np.int64)
        coin_words[by_sender] = 1 + (rank > 0)
        first_packet = np.cumsum(packets) - packets
        first_word = np.cumsum(packets + coin_words) - packets - coin_words
        words = self._words.take(int(packets.sum() + coin_words.sum()))
        # A packet's word; those behind the first of its event have the coin's words before them.
        within = np.arange(packets.sum()) - np.repeat(first_packet, packets)
        word = np.repeat(first_word, packets) + within + (within > 0) * np.repeat(coin_words, packets)
        arrival = step + self._propagation - as_bits(words[word])
        place = np.zeros(len(arrival), np.int64)
        if not len(by_sender):
            return arrival, place

        before = _before_their_turn(words, first_word[by_sender] + 1, group, rank)
        # From here on packets by sender, then in order. `nth` of its sender's in this step, from 0.
        counts = packets[by_sender]
        begin = np.cumsum(counts) - counts
        nth_of_first = begin - begin[starts][group]
        event = np.repeat(np.arange(len(by_sender)), counts)
        in_event = np.arange(len(event)) - begin[event]
        nth = nth_of_first[event] + in_event
        at = first_packet[by_sender][event] + in_event

        nodes = senders[by_sender][starts]
        last = self._last[nodes]
        leaves_now = np.minimum.reduceat(np.where(before, nth_of_first, _NONE), starts)
        leaves_now[last >= step] = _NONE
        last = np.maximum(last, step)
        self._last[nodes] = last + np.add.reduceat(counts, starts) - (leaves_now != _NONE)

        sender = group[event]
        leaves = last[sender] + 1 + nth - (nth > leaves_now[sender])
        leaves[nth == leaves_now[sender]] = step
        arrival[at] += leaves - step
        place[at] = leaves - step + before[event]
        return arrival, place


def _groups(values: Ints) -> tuple[Ints, Ints]:
    """Of sorted values: where each new one begins, and the number of the group each belongs to."""
    new = np.ones(len(values), np.bool_)
    new[1:] = values[1:] != values[:-1]
    return np.flatnonzero(new), np.cumsum(new) - 1


def _before_their_turn(words: NDArray[np.uint64], coin: Ints, group: Ints, rank: Ints) -> NDArray[np.bool_]:
    """Events before their node's moment to send: of n events, b before it, the next with probability (b + 1) / (n + 2).

    The chance of an event depends on those of the same node (`group`) before it, so first events come first.
    """
    before = np.zeros(len(coin), np.bool_)
    found = np.zeros(group[-1] + 1, np.int64)
    first = np.flatnonzero(rank == 0)
    before[first] = as_bits(words[coin[first]]) == 1
    found[group[first]] = before[first]
    later = np.flatnonzero(rank)
    nth = 0
    while len(later):
        nth += 1
        here = later[rank[later] == nth]
        chance = as_fractions(words[coin[here]], words[coin[here] + 1]) * (nth + 2)
        before[here] = chance < found[group[here]] + 1
        found[group[here]] += before[here]
        later = later[rank[later] > nth]
    return before
