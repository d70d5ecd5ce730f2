"""Section 6.2.2.2 of the thesis: messages that ride along, beside causal aggregation and timers.

The authors name it as future work and print no figures. While a message is kept back from a child, all others for that
child wait as well, and leave in the same packet (`protocols.aggregation.riding`). The load is that of `chapter_4`:
every node publishes one message of 50 bytes to all the others. Every variant is compared with one message to a packet.
"""

from collections.abc import Mapping

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.readings import change
from antecede.experiments.thesis.chapter_4 import WORKLOADS
from antecede.sim import RunSpec

_NONE = "none"
_VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    _NONE: ("causal-aggregation", {"aggregate": False}),
    "causal": ("causal-aggregation", {}),
    "riding": ("causal-aggregation", {"ride_along": True}),
    "timer-3": ("timer-bundling", {"wait": 3}),
    "timer-10": ("timer-bundling", {"wait": 10}),
}


class RidingAlong(Experiment):
    """What unrelated messages in a bundle save, and what their wait costs."""

    name = "thesis-section-6.2.2.2"
    paper = "thesis"
    item = "section-6.2.2.2"
    title = "Messages that ride along with a bundle: packets saved and latency, beside aggregation and timers"
    about = (
        "No figures are printed. Ours with ten seeds in the window of 440 u.t.: messages that ride along save 7.8 ± "
        "1.9, 14.6 ± 1.9 and 27.4 ± 1.1 % of the packets at 32, 64 and 128 nodes, where causal aggregation saves 5.3 ± "
        "1.0, 9.2 ± 1.4 and 13.7 ± 0.8 %. They cost little: at 128 nodes receptions come 2.1 ± 0.5 % later than with "
        "one message to a packet, and deliveries 0.7 ± 0.5 %, where causal aggregation delivers 0.6 ± 0.4 % sooner. "
        "The effect grows with the size: at 256 nodes (three seeds) 41.1 ± 0.1 % are saved for 0.8 ± 0.4 % later "
        "deliveries, where causal aggregation saves 18.3 ± 0.8 %. At 128 the p99 changes by 0.2 ± 0.9 %. Receivers "
        "hold messages for 6.6 u.t. instead of 11.6 (causal aggregation: 5.8). A timer of 3 u.t. saves 19.6 ± 0.8 % "
        "and delivers 1.9 ± 0.7 % later; one of 10 u.t. saves 40.2 ± 0.8 % and delivers 7.2 ± 0.5 % later. So riding "
        "along saves more than the short timer in less time, and less than the long one. With publications spread out "
        "(`literal`) little waits, and little rides: 8.3 ± 1.3 % saved at 128 nodes, causal aggregation 5.3 ± 0.8."
    )
    settings = ("literal", "calibrated")
    sizes = (32, 64, 128)
    full_sizes = (256, 512, 1024)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {
            variant: RunSpec(
                protocol=protocol,
                nodes=nodes,
                seed=seed,
                workload=f"{WORKLOADS[setting]},payload=50",
                options=options,
            )
            for variant, (protocol, options) in _VARIANTS.items()
        }

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        values = []
        alone = metrics[_NONE]
        for variant, run in metrics.items():
            reception, delivery = run["reception_latency"], run["delivery_latency"]
            found = {"delivery_latency": delivery["mean"], "hold": delivery["mean"] - reception["mean"]}
            if variant != _NONE:
                found["reduction"] = -change(run["packets"], alone["packets"])
                found["messages_in_a_packet"] = run["message_hops"] / run["packets"]
                found["reception_latency_change"] = change(reception["mean"], alone["reception_latency"]["mean"])
                for name in ("mean", "p99"):
                    found[f"delivery_{name}_change"] = change(delivery[name], alone["delivery_latency"][name])
            values += [Value(variant, nodes, name, value) for name, value in found.items()]
        return values


RIDING: tuple[Experiment, ...] = (RidingAlong(),)
