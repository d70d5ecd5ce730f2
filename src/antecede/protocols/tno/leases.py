"""When a manager stops waiting for a publisher: a number that was given out and is not used is declared void.

Nobody passes a number that may still come. So a manager looks, a lease after it has given numbers out, what of them has
been waiting for a whole lease: that takes one to two leases. A publisher that is known to be down is not given so much
time, only enough for others to pass on what it had given to the event service before it fell. A publisher that was slow
is never harmed by it: what comes after all is notified tagged, and what it has not published yet is numbered anew. So
that it can be, should timestamps take longer than a lease, each lease that ends with something void makes the next one
twice as long, until one ends without.

Only who leads a manager looks (`replica`), and what it finds is a request like any other (`Expire`): all replicas void
the same.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from antecede.core import Outbox
from antecede.protocols.tno.manager import Manager
from antecede.protocols.tno.packets import Expire
from antecede.protocols.tno.replica import Replica

#: How many times longer than usual a lease may become.
_LONGEST: Final = 64


class Lease(NamedTuple):
    """A timer: which events of `topic` were numbered long ago and are not published?"""

    topic: str


class Gone(NamedTuple):
    """A timer: is `node` still suspected, since the time that was?"""

    node: int
    time: int


class Leases:
    """At one node, for the managers it leads."""

    def __init__(self, out: Outbox, suspects: Callable[[int], bool], *, lease_us: int, grace_us: int) -> None:
        """`lease_us`: 0: nothing is ever void. `grace_us`: what is left to who is suspected."""
        self._out = out
        self._suspects = suspects
        self._lease_us = lease_us
        self._grace_us = min(lease_us, grace_us)
        #: By topic whose lease runs: what was waiting when it began.
        self._running: dict[str, frozenset[tuple[int, int, int]]] = {}
        #: By topic: how long its leases are now, where that is longer than usual.
        self._longer_us: dict[str, int] = {}
        #: By node: how often it was suspected.
        self._times: Counter[int] = Counter()

    def begin(self, topic: str) -> None:
        """Numbers of `topic` are given out here."""
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
        """The lease of its topic is over."""
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
        """The time a suspected node was given is over."""
        if self._suspects(timer.node) and timer.time == self._times[timer.node]:
            _expire(replica, {waiting for waiting in _waiting(replica) if waiting[0] == timer.node})


def _waiting(replica: Replica) -> frozenset[tuple[int, int, int]]:
    """Events numbered here and not known to be published: publisher, its number for the event, ours."""
    if replica.leading and isinstance(replica.machine, Manager):
        return frozenset(replica.machine.waiting())
    return frozenset()


def _expire(replica: Replica, events: "set[tuple[int, int, int]] | frozenset[tuple[int, int, int]]") -> None:
    for source, seq, number in sorted(events):
        replica.request(Expire(replica.topic, source, seq, number))
