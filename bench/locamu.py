"""LoCaMu: what a message carries and a node remembers as the system grows. Prints tables, asserts nothing.

    python bench/locamu.py [--sizes 63 511 4095] [--messages 8]

A binary tree, everybody in one group, f = 1. Messages are published one after the other, each when all have the last,
by nodes drawn at random; then everything settles. Beside LoCaMu, CBCAST and Causal Barriers under the same load: what
they carry and keep depends on how many have published, which here are few (at worst: `antecede experiments run
locamu-figure-7`).

metadata   bytes beyond payload and the header all packets have: mean and most over the packets of the second half of
           the messages; "whole" counts all counters of a neighbourhood with every message, as the paper does (540 at
           most), "changes" those that are sent
state      bytes of the counters a node keeps when all is quiet: mean and most
open       messages still in some node's log at the end: what would grow with the life of the run
"""

import argparse
import random
import time

from antecede.protocols.flooding.process import Flooding
from antecede.protocols.locamu import LoCaMu, Sizes
from antecede.protocols.options import GroupOptions
from antecede.protocols.registry import options
from antecede.sim.engine import Simulation
from antecede.sim.network import PacketSwitched, constant
from antecede.sim.throughput import Throughput
from antecede.sim.units import TICKS

#: What every packet has.
COMMON = 22


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", nargs="+", type=int, default=[63, 511, 4095])
    arguments.add_argument("--messages", type=int, default=8)
    chosen = arguments.parse_args()
    print(f"{'':24}{'nodes':>7}{'metadata':>10}{'most':>7}{'state':>8}{'most':>7}{'open':>6}{'seconds':>9}")
    for name, values in (
        ("locamu, whole", {"header": "whole", "records": False}),
        ("locamu, changes", {"header": "changes", "records": False}),
        ("locamu with records", {"header": "changes", "records": True}),
        ("cbcast", {}),
        ("causal-barriers", {}),
    ):
        for nodes in chosen.sizes:
            print(f"{name:24}{nodes:7}{measured(name.split(',')[0].split(' ')[0], values, nodes, chosen.messages)}")


def measured(protocol: str, values: dict[str, object], nodes: int, messages: int) -> str:
    """The rest of a line."""
    picked = options(protocol, values)
    assert isinstance(picked, GroupOptions)
    watch = Throughput()
    begin = time.perf_counter()
    make = picked.build_groups(nodes, {"all": range(nodes)})
    simulation = Simulation(make, range(nodes), PacketSwitched(constant(TICKS)), [watch])
    rng = random.Random(f"{nodes}")
    for number in range(messages):
        simulation.at(number * 50 * TICKS, lambda: publish(simulation, rng.randrange(nodes)))
    simulation.run()
    seconds = time.perf_counter() - begin
    metrics = watch.metrics()
    state, open_ = [], 0
    for process in simulation.processes.values():
        if isinstance(process, LoCaMu):
            state.append(Sizes().counter * (len(process.state.past) + process.state.column.counters))
            open_ += process.answers_for
        else:
            assert isinstance(process, Flooding)
            state.append(process.state_bytes)
    metadata, most = float(str(metrics["metadata_mean"])) - COMMON, int(str(metrics["metadata_max"])) - COMMON
    return f"{metadata:10.0f}{most:7}{sum(state) / nodes:8.0f}{max(state):7}{open_:6}{seconds:9.1f}"


def publish(simulation: Simulation, node: int) -> None:
    simulation.publish(node, "all", bytes(32))


if __name__ == "__main__":
    main()
