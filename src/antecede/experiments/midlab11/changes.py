"""Two things that the TNO paper describes and does not measure: a manager that fails, and subscriptions that change.

The paper replicates its managers (4.1) and lets subscriptions change at any time (Figures 7 and 8). All its figures are
of runs without either. Times are in seconds; 1 u.t. counts as 1 ms.
"""

from collections.abc import Mapping
from statistics import fmean

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.midlab11.figures_9_15 import tno
from antecede.experiments.midlab11.measure import SECOND, follow, measured
from antecede.sim import RunSpec

#: Nodes that do nothing but manage topics, and the one of them that stops.
MANAGERS, FAILED = 5, 1
#: In seconds: when it stops, how much later that is noticed, when it comes back.
STOPS, NOTICED, BACK = 10, 1, 20
#: By publication time, in seconds: the phases in which events are counted.
PHASES = {"before": (0, STOPS - 2), "unnoticed": (STOPS, STOPS + NOTICED), "down": (STOPS + NOTICED, BACK)}


class ManagerFailure(Experiment):
    """Events before and while a manager is down, with one manager for each topic and with several."""

    name = "tno-manager-failure"
    paper = "tno"
    item = "manager-failure"
    title = "Total notification order while a manager of topics is down for ten seconds"
    about = (
        "The paper replicates its managers, but measures no failure. Five nodes manage eight topics; "
        "the others take four each and publish ten events a second. One manager stops at 10 s, is suspected 1 s later "
        "and is back at 20 s. Seconds from publication to the last notification, by the time of publication: mean and "
        "longest. The service is VCube-PS, since Scribe here survives no crash. With one manager a topic, events wait "
        "for it: 5.3 ± 0.2 s on the mean and 12.1 ± 0.2 at most while it is down (0.9 ± 0.3 before). With three, 1.7 ± "
        "0.4 and 5.1 ± 0.8 (1.3 ± 0.4 before): agreeing on each number costs 0.4 s, and what is published before the "
        "suspicion waits for it (4.1 ± 0.7 s). Three seeds."
    )
    settings = ("1-manager", "3-managers")
    sizes = (32,)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        replicas = int(setting.partition("-")[0])
        return {
            "tno": RunSpec(
                protocol="tno",
                nodes=nodes,
                seed=seed,
                network="fast-and-slow",
                workload=f"overlapping:count=8,taken=4,aside={MANAGERS},messages=300,interval=100",
                faults=(f"crash:node={FAILED},at={STOPS * 1000},back={BACK * 1000},noticed={NOTICED * 1000}",),
                options={"ens": "vcube-ps", "ttl": 0, "retry": 2000, "replicas": replicas, "managers": MANAGERS},
            )
        }

    def execute(self, spec: RunSpec) -> Metrics:
        ways = [(way.published / SECOND, way.end_to_end / SECOND) for way in follow(spec).ways.values()]
        took = {
            phase: [time for published, time in ways if begin <= published < end]
            for phase, (begin, end) in PHASES.items()
        }
        return {phase: (fmean(times), max(times)) for phase, times in took.items()}

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        (run,) = metrics.values()
        found = []
        for phase in PHASES:
            mean, longest = run[phase]
            found.append(Value("tno", nodes, f"end_to_end_{phase}", mean))
            found.append(Value("tno", nodes, f"longest_{phase}", longest))
        return found


class ChangingSubscriptions(Experiment):
    """Events while nodes give up topics and take others."""

    name = "tno-changing-subscriptions"
    paper = "tno"
    item = "changing-subscriptions"
    title = "Total notification order while subscriptions change"
    about = (
        "The paper lets subscriptions change, but does not measure it. 50 topics of which a node takes "
        "10, by the power law, and an event a second, as in Figure 15; a subscriber gives up a topic and takes another "
        "once in ten seconds, once a second or five times a second, over all nodes. `keeping` are packets for each "
        "event besides those that make its timestamp: they pay for the changes: 2.7 without one, 5.6, 31 ± 3 and 144 ± "
        "12. Latency and the length of timestamps do not depend on it (0.88 s and 3.6 entries without changes, 0.81 s "
        "and 4.0 with five a second, the former within the spread of the two seeds), and TNO+ tags nothing. With the "
        "printed rule (`faithful`) 2.8 ± 0.5 % are tagged without changes and 0.8 ± 0.1 with five a second."
    )
    settings = ("plus", "faithful")
    sizes = (40,)
    #: Milliseconds between two changes, by variant.
    every: Mapping[str, int] = {"never": 0, "every-10-s": 10_000, "every-second": 1000, "five-a-second": 200}

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        load = "count=50,taken=10,subscription=power,publication=power,publishers=2,messages=200,interval=1000"
        return {
            name: RunSpec(
                protocol="tno",
                nodes=nodes,
                seed=seed,
                network="fast-and-slow",
                workload=f"overlapping:{load},change={change}",
                options=tno(mode=setting, route="through"),
            )
            for name, change in self.every.items()
        }

    def execute(self, spec: RunSpec) -> Metrics:
        return measured(spec)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [
            Value(name, nodes, metric, run[metric])
            for name, run in metrics.items()
            for metric in ("end_to_end", "ordering", "held", "tagged", "entries", "keeping")
        ]


CHANGES: tuple[Experiment, ...] = (ManagerFailure(), ChangingSubscriptions())
