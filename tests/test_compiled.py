"""Compiled and interpreted modules give the same runs, to the byte, and a machine without a compiler gets the latter.

The tests of `core` and `overlay` run on the compiled modules, too. `make test` compiles most of those two layers, the
engine and causal aggregation, without the C compiler's optimisation. `make test-compiled` compiles every module of
`setup.py` as a wheel has it, and runs tests of client, wire and node on them.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "antecede"

#: What `make test` compiles: few enough files for some seconds of processor time.
FEW = (
    "core/clocks,core/gate,core/numbers,core/process,core/source_gate,"
    "overlay/extended,overlay/members,overlay/shared_tree,overlay/trees,overlay/vcube,"
    "sim/engine,protocols/aggregation/broadcast,protocols/aggregation/hybrid,protocols/aggregation/process,"
    "protocols/aggregation/riding,protocols/aggregation/timer"
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

#: Runs tests after a look at which modules they run on.
TESTS = """
import sys
import pytest
from antecede.core import gate

assert not gate.__file__.endswith(".py"), gate.__file__
sys.exit(pytest.main(sys.argv[1:]))
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


def start(tree: Path, cwd: Path, *words: str | Path, pure: bool) -> subprocess.CompletedProcess[str]:
    """Run Python with the modules of `tree`."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "ANTECEDE_PURE": "1" if pure else "0"}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment
    )


def run(tree: Path, *words: str, pure: bool) -> list[str]:
    done = start(tree, tree, *words, pure=pure)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def told(said: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in said.stderr.splitlines() if line.startswith("antecede:")]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this tree with compiled modules. Without a compiler its tests are left out, and say so."""
    tree = tmp_path_factory.mktemp("compiled") / "tree"
    asked = {
        name: os.environ.get(name, usual) for name, usual in (("ANTECEDE_COMPILE", FEW), ("ANTECEDE_OPTIMISE", "0"))
    }
    said = build(tree, **asked)
    if any("no C compiler" in line for line in told(said)):
        pytest.skip("LEFT OUT: no C compiler with Python.h here; to compare compiled runs: install gcc and python3-dev")
    assert told(said) == []
    return tree


def listed() -> set[str]:
    """The modules that `setup.py` compiles."""
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    (table,) = re.findall(r"^COMPILED = (\{.*?^\})", text, re.DOTALL | re.MULTILINE)
    return {f"{directory}/{name}" for directory, names in ast.literal_eval(table).items() for name in names.split()}


def classes(module: str) -> list[ast.ClassDef]:
    code = ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))
    return [node for node in ast.walk(code) if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("compiled_modules", [set(FEW.split(",")), listed()], ids=["few", "all"])
def test_interpreted_classes_extend_compiled_ones_that_allow_it(compiled_modules: set[str]) -> None:
    """mypyc refuses others when the first instance is made, so a wheel would fail where the source files do not."""
    closed = {
        cls.name: module
        for module in compiled_modules
        for cls in classes(module)
        if not any("allow_interpreted_subclasses=True" in ast.unparse(mark) for mark in cls.decorator_list)
    }
    extends = re.compile(rf"class \w+\(.*\b({'|'.join(closed)})\b")
    wrong = []
    for file in sorted(SOURCE.rglob("*.py")):
        text, module = file.read_text(encoding="utf-8"), file.relative_to(SOURCE).with_suffix("").as_posix()
        if module not in compiled_modules and extends.search(text):
            for cls in classes(module):
                for base in (ast.unparse(base).partition("[")[0] for base in cls.bases):
                    line = rf"^from antecede\.([\w.]+) import (?:\([^)]*|[^(\n]*)\b{base}\b"
                    package = re.search(line, text, re.MULTILINE)
                    if base in closed and package and closed[base].startswith(package[1].replace(".", "/")):
                        wrong.append(f"{module}.{cls.name} extends {closed[base]}.{base}")
    assert wrong == []


def test_compiled_classes_extend_no_interpreted_ones_that_extend_compiled_ones() -> None:
    """A caller in compiled code would reach the methods of the last, past those of the interpreted class."""
    compiled_modules = listed()
    bases: dict[str, set[str]] = {}
    compiled_classes: set[str] = set()
    for file in sorted(SOURCE.rglob("*.py")):
        module = file.relative_to(SOURCE).with_suffix("").as_posix()
        for cls in classes(module):
            found = {ast.unparse(base).partition("[")[0] for base in cls.bases}
            if module in compiled_modules:
                compiled_classes.add(cls.name)
                bases[f"{module}.{cls.name}"] = found
            else:
                bases.setdefault(cls.name, set()).update(found)
    wrong = [
        f"{name} extends {base}, which is interpreted"
        for name, found in bases.items()
        if "." in name
        for base in found - compiled_classes
        if bases.get(base, set()) & compiled_classes
    ]
    assert wrong == []


def test_compiled_functions_do_not_set_an_attribute_to_none_and_read_it_again() -> None:
    """A call in between may set it, and mypy does not know: compiled code raises `TypeError` for what is not None."""
    wrong = []
    for module in sorted(listed()):
        code = ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))
        for statement, later in with_later(code.body, []):
            if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "None":
                names = {ast.unparse(target) for target in statement.targets if isinstance(target, ast.Attribute)}
                reads = [node for one in later for node in ast.walk(one) if is_read(node, names)]
                wrong += [f"{module}:{node.lineno} {ast.unparse(node)}" for node in reads]
    assert wrong == []


def with_later(block: list[ast.stmt], behind: list[ast.stmt]) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    """Each statement, with those that may run after it in the same function. `behind`: those behind the block."""
    for at, statement in enumerate(block):
        later = block[at + 1 :] + behind
        yield statement, later
        inside = [] if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else later
        for _, part in ast.iter_fields(statement):
            if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
                yield from with_later(part, inside)


def is_read(node: ast.AST, names: set[str]) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node) in names


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


#: Tests of what a live message passes. `make test` compiles none of that.
LIVE = ("client", "wire", "node/test_driver.py", "node/test_feed.py", "node/test_turns.py", "node/test_cluster.py")


@pytest.mark.parametrize("layer", ["core", "overlay", *(LIVE if "ANTECEDE_COMPILE" in os.environ else ())])
def test_the_tests_of_a_layer_pass_compiled(layer: str, compiled: Path, tmp_path: Path) -> None:
    options = ["-m", "not slow and not interpreted", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words = [*options, "--basetemp", tmp_path / "temporary", f"tests/{layer}"]
    done = start(compiled, ROOT, "-c", TESTS, *words, pure=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_a_compiler_one_line_says_so_and_nothing_is_compiled(tmp_path: Path) -> None:
    said = build(tmp_path / "tree", CC="no-such-compiler")
    assert told(said) == [
        "antecede: no C compiler with Python.h found; built without compiled modules: same results, simulations and "
        "nodes take longer"
    ]
    assert not [*tmp_path.rglob("*.so")]
