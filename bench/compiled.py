"""Simulations at the sizes of their aims: time and peak memory, compiled, interpreted and at an earlier commit.

    .venv/bin/python bench/compiled.py [--tree TREE] [--before COMMIT] [--processes 3] [--short]

TREE is a copy of this tree in which `setup.py build_ext --build-lib src` has run; without it one is built in a
temporary directory (a minute or two). COMMIT is what the aims compare with: c60cd68, the last one before the issue.
Each run has a process of its own, so that peak memory is its own. Processes run in turn, and the least time counts,
since other work on the machine only adds. The script fails if a run's metrics differ by a byte, the earlier commit's
included. --short: small runs, a minute in all, to see whether it works.

Aims: aggregation within 8 times 0.84 s (a C prototype), VCube-PS 20 times as fast as its authors' simulator (120 to
255 s), the others 2.5 times as fast as COMMIT; memory not above COMMIT's.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BEFORE = "c60cd68"
GOSSIP = "brokered:brokers=64,count=8,overlap=0.25,messages=50,interval=200,several="
LOSS = {"faults": ["loss:share=0.05"], "options": {"brokers": 64}}
FAITHFUL = {"network": "peersim", "workload": "uniform:window=1000", "options": {"mode": "faithful"}}

#: What runs, the aim in seconds (None: 2.5 times as fast as before), and whether the run is measured. VCube-PS is not,
#: since the authors' simulator only counts.
RUNS: dict[str, tuple[dict[str, Any], float | None, bool]] = {
    "causal-aggregation, 1024 nodes": ({"protocol": "causal-aggregation", "nodes": 1024}, 8 * 0.84, True),
    "vcube-ps by events, 1024 nodes": ({"protocol": "vcube-ps", "nodes": 1024, **FAITHFUL}, 120 / 20, False),
    "vcube-ps pipelined, 128 nodes": ({"protocol": "vcube-ps", "nodes": 128}, None, True),
    "locamu, 127 nodes": ({"protocol": "locamu", "nodes": 127}, None, True),
    "tno, 64 nodes": ({"protocol": "tno", "nodes": 64, "workload": "overlapping"}, None, True),
    "gossip-context, 1000 subscribers": (
        {"protocol": "gossip-context", "nodes": 1064, "workload": GOSSIP + "0.3", **LOSS},
        None,
        True,
    ),
    "gossip-rounds, 1000 subscribers": (
        {"protocol": "gossip-rounds", "nodes": 1064, "workload": GOSSIP + "1", **LOSS},
        None,
        True,
    ),
}
SHORT: dict[str, tuple[dict[str, Any], float | None, bool]] = {
    "causal-aggregation, 128 nodes": ({"protocol": "causal-aggregation", "nodes": 128}, None, True),
    "vcube-ps by events, 128 nodes": ({"protocol": "vcube-ps", "nodes": 128, **FAITHFUL}, None, False),
    "vcube-ps pipelined, 64 nodes": ({"protocol": "vcube-ps", "nodes": 64}, None, True),
    "locamu, 31 nodes": ({"protocol": "locamu", "nodes": 31}, None, True),
    "tno, 16 nodes": ({"protocol": "tno", "nodes": 16, "workload": "overlapping"}, None, True),
    "gossip-context, 16 nodes": ({"protocol": "gossip-context", "nodes": 16, "workload": "brokered"}, None, True),
    "gossip-rounds, 16 nodes": ({"protocol": "gossip-rounds", "nodes": 16, "workload": "brokered"}, None, True),
}

PROGRAM = """
import json, resource, sys, time
import msgspec
from antecede.core import gate
from antecede.sim import RunSpec, simulate

spec = msgspec.convert(json.loads(sys.argv[1]), RunSpec)
began = time.process_time()
metrics = simulate(spec, measure=json.loads(sys.argv[2])).metrics
seconds = time.process_time() - began
mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(gate.__file__, seconds, mb, json.dumps(metrics, sort_keys=True), sep="\\t")
"""


def build(tree: Path) -> None:
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    words = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "src", "--build-temp", "objects"]
    subprocess.run(words, cwd=tree, check=True)


def unpack(commit: str, tree: Path) -> None:
    """The source files of an earlier commit."""
    tree.mkdir()
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=tree, input=packed, check=True)


def once(tree: Path, values: dict[str, Any], *, measure: bool, pure: bool) -> tuple[float, float, str]:
    """Simulate in a process of its own. Returns processor time, peak memory in MB and the metrics."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "ANTECEDE_PURE": "1" if pure else "0"}
    words = [sys.executable, "-c", PROGRAM, json.dumps(values), json.dumps(measure)]
    said = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=True).stdout
    file, seconds, mb, metrics = said.split("\t")
    if file.endswith(".py") != pure:
        raise SystemExit(f"{tree}: loaded {file}; compile its modules first")
    return float(seconds), float(mb), metrics


def main(tree: Path, before: Path, chosen: argparse.Namespace) -> None:
    print(
        "| run | events | before, s | interpreted, s | compiled, s | times as fast as before | aim | MB before, now |"
    )
    print("|---|---|---|---|---|---|---|---|")
    ways = ((before, True), (tree, True), (tree, False))
    for name, (values, aim, measure) in (SHORT if chosen.short else RUNS).items():
        turns = [
            [once(where, values, measure=measure, pure=pure) for where, pure in ways] for _ in range(chosen.processes)
        ]
        if len({metrics for turn in turns for _, _, metrics in turn}) != 1:
            raise SystemExit(f"{name}: the metrics differ")
        events = json.loads(turns[0][0][2])["events"]
        was, plain, fast = (min(turn[way][0] for turn in turns) for way in range(3))
        mb_was, _, mb = (max(turn[way][1] for turn in turns) for way in range(3))
        wanted = was / 2.5 if aim is None else aim
        verdict = f"{wanted:.2f} s: {'met' if fast <= wanted else f'{fast / wanted:.2f} of it'}"
        print(
            f"| {name} | {events:,} | {was:.2f} | {plain:.2f} | {fast:.2f} | {was / fast:.1f} | {verdict} "
            f"| {mb_was:.0f}, {mb:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tree", type=Path, help="a tree with compiled modules")
    arguments.add_argument("--before", default=BEFORE, help="the commit to compare with")
    arguments.add_argument("--processes", type=int, default=3, help="how many each way")
    arguments.add_argument("--short", action="store_true", help="small runs")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        compiled = asked.tree or Path(directory, "compiled")
        if asked.tree is None:
            build(compiled)
        unpack(asked.before, Path(directory, "before"))
        main(compiled, Path(directory, "before"), asked)
