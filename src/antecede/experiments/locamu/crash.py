"""LoCaMu while a relay is down: what still gets through, and what becomes of the messages it had in its hands.

No figure of the paper, which measures runs without faults only. Everybody publishes now and then on a tree; a child of
the root, on the way of half of all messages, stops at 200 ms, is missed 20 ms later and comes back at 400 ms with what
it had kept. What was on its way to it when it stopped is lost with it; the nodes behind it get these messages over the
redundant links once its neighbours miss it.
"""

from collections.abc import Mapping

from antecede.audit import audit
from antecede.experiments.base import Experiment, Metrics, Value
from antecede.protocols.options import PROMISES
from antecede.sim import RunSpec, simulate
from antecede.sim.units import TICKS
from antecede.trace import Event, Row

#: Who stops, when, when that is noticed, when it comes back; in ms.
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
    title = "LoCaMu while a relay is down for 200 ms: throughput, and the messages it had in its hands"
    about = (
        "Not in the paper. Deliveries a second before, while nobody has noticed, while the relay is missed, and after "
        "it is back; messages lost on their way to it, and how long the last of them took to reach everybody who was "
        "up. The audit judges the whole run. On 15 nodes, five seeds: 3,995 ± 495 before, 1,580 ± 284 unnoticed, 3,480 "
        "± 394 with one node fewer to deliver to, 4,295 ± 528 afterwards; three to seven messages were in its hands, "
        "and everybody up had them at most 24 ms after their publication, 20 of which pass before it is missed."
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
    """Messages lost on the way to the relay before anybody missed it, and when the last of the others had them."""
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
