"""Section 6.2.2.3 of the thesis: topics that are cells of an area, and nodes that move about it.

The authors propose to split an area into frames, each a topic, and name the trade-off: large frames bring messages that
a node does not want, small ones cost subscriptions. Here nodes move in a square, want what is published within 0.1 of
its side from them, and take the cells that this disc touches (`sim.mobile`). Cells have levels 0 to 3: one topic for
the whole square, then 4, 16 and 64. 100 messages, one every 100 u.t. on average. A hop takes 100 u.t. on average,
however far apart two nodes are.

* `still`: no node moves.
* `still-by-distance`: no node moves, and a hop takes 10 u.t. and 173 more for each side of the square in between, which
  is 100 on average, too. Trees of small cells then have short links.
* `slow`, `fast`: nodes cover a hundredth, a twentieth of the side in 1000 u.t.: a tenth and half of it in the run.

A message is wanted by the nodes whose disc holds its publisher when it is published.
"""

import math
from collections.abc import Mapping
from statistics import fmean

from antecede.audit import audit
from antecede.core import Message, Packet
from antecede.core.choices import parse
from antecede.core.message import TopicMessageId
from antecede.experiments.base import Axis, Experiment, Metrics, Value
from antecede.search.harness import AppTracer
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import SilentObserver
from antecede.sim.mobile import Mobile
from antecede.sim.run import promised_rules, promises_across_topics
from antecede.sim.units import TICKS
from antecede.sim.workloads import WORKLOADS
from antecede.trace import Recorder

LEVELS = (0, 1, 2, 3)
SPEEDS = {"still": 0.0, "still-by-distance": 0.0, "slow": 0.01, "fast": 0.05}
#: Packets of VCube-PS about who takes a topic.
_MEMBERSHIP = ("sub", "suback", "uns", "views")


class Areas(Experiment):
    """One topic for all beside cells of several sizes."""

    name = "thesis-section-6.2.2.3"
    paper = "thesis"
    item = "section-6.2.2.3"
    title = "Cells of an area as topics, nodes that move: packets, latency, deliveries inside and outside the area"
    about = (
        "No figures are printed. Ours at 32 nodes, ten seeds; `inside` are deliveries that the node wanted. While no "
        "node moves, smaller cells are better in all respects: one topic for all brings 40 ± 12 messages from outside "
        "for each one from inside and costs 107 ± 30 packets for it; 16 cells bring 5.5 ± 1.9 and cost 17 ± 5, 64 "
        "cells 2.2 ± 0.9 and 8 ± 2. Latency falls from 274 ± 43 to 163 ± 20 and 137 ± 19 u.t., since trees are small; "
        "where near nodes have short links (`still-by-distance`) from 254 ± 62 to 63 ± 15 and 41 ± 11. When nodes "
        "move, subscriptions cost more than messages. At a hundredth of the side in 1000 u.t. (`slow`) 4 or 16 cells "
        "are best, with 40 ± 10 and 38 ± 9 packets for each one inside against 85 ± 16 with one topic, and 71 ± 13 "
        "with 64 cells, of which 87 ± 2 % are about membership: VCube-PS tells all nodes of every join. At a twentieth "
        "(`fast`) one topic for all is cheapest, 58 ± 11 packets against 102 ± 21, 126 ± 18 and 249 ± 37, and fastest, "
        "271 ± 15 u.t. against 316 to 384: messages wait for joins. Smaller cells then miss 0.2, 0.4 and 1.1 % of what "
        "is wanted, published before the join of a new cell was complete. The audit finds causal order across cells "
        "kept in all runs."
    )
    settings = tuple(SPEEDS)
    sizes = (32,)
    full_sizes = (64, 128)
    axis = Axis(r"_at_level_(\d+)$", "level of the cells (0: one topic for all)")

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {
            f"{level}": RunSpec(
                protocol="vcube-ps",
                nodes=nodes,
                seed=seed,
                network=f"square:paths={seed}" if setting == "still-by-distance" else "normal",
                workload=f"mobile:level={level},speed={SPEEDS[setting]},paths={seed}",
            )
            for level in LEVELS
        }

    def execute(self, spec: RunSpec) -> Metrics:
        workload = parse("workload", spec.workload, WORKLOADS)
        assert isinstance(workload, Mobile)
        inside, recorder = _Inside(workload, spec.nodes), Recorder()
        simulate(spec, measure=False, watch=[inside, AppTracer(recorder)])
        report = audit(recorder.rows(), rules=promised_rules(spec), across_topics=promises_across_topics(spec))
        return {**inside.metrics(), "promises_kept": float(report.ok)}

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [
            Value("vcube-ps", nodes, f"{name}_at_level_{level}", value)
            for level, run in metrics.items()
            for name, value in run.items()
        ]


class _Inside(SilentObserver):
    """An observer that counts packets, and deliveries to nodes that wanted the message and to others."""

    def __init__(self, workload: Mobile, nodes: int) -> None:
        self._radius = workload.radius
        self._paths = [workload.path(node) for node in range(nodes)]
        self._published: dict[TopicMessageId, int] = {}
        self._wanted: dict[TopicMessageId, set[int]] = {}
        self._latencies: list[int] = []
        self._outside = 0
        self._packets: dict[str, int] = {}

    def published(self, now: int, node: int, message: Message) -> None:
        at = [path.at(now / TICKS) for path in self._paths]
        self._published[message.id] = now
        self._wanted[message.id] = {
            other for other in range(len(at)) if other != node and math.dist(at[node], at[other]) <= self._radius
        }

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        kind = "membership" if packet.kind in _MEMBERSHIP else "all"
        self._packets[kind] = self._packets.get(kind, 0) + 1

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        if node in self._wanted[message.id]:
            self._latencies.append(now - self._published[message.id])
        elif node != message.source:
            self._outside += 1

    def metrics(self) -> dict[str, float]:
        wanted, got = sum(map(len, self._wanted.values())), len(self._latencies)
        return {
            "wanted": wanted,
            "delivered_inside_percent": 100 * got / wanted,
            "outside_for_each_inside": self._outside / got,
            "packets_for_each_inside": sum(self._packets.values()) / got,
            "packets_about_membership_percent": 100 * self._packets.get("membership", 0) / sum(self._packets.values()),
            "latency": fmean(self._latencies) / TICKS,
        }


AREAS: tuple[Experiment, ...] = (Areas(),)
