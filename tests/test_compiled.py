"""Compiled and interpreted modules give the same runs, to the byte, and a machine without a compiler gets the latter.

`make test` compiles the engine, the gate and causal aggregation. `make test-compiled` compiles every module of
`setup.py`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: What `make test` compiles: few enough files for some seconds of processor time.
FEW = (
    "core/gate,core/process,sim/engine,"
    "protocols/aggregation/broadcast,protocols/aggregation/process,protocols/aggregation/timer"
)

#: Of a build or a set of runs. pytest's own limit is lower in `make test`.
LIMIT_S = 1800

#: Runs of the protocols that have compiled modules, and of some that extend compiled classes.
RUNS = [
    {"protocol": "causal-aggregation", "nodes": 64, "seed": 1},
    {"protocol": "causal-aggregation", "nodes": 32, "seed": 2, "network": "heavy-tailed"},
    {"protocol": "timer-bundling", "nodes": 16, "seed": 3, "options": {"wait": 20}},
    {"protocol": "vcube-ps", "nodes": 16, "seed": 4},
    {
        "protocol": "vcube-ps",
        "nodes": 16,
        "seed": 5,
        "workload": "churn:size=10",
        "faults": ["crash:node=3,at=300"],
        "options": {"diagnosis": 8},
    },
    {"protocol": "locamu", "nodes": 7, "seed": 6},
    {"protocol": "gossip-context", "nodes": 8, "seed": 7, "workload": "brokered"},
    {"protocol": "gossip-rounds", "nodes": 8, "seed": 8, "workload": "brokered"},
    {"protocol": "tno", "nodes": 8, "seed": 9, "workload": "overlapping"},
    {"protocol": "srpt-s", "nodes": 16, "seed": 10, "workload": "zipf"},
]

#: Prints the files that two modules were loaded from, then the metrics and the trace of each run.
PROGRAM = """
import hashlib, json, sys
import msgspec
from antecede.core import gate
from antecede.sim import RunSpec, engine, simulate

print(gate.__file__)
print(engine.__file__)
for values in json.loads(sys.argv[1]):
    result = simulate(msgspec.convert(values, RunSpec), trace=True)
    rows = "\\n".join(map(repr, result.trace.rows()))
    print(json.dumps(result.metrics, sort_keys=True), hashlib.sha256(rows.encode()).hexdigest())
"""


def build(tree: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the extension modules of a copy of this tree, beside their source files."""
    tree.mkdir()
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    return subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "src", "--build-temp", "objects"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
        env={**os.environ, **environment},
    )


def run(tree: Path, *words: str, pure: bool) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "ANTECEDE_PURE": "1" if pure else "0"}
    return subprocess.run(
        [sys.executable, *words], cwd=tree, capture_output=True, text=True, timeout=LIMIT_S, check=True, env=environment
    ).stdout.splitlines()


def told(said: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in said.stderr.splitlines() if line.startswith("antecede:")]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this tree with compiled modules. Without a compiler its tests are left out, and say so."""
    tree = tmp_path_factory.mktemp("compiled") / "tree"
    said = build(tree, ANTECEDE_COMPILE=os.environ.get("ANTECEDE_COMPILE", FEW))
    if any("no C compiler" in line for line in told(said)):
        pytest.skip("LEFT OUT: no C compiler with Python.h here; to compare compiled runs: install gcc and python3-dev")
    assert told(said) == []
    return tree


def test_the_version_says_which_modules_run(compiled: Path) -> None:
    assert run(compiled, "-m", "antecede", "--version", pure=False)[0].endswith("(compiled)")
    assert run(compiled, "-m", "antecede", "--version", pure=True)[0].endswith("(interpreted)")


def test_the_explorer_runs_interpreted_modules(compiled: Path) -> None:
    program = """
import sys
from antecede.cli import main
sys.argv = ["antecede", "explore"]
try:
    main()
finally:
    from antecede.core import gate
    print(gate.__file__)
"""
    assert run(compiled, "-c", program, pure=False)[-1].endswith("gate.py")


def test_runs_are_the_same_compiled_and_interpreted(compiled: Path) -> None:
    gate, engine, *runs = run(compiled, "-c", PROGRAM, json.dumps(RUNS), pure=False)
    assert not gate.endswith(".py")
    assert not engine.endswith(".py")
    pure_gate, pure_engine, *pure_runs = run(compiled, "-c", PROGRAM, json.dumps(RUNS), pure=True)
    assert pure_gate.endswith("gate.py")
    assert pure_engine.endswith("engine.py")
    assert len(runs) == len(RUNS)
    assert runs == pure_runs


def test_without_a_compiler_one_line_says_so_and_nothing_is_compiled(tmp_path: Path) -> None:
    said = build(tmp_path / "tree", CC="no-such-compiler")
    assert told(said) == [
        "antecede: no C compiler with Python.h found; built without compiled modules: same results, simulations take "
        "longer"
    ]
    assert not [*tmp_path.rglob("*.so")]
