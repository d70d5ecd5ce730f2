"""LoCaMu while a relay is down: what still gets through, and what becomes of the messages on their way to it.

The paper has no such figure; it measures runs without faults only. All nodes publish now and then on a tree. A child of
the root, through which half of all messages pass, stops at 200 ms, is suspected 20 ms later and comes back at 400 ms
with what it had kept. Messages on their way to it when it stopped are lost with it. The nodes behind it get these
messages over the redundant links once its neighbours suspect it.
"""

from collections.abc import Mapping

from antecede.audit import audit
from antecede.experiments.base import Experiment, Metrics, Value
from antecede.protocols.options import PROMISES
from antecede.sim import RunSpec, simulate
from antecede.sim.units import TICKS
from antecede.trace import Event, Row

#: The relay; in ms: when it stops, how much later that is noticed, when it comes back.
RELAY, STOPS, NOTICED, BACK = 1, 200, 20, 400
#: In ms: the phases in which deliveries are counted.
PHASES = {
    "before": (50, STOPS),
    "unnoticed": (STOPS, STOPS + NOTICED),
    "down": (STOPS + NOTICED, BACK),
    "afterwards": (BACK + NOTICED, BACK + 150),
}
_EVERY_MS, _MESSAGES = 4, 150


class CrashOfARelay(Experiment):
    """One run, looked at phase by phase."""

    name = "locamu-crash-of-a-relay"
    paper = "locamu"
    item = "crash-of-a-relay"
    title = "LoCaMu while a relay is down for 200 ms: throughput, and the messages lost on their way to it"
    about = (
        "Not in the paper. Deliveries a second before the crash, until it is noticed, while the relay is suspected, "
        "and after it is back; messages lost on their way to it, and how long the last of them took to reach all nodes "
        "that were up. The audit judges the whole run. On 15 nodes, ten seeds: 3,856 ± 673 before, 1,410 ± 324 "
        "unnoticed, 3,549 ± 630 with one node fewer to deliver to, 4,119 ± 521 afterwards; 4.7 ± 1.7 messages were "
        "lost with it, and all nodes that were up had the last of them 19 ± 4 ms after its publication; up to 20 ms "
        "pass before the suspicion."
    )
    settings = ("f = 1",)
    sizes = (15,)
    full_sizes = (31, 127)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {
            "locamu": RunSpec(
                protocol="locamu",
                nodes=nodes,
                seed=seed,
                network="shared-bandwidth",
                workload=f"rate:interval={_EVERY_MS},messages={_MESSAGES},payload=32",
                faults=(f"crash:node={RELAY},at={STOPS},back={BACK},noticed={NOTICED}",),
                options={"ack": 5, "retry": 100},
            )
        }

    def execute(self, spec: RunSpec) -> Metrics:
        trace = simulate(spec, trace=True, measure=False).trace
        assert trace is not None
        rows = list(trace.rows())
        return {**_phases(rows), **_in_its_hands(rows), "kept": audit(rows, rules=PROMISES).ok}

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        (run,) = metrics.values()
        values = [Value("locamu", nodes, f"deliveries_a_second_{phase}", run[phase]) for phase in PHASES]
        return [
            *values,
            Value("locamu", nodes, "messages_in_its_hands", run["lost"]),
            Value("locamu", nodes, "their_latency_at_most", run["latency"]),
            Value("locamu", nodes, "promises_kept", float(run["kept"])),
        ]


def _phases(rows: list[Row]) -> dict[str, float]:
    """Deliveries a second in each phase."""
    times = [row.time_us / TICKS for row in rows if row.event is Event.DELIVER]
    return {
        phase: 1000 * sum(begin <= time < end for time in times) / (end - begin)
        for phase, (begin, end) in PHASES.items()
    }


def _in_its_hands(rows: list[Row]) -> dict[str, float]:
    """Messages lost on the way to the relay, and when the last of the other nodes had them."""
    published, lost, latest = {}, set(), 0
    for row in rows:
        name = (row.topic, row.source, row.seq)
        if row.event is Event.PUBLISH:
            published[name] = row.time_us
        elif row.event is Event.DROP and row.seq > 0:
            lost.add(name)
        elif row.event is Event.DELIVER and row.node != RELAY and name in lost:
            latest = max(latest, row.time_us - published[name])
    return {"lost": len(lost), "latency": latest / TICKS}


CRASH: tuple[Experiment, ...] = (CrashOfARelay(),)
