"""Gossip: how many subscribers one simulation holds. Prints a table, asserts nothing.

    python bench/gossip.py [--full]

64 brokers, fan-out 3, loss 5 %, subscribers that take two of eight groups on average and pull what they lose; 50
messages of 50 bytes, each to one group or two. 1,000 and 10,000 subscribers; --full: 50,000.

Every run is a process of its own, so that peak memory is its own. 10,000 subscribers took 26 s of processor time and
191 MB with gossip-context, 64 s and 424 MB with gossip-rounds, where each goes to all groups of its broker (503,200
deliveries, none missed).
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

BROKERS = 64


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--full", action="store_true", help="also 50,000 subscribers")
    arguments.add_argument("--run", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.run:
        print(json.dumps(measure(*json.loads(chosen.run))))
        return
    print(f"{'':>15} {'subscribers':>12} {'deliveries':>11} {'missed':>7} {'events':>10} {'cpu s':>7} {'µs/event':>9} "
          f"{'peak MB':>8} {'KB each':>8}")  # fmt: skip
    for protocol in ("gossip-context", "gossip-rounds"):
        base = apart(protocol, 0)["mb"]
        for subscribers in (1_000, 10_000, *([50_000] if chosen.full else [])):
            row = apart(protocol, subscribers)
            print(
                f"{protocol:>15} {subscribers:>12,} {row['delivered']:>11,.0f} {row['missed']:>7,.0f} "
                f"{row['events']:>10,.0f} {row['cpu']:>7.1f} {1e6 * row['cpu'] / row['events']:>9.1f} "
                f"{row['mb']:>8.0f} {1024 * (row['mb'] - base) / subscribers:>8.1f}"
            )


def apart(*values: object) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--run", json.dumps(values)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def measure(protocol: str, subscribers: int) -> dict[str, float]:
    from antecede.core import Message  # noqa: PLC0415 - only in the measured process
    from antecede.experiments.kim_ahn.reliability import Spreading  # noqa: PLC0415
    from antecede.protocols.gossip import groups_of  # noqa: PLC0415
    from antecede.sim import RunSpec, simulate  # noqa: PLC0415

    class Counting(Spreading):
        """Who had how many messages of which topic: no more, so that memory is the simulation's."""

        count = 0
        owed = 0

        def published(self, now: int, node: int, message: Message) -> None:
            groups = groups_of(message.topic)
            readers = {node for node, taken in self.takes.items() if not groups.isdisjoint(taken)}
            self.owed += len(readers | {node})

        def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
            self.count += 1

    several = 1 if protocol == "gossip-rounds" else 0.3
    counting = Counting()
    spec = RunSpec(
        protocol=protocol,
        nodes=BROKERS + subscribers,
        workload=f"brokered:brokers={BROKERS},count=8,overlap=0.25,several={several},messages=50,interval=200",
        faults=("loss:share=0.05",),
        options={"brokers": BROKERS},
    )
    begin = time.process_time()
    metrics = simulate(spec, measure=False, watch=[counting]).metrics
    return {
        "delivered": counting.count,
        "missed": counting.owed - counting.count,
        "events": float(metrics["events"]),  # type: ignore[arg-type]
        "cpu": time.process_time() - begin,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    main()
