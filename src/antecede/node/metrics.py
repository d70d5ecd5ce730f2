"""A node's figures as Prometheus text, written by prometheus_client. The figures are those of `status`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from antecede.node.node import Node

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: Counters of `status["counts"]`: name, what it counts, and its key.
_COUNTERS: Final = (
    ("published", "Messages clients of this node published.", "published"),
    ("delivered", "Messages this node delivered, its own included.", "delivered"),
    ("dropped", "Messages left out of feeds by their policy.", "dropped"),
    ("late", "Messages left out of feeds because they were older than the feed allows.", "late"),
    ("held", "Messages that waited for what they depend on.", "held"),
    ("link_packets_sent", "Packets sent to other nodes.", "packets_sent"),
    ("link_packets_received", "Packets received from other nodes.", "packets_received"),
    ("link_bytes_sent", "Bytes sent to other nodes.", "bytes_sent"),
    ("link_bytes_received", "Bytes received from other nodes.", "bytes_received"),
    ("link_overflow", "Packets dropped because a node took them too slowly.", "overflow"),
    ("client_bytes_sent", "Bytes sent to clients.", "client_bytes_sent"),
    ("client_bytes_received", "Bytes received from clients.", "client_bytes_received"),
)

#: Gauges: name, what it says, and its key in `status`.
_GAUGES: Final = (
    ("held", "Messages that wait now.", "held"),
    (
        "held_bytes",
        "Bytes of messages that wait now; beyond a bound more are refused.",
        "held_bytes",
    ),
    ("kept_bytes", "Bytes of records that the protocol keeps. Compaction bounds them.", "kept_bytes"),
    ("given_up", "Times this node went on without messages that no node has.", "given_up"),
    ("position", "Position of the last delivery.", "position"),
    ("clients", "Connected clients.", "clients"),
    ("feeds", "Open feeds.", "feeds"),
    ("feeds_behind", "Feeds whose reader lags.", "behind"),
    ("feed_lag_max", "Deliveries the slowest feed is behind.", "lag_max"),
)


def metrics(node: "Node") -> str:
    """Prometheus's text format, version 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_NodeCollector(node))
    return generate_latest(registry).decode()


class _NodeCollector(Collector):
    """What one node has to tell at this moment."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def describe(self) -> list[Metric]:
        """Nothing: asked when it is registered, to find names that are taken. The registry has no other collector."""
        return []

    def collect(self) -> Iterable[Metric]:
        status = self._node.status()
        counts = status["counts"]
        states = [member["state"] for member in status["members"]]
        for name, text, key in _COUNTERS:
            yield self._counter(name, text, counts[key])
        yield self._counter("held_seconds", "How long held messages waited, altogether.", counts["held_us"] / 1_000_000)
        for name, text, key in _GAUGES:
            yield self._gauge(name, text, status[key])
        up = sum([state in ("up", "here") for state in states])
        yield self._gauge("members_up", "Nodes of the cluster that are up, this one included.", up)
        yield self._gauge("members_down", "Nodes of the cluster that are down.", states.count("down"))
        yield self._gauge("healthy", "1 if /health finds no problem, else 0.", not status["problems"])
        missing = sum([one["last"] - one["first"] + 1 for one in status["missing"]])
        yield self._gauge("missing", "Messages that others wait for and that no node asked so far has.", missing)
        lagging = GaugeMetricFamily(
            "antecede_member_lag",
            "Messages of this node that a member which is down or far behind has not delivered.",
            labels=("node", "member"),
        )
        for member, lag in sorted(status["lagging"].items()):
            lagging.add_metric((str(self._node.slot), str(member)), lag)
        yield lagging
        yield from self._partitions(status["partitions"])
        expires_s = status["certificate_expires_s"]
        if expires_s is not None:
            text = "When the certificate of this node or its authority ends, in seconds since 1970."
            yield self._gauge("certificate_expires_seconds", text, expires_s)
        refused = CounterMetricFamily(
            "antecede_refused", "Connections and requests refused, by reason.", labels=("node", "reason")
        )
        for reason, count in sorted(status["refused"].items()):
            refused.add_metric((str(self._node.slot), reason), count)
        yield refused

    def _partitions(self, taken: list[dict[str, Any]]) -> Iterable[Metric]:
        """Where a cluster has several: those that this node takes."""
        homes, mine = sum(["home" in one["why"] for one in taken]), sum([one["taken"] for one in taken])
        yield self._gauge("partitions_taken", "Partitions that this node takes, of several.", mine)
        yield self._gauge("partitions_home", "Partitions of which this node is a home, of several.", homes)
        kinds: tuple[tuple[str, str, str, type[CounterMetricFamily | GaugeMetricFamily]], ...] = (
            ("delivered", "delivered", "Messages delivered of a partition.", CounterMetricFamily),
            ("delivered_bytes", "bytes", "Bytes of payload delivered of a partition.", CounterMetricFamily),
            ("published", "published", "Messages published here in a partition.", CounterMetricFamily),
            ("published_bytes", "published_bytes", "Bytes published here in a partition.", CounterMetricFamily),
            ("lacking", "lacking", "Earlier messages of a partition that this node lacks.", GaugeMetricFamily),
        )
        for name, key, text, kind in kinds if taken else ():
            family = kind(f"antecede_partition_{name}", text, labels=("node", "partition"))
            for one in taken:
                family.add_metric((str(self._node.slot), str(one["partition"])), one[key])
            yield family
        lag = GaugeMetricFamily(
            "antecede_partition_home_lag",
            "Messages of this node that a home of a partition lacks.",
            labels=("node", "partition", "home"),
        )
        for one in taken:
            for home, count in one["lag"].items():
                lag.add_metric((str(self._node.slot), str(one["partition"]), str(home)), count)
        yield from (lag,) if taken else ()

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"antecede_{name}", text, labels=("node",))
        family.add_metric((str(self._node.slot),), value)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"antecede_{name}", text, labels=("node",))
        family.add_metric((str(self._node.slot),), value)
        return family
