"""Processor time of simulations on compiled and on interpreted modules, from the same files.

    .venv/bin/python bench/compiled.py [TREE]

TREE is a copy of this tree in which `setup.py build_ext --build-lib src` has run; without it one is built in a
temporary directory (a minute or two). Each run is made three times each way, in turn, in processes of their own; the
least counts. The script fails if a run's metrics differ by a byte.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPEATS = 3

RUNS = {
    "causal-aggregation, 256 nodes": {"protocol": "causal-aggregation", "nodes": 256},
    "timer-bundling, 128 nodes": {"protocol": "timer-bundling", "nodes": 128},
    "vcube-ps, 256 nodes": {"protocol": "vcube-ps", "nodes": 256},
    "locamu, 63 nodes": {"protocol": "locamu", "nodes": 63},
    "tno, 32 nodes": {"protocol": "tno", "nodes": 32, "workload": "overlapping"},
    "gossip-context, 32 nodes": {"protocol": "gossip-context", "nodes": 32, "workload": "brokered"},
    "gossip-rounds, 32 nodes": {"protocol": "gossip-rounds", "nodes": 32, "workload": "brokered"},
}

PROGRAM = """
import json, sys, time
from antecede.core import gate
from antecede.sim import RunSpec, simulate

spec = RunSpec(**json.loads(sys.argv[1]))
began = time.process_time()
metrics = simulate(spec).metrics
print(gate.__file__, time.process_time() - began, json.dumps(metrics, sort_keys=True), sep="\\t")
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
        pairs = [(once(tree, values, pure=True), once(tree, values, pure=False)) for _ in range(REPEATS)]
        if len({metrics for pair in pairs for _, metrics in pair}) != 1:
            raise SystemExit(f"{name}: the metrics differ")
        events = json.loads(pairs[0][0][1])["events"]
        plain = min(interpreted for (interpreted, _), _ in pairs)
        fast = min(compiled for _, (compiled, _) in pairs)
        print(f"| {name} | {events:,} | {plain:.2f} | {fast:.2f} | {plain / fast:.1f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            build(Path(directory))
            main(Path(directory))
