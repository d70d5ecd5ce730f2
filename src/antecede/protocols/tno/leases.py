"""Leases: when a manager stops waiting for a publisher, and declares a number void that was given and not used.

No subscriber passes a number that may still come. So, a lease after it has given numbers, a manager checks which of
them have waited for a whole lease; that takes one to two leases. A publisher that is suspected gets less time: enough
for others to forward what it had given to the event service. A slow publisher loses nothing: an event that comes after
all is notified tagged, and an event not yet published is numbered anew. Timestamps may take longer than a lease; so
each lease that ends with void numbers makes the next one twice as long, until a lease ends without.

Only the leader of a manager checks (`replica`). What it finds becomes a request like any other (`Expire`), so that all
replicas void the same numbers.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from antecede.core import Outbox
from antecede.protocols.tno.manager import Manager
from antecede.protocols.tno.packets import Expire
from antecede.protocols.tno.replica import Replica

#: The longest lease, in units of the usual one.
_LONGEST: Final = 64


class Lease(NamedTuple):
    """Timer: find events of `topic` that were numbered long ago and are not published."""

    topic: str


class Gone(NamedTuple):
    """Timer: is `node` still under the suspicion number `time`?"""

    node: int
    time: int


class Leases:
    """The leases of the managers that one node leads."""

    def __init__(self, out: Outbox, suspects: Callable[[int], bool], *, lease_us: int, grace_us: int) -> None:
        """`lease_us` 0: no number is ever void. `grace_us`: the time left to a suspected publisher."""
        self._out = out
        self._suspects = suspects
        self._lease_us = lease_us
        self._grace_us = min(lease_us, grace_us)
        #: By topic whose lease runs: the events that were waiting when it began.
        self._running: dict[str, frozenset[tuple[int, int, int]]] = {}
        #: By topic: the length of its leases, where that is longer than usual.
        self._longer_us: dict[str, int] = {}
        #: By node: how often it was suspected.
        self._times: Counter[int] = Counter()

    def begin(self, topic: str) -> None:
        """Numbers of `topic` are given at this node: start a lease."""
        if self._lease_us and topic not in self._running:
            self._run(topic, frozenset())

    def _run(self, topic: str, waiting: frozenset[tuple[int, int, int]]) -> None:
        self._running[topic] = waiting
        self._out.wake_after(self._longer_us.get(topic, self._lease_us), Lease(topic))

    def suspected(self, node: int) -> None:
        if self._lease_us:
            self._times[node] += 1
            self._out.wake_after(self._grace_us, Gone(node, self._times[node]))

    def ended(self, replica: Replica) -> None:
        """The lease of the replica's topic has ended."""
        before = self._running.pop(replica.topic, frozenset())
        waiting = _waiting(replica)
        if waiting & before:
            length_us = self._longer_us.get(replica.topic, self._lease_us)
            self._longer_us[replica.topic] = min(2 * length_us, _LONGEST * self._lease_us)
            _expire(replica, waiting & before)
        else:
            self._longer_us.pop(replica.topic, None)
        if waiting - before:
            self._run(replica.topic, waiting - before)

    def gone(self, timer: Gone, replica: Replica) -> None:
        """The time left to a suspected node has ended."""
        if self._suspects(timer.node) and timer.time == self._times[timer.node]:
            _expire(replica, {waiting for waiting in _waiting(replica) if waiting[0] == timer.node})


def _waiting(replica: Replica) -> frozenset[tuple[int, int, int]]:
    """Events numbered here and not known to be published: publisher, sequence number, number on the topic."""
    if replica.leading and isinstance(replica.machine, Manager):
        return frozenset(replica.machine.waiting())
    return frozenset()


def _expire(replica: Replica, events: "set[tuple[int, int, int]] | frozenset[tuple[int, int, int]]") -> None:
    for source, seq, number in sorted(events):
        replica.request(Expire(replica.topic, source, seq, number))
