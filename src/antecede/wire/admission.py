"""Admission control: bounds the connections of a node, and the malformed input it takes from a host.

A stranger costs a socket, a handshake's timeout and a log line; each has a bound here. Every malformed frame takes a
token from its host's bucket. While the bucket is empty, new connections from that host are closed unread; connections
that are open go on. So a flood of malformed input costs one accept for each connection, and ends by itself.
"""

import logging
from dataclasses import dataclass
from typing import Final

from antecede.core.caches import BoundedCache
from antecede.wire.transport import Counts, Reason

log = logging.getLogger("antecede.wire")

#: Hosts and reasons remembered. A flood from many addresses pushes out the oldest entries.
_REMEMBERED_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Bounds on strangers. The defaults suit a node with thousands of clients on a machine of two cores."""

    #: Connections that others opened, at one time. A file descriptor each, and about 10 KB.
    connections_max: int = 16_384
    #: Of these, how many may be in their handshake.
    handshakes_max: int = 256
    #: How long a handshake may take, TLS included.
    handshake_s: float = 5.0
    #: Malformed frames a host may send in a burst, and how many more each second.
    malformed_burst: int = 32
    malformed_per_s: float = 1.0


class AdmissionControl:
    """Counts connections and malformed frames, and decides which connections may begin. Time is an argument."""

    def __init__(self, limits: AdmissionLimits, counts: Counts) -> None:
        self.limits = limits
        self.inside = 0
        self.greeting = 0
        self._counts = counts
        # By host: the tokens left, and the time they were counted.
        self._buckets: BoundedCache[str, tuple[float, float]] = BoundedCache(_REMEMBERED_MAX)
        self._said: BoundedCache[tuple[str, str], None] = BoundedCache(_REMEMBERED_MAX)

    def admit(self, host: str, now: float) -> Reason | None:
        """Count a connection from `host` as inside, and return None; or return why it must not begin its handshake."""
        if self.inside >= self.limits.connections_max or self.greeting >= self.limits.handshakes_max:
            return Reason.BUSY
        if host in self._buckets and self._tokens(host, now) < 1.0:
            return Reason.RATE
        self.inside += 1
        self.greeting += 1
        return None

    def greeted(self) -> None:
        """A handshake ended, well or badly."""
        self.greeting -= 1

    def left(self) -> None:
        self.inside -= 1

    def record_malformed(self, host: str, now: float) -> None:
        """Take a token from `host`: it sent what does not decode."""
        tokens = self._tokens(host, now) - 1.0
        self._buckets[host] = (max(0.0, tokens), now)

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
