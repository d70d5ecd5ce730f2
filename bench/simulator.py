"""How fast the simulator is, and how it grows: receptions a second and peak memory, aggregation on, trace off.

    python bench/simulator.py [--nodes 256 1024]

Each size runs in a process of its own, so that peak memory is its own. Aim: 1024 nodes (1.05 million receptions) in at
most 20 s on one core and 1.5 GB. For scale, on such a machine: a C prototype 1.5 s, the authors' PeerSim code 120 s.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

CALIBRATION_LOOPS = 5_000_000


def measure(nodes: int) -> dict[str, float]:
    from antecede.sim import RunSpec, simulate  # noqa: PLC0415 - only in the measured process

    spec = RunSpec(protocol="causal-aggregation", nodes=nodes, seed=1)
    wall, processor = time.perf_counter(), time.process_time()
    metrics = simulate(spec).metrics
    return {
        "nodes": nodes,
        "receptions": metrics["receptions"],  # type: ignore[dict-item]
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - processor,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def calibrate() -> float:
    """Seconds for a fixed loop: what a second is worth on this machine at this moment."""
    begin = time.process_time()
    total = 0
    for number in range(CALIBRATION_LOOPS):
        total += number
    return time.process_time() - begin


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nodes", type=int, nargs="+", default=[256, 512, 1024])
    arguments.add_argument("--one", type=int, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one)))
        return
    print(f"this machine now: {calibrate():.2f} s for {CALIBRATION_LOOPS:,} additions in a loop")
    print(f"{'nodes':>6} {'receptions':>11} {'seconds':>8} {'cpu s':>7} {'receptions/s':>13} {'peak MB':>8}  growth")
    before: dict[str, float] | None = None
    for nodes in chosen.nodes:
        command = [sys.executable, __file__, "--one", str(nodes)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        growth = ""
        if before:
            more = row["receptions"] / before["receptions"]
            time_more, memory_more = row["cpu_seconds"] / before["cpu_seconds"], row["peak_mb"] / before["peak_mb"]
            growth = f"×{more:.1f} receptions: ×{time_more:.1f} time, ×{memory_more:.1f} memory"
        rate = row["receptions"] / row["seconds"]
        print(
            f"{nodes:>6} {row['receptions']:>11,} {row['seconds']:>8.1f} {row['cpu_seconds']:>7.1f} {rate:>13,.0f} "
            f"{row['peak_mb']:>8.0f}  {growth}"
        )
        before = row


if __name__ == "__main__":
    main()
