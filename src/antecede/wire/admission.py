"""Admission control: bounds the connections of a node and their handshakes, and shares them between hosts.

A stranger costs a socket, a handshake's timeout and a log line; each has a bound here.

Connections. One host cannot take all of them: a share is kept for the other hosts.

Handshakes. A newcomer always begins its handshake. When too many are under way, the excess is closed a moment later:
the oldest handshake of the host that has the most of them. So silent sockets make way for newcomers, and a host with
few handshakes loses none to a host with many. A part of the queue is kept for known hosts, those from which a member or
a client with a valid token has come before.

Malformed input. Every malformed greeting takes a token from its host's bucket. While the bucket is empty the host may
have only a few handshakes under way, and its malformed greetings are counted as `Reason.RATE`. Its good greetings are
answered.
"""

import heapq
import ipaddress
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from antecede.core.caches import BoundedCache
from antecede.wire.transport import Counts, Reason

log = logging.getLogger("antecede.wire")

#: Hosts and reasons remembered. A flood from many addresses pushes out the oldest entries.
_REMEMBERED_MAX: Final = 1024
#: Of the connections and of the handshakes: one in so many is kept, for other hosts and for known hosts.
_KEPT_SHARE: Final = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Bounds on strangers. The defaults suit a node with thousands of clients on a machine of two cores."""

    #: Connections that others opened, at one time. A file descriptor each, and about 10 KB. Fewer where the process may
    #: open fewer descriptors.
    connections_max: int = 16_384
    #: Of these, how many may be in their handshake.
    handshakes_max: int = 256
    #: How long a handshake may take, TLS included.
    handshake_s: float = 5.0
    #: How long more than `handshakes_max` are suffered, for those to end that are quick.
    excess_s: float = 0.1
    #: Malformed greetings a host may send in a burst, and how many more each second.
    malformed_burst: int = 32
    malformed_per_s: float = 1.0
    #: Handshakes that a host which exceeded this may have under way.
    penalised_handshakes: int = 8


class AdmissionControl:
    """Counts connections and malformed frames, and decides which connections may begin. Time is an argument."""

    def __init__(self, limits: AdmissionLimits, counts: Counts) -> None:
        self.limits = limits
        self._counts = counts
        #: Connections; and by host.
        self.inside = 0
        self._by_host: Counter[str] = Counter()
        # By host: the tokens left, and the time they were counted.
        self._buckets: BoundedCache[str, tuple[float, float]] = BoundedCache(_REMEMBERED_MAX)
        self._said: BoundedCache[tuple[str, str], None] = BoundedCache(_REMEMBERED_MAX)

    @property
    def full(self) -> bool:
        return self.inside >= self.limits.connections_max

    def admit(self, host: str) -> Reason | None:
        """Count a connection from `host` as inside, and return None; or return why it must not begin its handshake."""
        most = self.limits.connections_max
        if self.full or self._by_host[host] >= most - most // _KEPT_SHARE:
            return Reason.BUSY
        self.inside += 1
        self._by_host[host] += 1
        return None

    def left(self, host: str) -> None:
        self.inside -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def record_malformed(self, host: str, now: float) -> Reason:
        """Take a token from `host`: it sent what does not decode. RATE: it had none left."""
        tokens = self._tokens(host, now)
        self._buckets[host] = (max(0.0, tokens - 1.0), now)
        return Reason.MALFORMED if tokens >= 1.0 else Reason.RATE

    def penalised(self, host: str, now: float) -> bool:
        """Has `host` sent more malformed greetings lately than a host may?"""
        return host in self._buckets and self._tokens(host, now) < 1.0

    def refused(self, host: str, reason: str, detail: str) -> None:
        """Count a refusal, and log the first of its reason from `host`."""
        self._counts.refused[reason] += 1
        key = (host, reason)
        if key not in self._said:
            self._said[key] = None
            # Two nodes that dial each other are common, and settle it by themselves.
            level = logging.DEBUG if reason == Reason.DUPLICATE else logging.WARNING
            log.log(level, "refused %s: %s (%s); further ones are only counted", host, reason, detail)

    def _tokens(self, host: str, now: float) -> float:
        limits = self.limits
        tokens, at = self._buckets.get(host, (float(limits.malformed_burst), now))
        tokens = min(float(limits.malformed_burst), tokens + (now - at) * limits.malformed_per_s)
        if tokens >= limits.malformed_burst:
            self._buckets.pop(host, None)
        return tokens


class HandshakeQueue(Generic[T]):
    """The handshakes under way, by host, and which of them must make way."""

    def __init__(self, handshakes_max: int) -> None:
        self._max = handshakes_max
        self._kept = handshakes_max // _KEPT_SHARE
        self._count = 0
        #: By host: its handshakes, the oldest first.
        self._hosts: dict[str, dict[T, None]] = {}
        self._known: BoundedCache[str, None] = BoundedCache(_REMEMBERED_MAX)

    def __len__(self) -> int:
        return self._count

    @property
    def over(self) -> bool:
        """Are there more than there may be?"""
        return self._count > self._max

    def enter(self, one: T, host: str) -> None:
        self._hosts.setdefault(host, {})[one] = None
        self._count += 1

    def leave(self, one: T, host: str) -> None:
        """A handshake ended, well or badly. A second call changes nothing."""
        queue = self._hosts.get(host)
        if queue is not None and one in queue:
            del queue[one]
            self._count -= 1
            if not queue:
                del self._hosts[host]

    def has(self, one: T, host: str) -> bool:
        return one in self._hosts.get(host, ())

    def welcomed(self, host: str) -> None:
        """A member, or a client that may come in, has come from `host`."""
        self._known[host] = None

    def excess(self) -> list[tuple[T, str]]:
        """Remove and return those that must make way, with their hosts."""
        return self._remove(self._count - self._max, strangers_keep=self._max - self._kept)

    def excess_of(self, host: str, most: int) -> list[tuple[T, str]]:
        """Remove and return the oldest handshakes of `host` beyond `most`."""
        return self._remove_oldest([host], len(self._hosts.get(host, ())) - most)

    def make_room(self, host: str | None) -> list[tuple[T, str]]:
        """Remove and return one handshake of `host`; of any host if None, a stranger's if there is any."""
        return self._remove(1, strangers_keep=0) if host is None else self._remove_oldest([host], 1)

    def _remove(self, count: int, *, strangers_keep: int) -> list[tuple[T, str]]:
        if count <= 0:
            return []
        known = [host for host in self._hosts if host in self._known]
        strangers = [host for host in self._hosts if host not in self._known]
        of_strangers = sum([len(self._hosts[host]) for host in strangers])
        removed = self._remove_oldest(strangers, min(count, of_strangers - strangers_keep))
        return removed + self._remove_oldest(known, count - len(removed))

    def _remove_oldest(self, hosts: list[str], count: int) -> list[tuple[T, str]]:
        """Remove `count` handshakes, each time the oldest of the host that has the most."""
        largest = [(-len(self._hosts[host]), host) for host in hosts if host in self._hosts]
        heapq.heapify(largest)
        removed: list[tuple[T, str]] = []
        while largest and len(removed) < count:
            size, host = largest[0]
            one = next(iter(self._hosts[host]))
            self.leave(one, host)
            removed.append((one, host))
            if size < -1:
                heapq.heapreplace(largest, (size + 1, host))
            else:
                heapq.heappop(largest)
        return removed


def origin(host: str) -> str:
    """What counts as one host: an IPv4 address, or the /64 network of an IPv6 address, all of which one machine has."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return host
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
