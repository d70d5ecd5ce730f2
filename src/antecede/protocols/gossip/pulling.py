"""Pulling: a broker asks for the messages it lacks, and answers brokers that lack some.

A broker learns how far others are from their digests, and from messages that it holds or had no room for. In every
round it asks for what it lacks of each stream, one broker drawn at random. An answer comes from memory (`store`). A
broker that is far behind fetches from logs instead (`catching_up`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from antecede.core.domain_order import StreamName
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.packets import Pull, Rumour, Want

if TYPE_CHECKING:
    from antecede.protocols.gossip.broker import Broker


class Pulling:
    """What a broker knows that it lacks."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        # By stream: how far another broker said that it is.
        self._heard: dict[StreamName, int] = {}

    def hear(self, stream: StreamName, seq: int) -> None:
        """There is a message `seq` in this stream."""
        self._heard[stream] = max(seq, self._heard.get(stream, 0))

    def pull(self) -> None:
        """Ask for missing messages, each stream from a broker drawn at random."""
        broker = self._broker
        wanted = dict(self._heard)
        for stream, upto in broker.order.missing().items():
            wanted[stream] = max(upto, wanted.get(stream, 0))
        by_target: dict[int, list[Want]] = {}
        for (topic, source), upto in wanted.items():
            reached = broker.order.reached((topic, source))
            if reached >= upto or not broker.relays_topic(topic):
                self._heard.pop((topic, source), None)
                continue
            if broker.catching_up.takes_over((topic, source), reached, upto):
                continue
            for target in broker.views.targets(groups_of(topic), 1):
                by_target.setdefault(target, []).append((topic, source, reached, upto))
        for target, wants in by_target.items():
            broker.out.send(target, Pull(tuple(wants)))

    def wanted(self, wants: Iterable[Want]) -> list[Rumour]:
        """The stored messages among those that another broker lacks.

        A broker with a log sends only messages that follow on those that the other one has: that one fetches the
        others, and would hold these meanwhile.
        """
        broker = self._broker
        store, burst = broker.store, broker.config.burst
        found: list[Rumour] = []
        for topic, source, after, upto in wants:
            if broker.reads_log:
                found += store.run(topic, source, after + 1, min(upto, after + burst))
            else:
                found += [rumour for rumour in store.stream(topic, source) if after < rumour.message.seq <= upto]
        return found[:burst]
