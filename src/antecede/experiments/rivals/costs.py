"""What a run costs and what the audit counts in it, in the same terms for every protocol (no experiment).

  header_bytes         bytes of a message beside its payload, on each link; shared by the messages of a bundle
  packets_a_delivery   packets of every kind for each delivery at another node than the publisher
  bytes_a_delivery     their bytes
  copies               how often a node receives a message that it receives at all
  latency              u.t. from publication to delivery, at other nodes; mean and maximum
  hold                 u.t. from the first arrival to delivery: what order costs; mean
  to_all               u.t. from publication until every node that never crashed has delivered it; mean over messages
  load_at_50           messages that a node sent and forwarded, in percent of the mean: the median; other percentiles
  state                entries of state, the mean of all nodes when it is highest (`state`)
  state_of_one         the most entries of state that one node has
  violations_percent   deliveries that the audit finds out of causal order
  disagreeing_percent  pairs of nodes that delivered two messages in different orders, where it is asked for
  tagged_percent       deliveries that the protocol itself tagged as out of order; the audit does not judge their order
  lost_percent         deliveries that were owed and never happened

Sizes of packets follow each protocol's own byte model: papers count numbers and names with 2, 4 or 8 bytes.
"""

from collections.abc import Mapping
from statistics import fmean

from antecede.audit import audit
from antecede.core import Message, Packet
from antecede.experiments.kim_ahn.reliability import Spreading
from antecede.experiments.rivals.state import StateSampler
from antecede.protocols.options import TOTAL
from antecede.search.harness import AppTracer
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promises_across_topics
from antecede.sim.units import TICKS
from antecede.trace import Recorder

#: Percentiles of nodes by load.
LOADS = (0, 10, 25, 50, 75, 90, 100)


class Costs(Spreading):
    """An observer that adds up packets, bytes and times."""

    def __init__(self) -> None:
        super().__init__()
        self._packets = self._bytes = self._headers = self._carried = self._copies = 0
        self._first: dict[tuple[int, tuple[str, int, int]], int] = {}
        self._payloads: dict[tuple[str, int, int], int] = {}
        self._load: dict[int, int] = {}
        self._latencies: list[int] = []
        self._holds: list[int] = []

    def published(self, now: int, node: int, message: Message) -> None:
        super().published(now, node, message)
        self._payloads[message.topic, message.source, message.seq] = len(message.payload)

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        self._packets += 1
        self._bytes += size
        if messages := packet.messages:
            self._headers += size - sum([self._payload(message) for message in messages])
            self._carried += len(messages)
            self._load[node] = self._load.get(node, 0) + len(messages)

    def _payload(self, message: Message) -> int:
        """Bytes that the application published. A layered protocol carries them with its own in a payload."""
        return self._payloads.get((message.topic, message.source, message.seq), len(message.payload))

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        for message in packet.messages:
            self._copies += 1
            self._first.setdefault((node, (message.topic, message.source, message.seq)), now)

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        super().delivered(now, node, message, out_of_order=out_of_order)
        if node != message.source:
            key = (message.topic, message.source, message.seq)
            self._latencies.append(now - self.published_at[key])
            self._holds.append(now - self._first.get((node, key), now))

    def figures(self) -> dict[str, float]:
        deliveries = max(1, len(self._latencies))
        return {
            "header_bytes": self._headers / max(1, self._carried),
            "packets_a_delivery": self._packets / deliveries,
            "bytes_a_delivery": self._bytes / deliveries,
            "copies": self._copies / max(1, len(self._first)),
            "latency": sum(self._latencies) / deliveries / TICKS,
            "latency_max": max(self._latencies, default=0) / TICKS,
            "hold": sum(self._holds) / deliveries / TICKS,
            "to_all": self.to_all(),
        }

    def loads(self) -> dict[str, float]:
        """Messages that members sent and forwarded, in percent of their mean: of the node at each percentile."""
        loads = sorted([self._load.get(node, 0) for node in self.takes])
        mean = max(1, sum(loads)) / max(1, len(loads))
        return {f"load_at_{at}": 100 * loads[(len(loads) - 1) * at // 100] / mean for at in LOADS}

    def to_all(self, begin: float = 0.0, end: float = float("inf")) -> float:
        """The mean over messages published in that time that reached all nodes that never crashed."""
        times = []
        for key, delays in self.delays.items():
            correct = [node for node, taken in self.takes.items() if key[0] in taken and node not in self.crashed]
            if begin <= self.published_at[key] / TICKS < end and delays.keys() >= set(correct):
                times.append(max([delays[node] for node in correct], default=0))
        return fmean(times) / TICKS if times else 0.0


def measured(
    spec: RunSpec, windows: Mapping[str, tuple[float, float]] | None = None, *, total: bool = False
) -> dict[str, float]:
    """Run `spec` and have the audit count. `windows`: further values of `to_all`, for messages of these times.

    `total`: count pairs of nodes that disagree and tagged deliveries as well, and causal order across all topics.
    """
    costs, recorder, state = Costs(), Recorder(), StateSampler()
    simulate(spec, measure=False, watch=[costs, AppTracer(recorder)], before=state.schedule)
    rules = ("causal", "complete", TOTAL) if total else ("causal", "complete")
    report = audit(recorder.rows(), rules=rules, across_topics=total or promises_across_topics(spec))
    figures = costs.figures() | costs.loads() | {"state": state.mean_max, "state_of_one": float(state.node_max)}
    for name, window in (windows or {}).items():
        figures[name] = costs.to_all(*window)
    counted = {"causal": "violations_percent", "complete": "lost_percent", TOTAL: "disagreeing_percent"}
    for rule in rules:
        judged = report.rule(rule)
        figures[counted[rule]] = 100 * judged.violations / max(1, judged.checked)
    if total:
        figures["tagged_percent"] = 100 * report.tagged / max(1, report.deliveries)
    return figures
