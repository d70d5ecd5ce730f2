"""VCube-PS: how large a system simulates, and what its parts are worth. Prints tables, asserts nothing.

    python bench/vcube_ps.py [scale] [throughput] [joins] [placement] [--full] [--matrix FILE]

scale       the thesis's mode, every node a subscriber, one message a publisher within 1000 u.t.: the event engine with
            1024 nodes, all of them publishing, beside the authors' PeerSim (120 s and 3.07 GB on such a machine); and
            its twin by arrays (`sim.arrays`) with that, and with 4096 of which a quarter and all publish, 33.5 million
            packets. --full: the event engine with 4096 too, ten minutes of one core and more
throughput  one publisher to 64 subscribers, 100 u.t. a hop: pipelined beside one message a round trip
joins       46 members a minute replaced among 4000 (the thesis's churn), 100 ms a hop
placement   nodes placed by latency beside nodes placed at random, on a file of round-trip times given with --matrix

Every run is a process of its own, so that peak memory is its own. The seconds to compare are CPU seconds, and those
only beside the loop that is timed first: on a machine others use they double.

What does not depend on the machine: 64 messages to 64 subscribers take 77,922 u.t. one by one and 999 pipelined; each
of the 46 joins among 4000 takes 4.8 s, as if it were alone (the thesis's mode); placed by latency, the mean way from a
publisher to its subscribers on 490 PlanetLab nodes (Zhu et al., ToN 2017) is 0.61, 0.55, 0.52 and 0.50 of that at
random (64, 128, 256 and all of them; with a quarter subscribed 0.84, 0.70, 0.67 and 0.61).
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Any

PEERSIM_SECONDS, PEERSIM_GB = 120.0, 3.07
CALIBRATION_LOOPS = 5_000_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", nargs="*", choices=[[], *SECTIONS], default=[])
    arguments.add_argument("--full", action="store_true", help="the event engine with 4096 nodes too")
    arguments.add_argument("--matrix", help="a square file of round-trip times in ms")
    arguments.add_argument("--run", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.run:
        print(json.dumps(MEASURES[json.loads(chosen.run)[0]](*json.loads(chosen.run)[1:])))
        return
    for name in chosen.what or SECTIONS:
        print(f"\n{name}")
        SECTIONS[name](chosen)


def apart(measure: str, *values: object) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--run", json.dumps([measure, *values])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


# -- scale ------------------------------------------------------------------------------------------------------------


def measure_scale(engine: str, nodes: int, percent: int) -> dict[str, float]:
    from antecede.sim import RunSpec, simulate  # noqa: PLC0415 - only in the measured process
    from antecede.sim.arrays import simulate_arrays  # noqa: PLC0415

    spec = RunSpec(
        protocol="vcube-ps",
        nodes=nodes,
        network="peersim",
        workload=f"uniform:window=1000,publishers={percent / 100}",
        options={"mode": "faithful"},
    )
    wall, processor = time.perf_counter(), time.process_time()
    # The engine measures nothing but its events here; arrays always make all figures.
    metrics = (simulate(spec, measure=False) if engine == "events" else simulate_arrays(spec)).metrics
    return {
        "events": float(metrics["events"]),  # type: ignore[arg-type]
        "held": float(metrics["still_held"]),  # type: ignore[arg-type]
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - processor,
        "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2,
    }


def calibrate() -> float:
    """Seconds for a fixed loop: what a second is worth on this machine at this moment."""
    begin = time.process_time()
    total = 0
    for number in range(CALIBRATION_LOOPS):
        total += number
    return time.process_time() - begin


def scale(chosen: argparse.Namespace) -> None:
    print(f"this machine now: {calibrate():.2f} s for {CALIBRATION_LOOPS:,} additions in a loop")
    heads = f"{'nodes':>6} {'publish':>8} {'packets':>12} {'seconds':>8} {'cpu s':>8} {'µs/packet':>10} {'peak GB':>8}"
    print(f"{'by':<7}{heads}")
    larger = [(4096, 25), (4096, 100)]
    runs = [("events", 1024, 100), *[("arrays", *size) for size in [(1024, 100), *larger]]]
    for engine, nodes, percent in [*runs, *[("events", *size) for size in larger if chosen.full]]:
        row = apart("scale", engine, nodes, percent)
        print(
            f"{engine:<7}{nodes:>6} {percent:>6} % {row['events']:>12,.0f} {row['seconds']:>8.1f} {row['cpu']:>8.1f} "
            f"{1e6 * row['cpu'] / row['events']:>10.1f} {row['gb']:>8.2f}"
        )
        if (nodes, percent) == (1024, 100):
            print(
                f"       the authors' PeerSim: {PEERSIM_SECONDS:.0f} s, {PEERSIM_GB} GB; this is "
                f"{PEERSIM_SECONDS / row['cpu']:.1f} times as fast in {PEERSIM_GB / row['gb']:.1f} times less memory"
            )


# -- throughput -------------------------------------------------------------------------------------------------------


def measure_throughput(mode: str, messages: int, t_t: int) -> dict[str, float]:
    from antecede.sim import RunSpec, simulate  # noqa: PLC0415
    from antecede.sim.units import TICKS  # noqa: PLC0415
    from antecede.trace import Event  # noqa: PLC0415

    spec = RunSpec(
        protocol="vcube-ps",
        nodes=64,
        network=f"constant:delay=100,t_pc=0,t_t={t_t}",
        workload=f"one:messages={messages}",
        options={"mode": mode},
    )
    trace = simulate(spec, trace=True).trace
    assert trace is not None
    deliveries = [row.time_us for row in trace.rows() if row.event is Event.DELIVER]
    return {"deliveries": len(deliveries), "until": max(deliveries) / TICKS}


def throughput(chosen: argparse.Namespace) -> None:
    messages = 512
    for t_t, wire in ((1, "a packet occupies its sender's wire for 1 u.t."), (0, "wires without limit")):
        found = {mode: apart("throughput", mode, messages, t_t) for mode in ("faithful", "pipelined")}
        print(f"  {wire}:")
        for mode, row in found.items():
            rate = 1000 * messages / row["until"]
            print(f"    {mode:<10} {messages} messages in {row['until']:>9,.0f} u.t., {rate:.2f} per 1000 u.t.")
        print(f"    pipelined is {found['faithful']['until'] / found['pipelined']['until']:.0f} times as fast")


# -- joins ------------------------------------------------------------------------------------------------------------


def measure_joins(mode: str, members: int, minutes: float) -> dict[str, float]:
    from antecede.sim import RunSpec  # noqa: PLC0415
    from antecede.sim import run as runner  # noqa: PLC0415
    from antecede.sim.meter import Meter  # noqa: PLC0415
    from antecede.sim.units import TICKS  # noqa: PLC0415

    asked: dict[int, int] = {}
    took: list[float] = []
    most = 0

    class JoinMeter(Meter):
        """Notes how long each join takes from the request until it takes effect."""

        def asks(self, now: int, node: int, topic: str, takes: bool) -> None:
            nonlocal most
            super().asks(now, node, topic, takes)
            if takes:
                asked[node] = now
                most = max(most, len(asked))
            else:
                asked.pop(node, None)

        def changed(self, now: int, node: int, what: str, topic: str) -> None:
            super().changed(now, node, what, topic)
            if what == "subscribe" and node in asked:
                took.append((now - asked.pop(node)) / TICKS)

    runner.Meter = JoinMeter  # type: ignore[misc]
    a_minute = 46 * members / 4000
    spec = RunSpec(
        protocol="vcube-ps",
        nodes=1 << members.bit_length(),
        network="constant:delay=100,t_pc=0,t_t=1",
        workload=f"churn:size={members},messages={round(120 * minutes)},interval=500,"
        f"session={60_000 * members / a_minute:.0f}",
        options={"mode": mode},
    )
    begin = time.process_time()
    metrics = runner.simulate(spec).metrics
    return {
        "joins": len(took),
        "mean": fmean(took) if took else 0.0,
        "max": max(took, default=0.0),
        "most": most,
        "unfinished": len(asked),
        "relayed": 100 * float(metrics["relayed_share"]),  # type: ignore[arg-type]
        "latency": float(metrics["latency_from_request"]),  # type: ignore[arg-type]
        "cpu": time.process_time() - begin,
    }


def joins(chosen: argparse.Namespace) -> None:
    heads = ("joins", "mean s", "max s", "at once", "left over", "relayed", "cpu s")
    print(f"  {'mode':<10} " + " ".join(f"{head:>9}" for head in heads))
    for mode in ("faithful", "pipelined"):
        row = apart("joins", mode, 4000, 1.0)
        print(
            f"  {mode:<10} {row['joins']:>9} {row['mean'] / 1000:>9.2f} {row['max'] / 1000:>9.2f} {row['most']:>9} "
            f"{row['unfinished']:>9} {row['relayed']:>7.2f} % {row['cpu']:>9.1f}"
        )


# -- placement --------------------------------------------------------------------------------------------------------


def measure_placement(file: str, nodes: int, seeds: int) -> dict[str, list[float]]:
    from antecede.overlay.placement import mean_path_latency, place  # noqa: PLC0415
    from antecede.sim.matrix import read_one_way  # noqa: PLC0415
    from antecede.sim.units import TICKS  # noqa: PLC0415

    with open(file, encoding="ascii") as text:
        available = sum(1 for line in text if line.strip())
    times = read_one_way(file, available)
    found: dict[str, list[float]] = {"all": [], "quarter": [], "placed_ms": [], "random_ms": [], "seconds": []}
    for seed in range(seeds):
        rng = random.Random(seed)
        chosen = rng.sample(range(available), min(nodes, available))
        matrix = [[times[a][b] / TICKS for b in chosen] for a in chosen]
        everyone = range(len(chosen))
        begin = time.process_time()
        placed = place(matrix)
        found["seconds"].append(time.process_time() - begin)
        chance = rng.sample(everyone, len(chosen))
        quarter = set(rng.sample(everyone, len(chosen) // 4))
        for members, name in ((everyone, "all"), (quarter, "quarter")):
            by_latency, by_chance = (mean_path_latency(matrix, order, members) for order in (placed, chance))
            found[name].append(by_latency / by_chance)
            if name == "all":
                found["placed_ms"].append(by_latency)
                found["random_ms"].append(by_chance)
    return found


def placement(chosen: argparse.Namespace) -> None:
    if not chosen.matrix:
        print("  no matrix: name one with --matrix FILE")
        return
    print("  mean latency from a publisher to its subscribers, placed by latency / at random; spread over 8 draws")
    for nodes in (64, 128, 256, 512):
        row = apart("placement", chosen.matrix, nodes, 8)
        print(
            f"  {nodes:>4} nodes: {fmean(row['placed_ms']):6.1f} / {fmean(row['random_ms']):6.1f} ms = "
            f"{fmean(row['all']):.3f} ± {stdev(row['all']):.3f}; a quarter subscribes: "
            f"{fmean(row['quarter']):.3f} ± {stdev(row['quarter']):.3f}; {fmean(row['seconds']):.1f} s to place"
        )


MEASURES: dict[str, Callable[..., Any]] = {
    "scale": measure_scale,
    "throughput": measure_throughput,
    "joins": measure_joins,
    "placement": measure_placement,
}
SECTIONS = {"scale": scale, "throughput": throughput, "joins": joins, "placement": placement}

if __name__ == "__main__":
    main()
