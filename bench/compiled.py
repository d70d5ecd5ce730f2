"""Processor time of simulations on compiled and on interpreted modules, from the same files.

    .venv/bin/python bench/compiled.py [TREE]

TREE is a copy of this tree in which `setup.py build_ext --build-lib src` has run; without it one is built in a
temporary directory (a minute or two). Two processes each way, in turn, make each run eight times; the least counts,
since other work on the machine only adds. The script fails if a run's metrics differ by a byte.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROCESSES = 2

RUNS = {
    "causal-aggregation, 128 nodes": {"protocol": "causal-aggregation", "nodes": 128},
    "timer-bundling, 64 nodes": {"protocol": "timer-bundling", "nodes": 64},
    "vcube-ps, 64 nodes": {"protocol": "vcube-ps", "nodes": 64},
    "locamu, 31 nodes": {"protocol": "locamu", "nodes": 31},
    "tno, 16 nodes": {"protocol": "tno", "nodes": 16, "workload": "overlapping"},
    "gossip-context, 16 nodes": {"protocol": "gossip-context", "nodes": 16, "workload": "brokered"},
    "gossip-rounds, 16 nodes": {"protocol": "gossip-rounds", "nodes": 16, "workload": "brokered"},
}

PROGRAM = """
import json, sys, time
from antecede.core import gate
from antecede.sim import RunSpec, simulate

spec = RunSpec(**json.loads(sys.argv[1]))
least = float("inf")
for _ in range(8):
    began = time.process_time()
    metrics = simulate(spec).metrics
    least = min(least, time.process_time() - began)
print(gate.__file__, least, json.dumps(metrics, sort_keys=True), sep="\\t")
"""


def build(tree: Path) -> None:
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    words = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "src", "--build-temp", "objects"]
    subprocess.run(words, cwd=tree, check=True)


def once(tree: Path, values: dict[str, object], *, pure: bool) -> tuple[float, str]:
    """Simulate in a process of its own. Returns its processor time and its metrics."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "ANTECEDE_PURE": "1" if pure else "0"}
    words = [sys.executable, "-c", PROGRAM, json.dumps(values)]
    said = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=True).stdout
    file, seconds, metrics = said.split("\t")
    if file.endswith(".py") != pure:
        raise SystemExit(f"{tree}: loaded {file}; compile its modules first")
    return float(seconds), metrics


def main(tree: Path) -> None:
    print("| run | events | interpreted, s | compiled, s | ratio |\n|---|---|---|---|---|")
    for name, values in RUNS.items():
        pairs = [(once(tree, values, pure=True), once(tree, values, pure=False)) for _ in range(PROCESSES)]
        if len({metrics for pair in pairs for _, metrics in pair}) != 1:
            raise SystemExit(f"{name}: the metrics differ")
        events = json.loads(pairs[0][0][1])["events"]
        plain = min(interpreted for (interpreted, _), _ in pairs)
        fast = min(compiled for _, (compiled, _) in pairs)
        print(f"| {name} | {events:,} | {plain:.3f} | {fast:.3f} | {plain / fast:.1f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            build(Path(directory))
            main(Path(directory))
