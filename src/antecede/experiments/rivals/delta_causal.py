"""Δ-causal order (Baldoni et al. 1996): what a deadline costs in messages and saves in waiting.

32 nodes broadcast to each other, 100 messages, one every 20 u.t. on average. Sizes are Δ in u.t.; a hop takes 100 on
average.

* `normal`: propagation is normal, and a packet in twenty is lost.
* `heavy-tailed`: most packets are fast and a few very late; none is lost.
"""

from collections.abc import Mapping

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.rivals.costs import measured
from antecede.sim import RunSpec

NODES, MESSAGES, INTERVAL = 32, 100, 20
_SHOWN = ("lost_percent", "hold", "latency", "latency_max", "violations_percent")


class Deadlines(Experiment):
    """Losses and hold time against Δ."""

    name = "delta-causal"
    paper = "rivals"
    item = "delta-causal"
    title = "Δ-causal order: deliveries lost to the deadline, and hold time, by Δ (its size)"
    about = (
        "32 nodes, a message every 20 u.t.; sizes are Δ in u.t., hops take 100 on average; means of ten seeds. Where a "
        "packet in twenty is lost (`normal`), Δ = 200 loses 4.8 ± 0.4 % of the deliveries, just those packets, and a "
        "message waits 1.7 ± 0.3 u.t.; Δ = 1000 loses as many, and messages wait 256 ± 17 u.t. for what will never "
        "come. At Δ = 100, the mean of a hop, 43 ± 1 % are late. With heavy tails (`heavy-tailed`) Δ is a choice: "
        "13.5 ± 0.6 % lost and 3 u.t. of waiting at 100, 1.8 ± 0.3 % and 71 ± 7 at 500. No delivery is out of causal "
        "order, and none is later than Δ and a tick of the clock."
    )
    settings = ("normal", "heavy-tailed")
    sizes = (100, 150, 200, 300, 500, 1000)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {
            "delta-causal": RunSpec(
                protocol="delta-causal",
                nodes=NODES,
                seed=seed,
                network=f"{setting}:t_pc=0,t_t=0",
                workload=f"rate:messages={MESSAGES},interval={INTERVAL}",
                faults=("loss:share=0.05",) if setting == "normal" else (),
                options={"delta": nodes, "horizon": 5000.0},
            )
        }

    def execute(self, spec: RunSpec) -> Metrics:
        return measured(spec)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [Value(name, nodes, metric, run[metric]) for name, run in metrics.items() for metric in _SHOWN]


DEADLINES: tuple[Experiment, ...] = (Deadlines(),)
