"""Chapter 5 of the thesis, members that join and leave: Figure 5.11.

Sizes are numbers of subscribers; the cube is the next power of two above, as in the thesis. The thesis says in two
contradicting ways how often members change:

* `per-minute`: "approximately 46 unsubscriptions and 46 new subscriptions per minute" for 4000 subscribers with
  t_med = 1 min, "1.1 % of the subscribers per minute" for 1000.
* `per-second`: Rhea's formula, N_s · ln 2 / t_med, which the authors cite. With t_med = 60 s it gives 46.2 *a second*,
  and 1 % and 10 % for t_med = 69 s and 7 s are a second, too. Only this rate saturates SRPT's root, as the text says:
  92 SUB and UNS a second to all nodes, 12 packets each, where the root can send 1000.

A run here lasts 30 seconds for 250 subscribers and 8 for more, not 120 minutes. A system that keeps up shows the same
mean as in a long run; one that does not gets slower the longer it runs.
"""

from collections.abc import Mapping
from math import log

from antecede.experiments.base import Axis, Experiment, Metrics, Value
from antecede.experiments.readings import change
from antecede.experiments.thesis.chapter_5 import FAITHFUL, ROOT_0, latency
from antecede.sim import RunSpec

_MINUTE = 60_000
#: Median session times: Figure 5.11a, and 5.11b, where 69 s are one percent.
_MINUTES = {"1min": _MINUTE, "30min": 30 * _MINUTE, "60min": 60 * _MINUTE}
_PERCENT = {f"{percent}-percent": 69_000 / percent for percent in range(1, 11)}
#: 5.11b is for 1000 subscribers; more would take a hundred million packets.
_PERCENT_UP_TO = 1000
_SYSTEMS: dict[str, dict[str, object]] = {"vcube-ps": FAITHFUL, "srpt-s": ROOT_0}


class Churn(Experiment):
    """Figure 5.11."""

    name = "thesis-figure-5.11"
    paper = "thesis"
    item = "figure-5.11"
    title = "Latency while members join and leave"
    about = (
        "Latencies count from the application's call, as in the authors' simulator: under churn most of VCube-PS's "
        "increase is a member that has just joined and waits for its own subscription before it may publish, since the "
        "thesis's mode does one thing at a time. Our joins take two waves where the printed algorithm takes one, which "
        "loses messages, so the increase is larger than printed. SRPT publishes without waiting; it suffers only once "
        "its root saturates, from 4000 subscribers on and with churn a second, and the printed 3.56 is a point on a "
        "line that rises with the length of the run. Ours with 250 subscribers, churn a minute, three seeds: VCube-PS "
        "417 u.t. without churn and at most 2 ± 3 % more with it (printed: up to 10 % with 1000), 1.02 times as long "
        "at 10 % as at 1 % (printed 2.55), 0.04 % of the packets to nodes that do not subscribe (printed 2.2); SRPT-S "
        "514 u.t. with and without churn, and 1.1 % (printed 2.74 with 4000). With churn a second, one seed: 5.8 % "
        "more, 3.1 times as long, 8.7 %. With churn a minute neither system notices 1 to 10 % of 500 or 1000 members "
        "(one seed; 60 and 16 messages): SRPT-S stays at 569 and 622 u.t. within 0.2 %, VCube-PS at 468 and 522 but "
        "where one of the few messages waits for a join (491 at 10 % of 500, 581 at 7 % of 1000). So the printed "
        "growth is of churn a second. With 250 subscribers and churn a second (one seed) VCube-PS takes 589, 835, 804, "
        "1259 and 1821 u.t. at 1, 3, 5, 7 and 10 %, SRPT-S 516 to 522, since its root keeps up at this size; 76 "
        "% of the 1821 are the wait of publishers for their own subscription. Runs are 30 s with up to 500 subscribers "
        "and 8 s with more, of the printed 120 minutes; 2000 and 4000 subscribers are left to `--full`."
    )
    settings = ("per-minute", "per-second")
    axis = Axis(r"_(\d+)_percent$", "percent of members replaced")
    sizes = (250,)
    full_sizes = (500, 1000, 2000, 4000)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        found = {}
        sessions = {"static": 0, **_MINUTES, **(_PERCENT if nodes <= _PERCENT_UP_TO else {})}
        for protocol, options in _SYSTEMS.items():
            for name, median in sessions.items():
                session = median / log(2) * (60 if setting == "per-minute" else 1)
                messages = 60 if nodes < _PERCENT_UP_TO else 16
                found[f"{protocol}-{name}"] = RunSpec(
                    protocol=protocol,
                    nodes=1 << nodes.bit_length(),
                    seed=seed,
                    network="peersim",
                    workload=f"churn:size={nodes},messages={messages},interval=500,session={session:.0f}",
                    options=options,
                )
        return found

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        values = []
        for protocol in _SYSTEMS:
            runs = {
                name.removeprefix(f"{protocol}-"): run for name, run in metrics.items() if name.startswith(protocol)
            }
            static = latency(runs["static"])
            values += [
                Value(protocol, nodes, f"latency_{name.replace('-', '_')}", latency(run)) for name, run in runs.items()
            ]
            slower = [change(latency(runs[name]), static) for name in _MINUTES]
            values.append(Value(protocol, nodes, "latency_increase_max", max(slower)))
            values.append(Value(protocol, nodes, "latency_vs_static", latency(runs["1min"]) / static))
            relayed = runs["1min"] if protocol == "srpt-s" else runs.get("10-percent", runs["1min"])
            values.append(Value(protocol, nodes, "false_positives", 100 * float(relayed["relayed_share"])))
            if "10-percent" in runs:
                ten = runs["10-percent"]
                values.append(Value(protocol, nodes, "latency_growth", latency(ten) / latency(runs["1-percent"])))
                values.append(Value(protocol, nodes, "queue_wait_max", ten["place_mean"] - 1))
                values.append(Value(protocol, nodes, "queue_wait_5_percent", runs["5-percent"]["place_mean"] - 1))
                values.append(Value(protocol, nodes, "wait_for_own_turn_10_percent", ten["turn"]))
        return values


CHURN: tuple[Experiment, ...] = (Churn(),)
