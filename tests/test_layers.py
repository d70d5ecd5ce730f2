"""Style that matters, as tests: who may import whom, what the pure layers may not touch, and a few habits.

Every package states below what it may import; a package always may import itself. `embedded` is the one module that
knows client and node both; `loading` is for every package that loads names lazily or needs an extra,
`private_files` for those that write what other users must not read. The judge (`audit`) shares no code with what it
judges: it imports the errors and the trace.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "antecede"

_PROTOCOLS = {"core", "overlay", "protocols"}
_LAB = {*_PROTOCOLS, "sim", "trace", "audit"}

#: Each package with what it may import; `core.errors` stands for that module alone.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "overlay": {"core"},
    "protocols": {"core", "overlay"},
    "trace": {"core", "loading"},
    "audit": {"core.errors", "trace", "loading"},
    "private_files": set(),
    "wire": {"core", "loading", "private_files"},
    "loading": {"core.errors"},
    "journal": {"core", "trace", "wire.envelope", "loading", "private_files"},
    # The client starts a node for memory:// only, and loads `logs` for nats:// and its like only, inside functions.
    "client": {"core", "wire", "embedded", "logs.connect"},
    # Causal order over logs of other systems: the rules are in protocols.logs.
    "logs": {"core", "protocols.logs", "wire", "client.base", "client.message", "client.options", "loading"},
    # Live links can be given the simulator's faults: the functions that decide them, not the engine.
    "node": {
        *_PROTOCOLS,
        "loading",
        "private_files",
        "wire",
        "journal",
        "sim.network",
        "sim.networks",
        "sim.faults",
        "sim.fault_choices",
    },
    "embedded": {"core", "wire", "client", "node"},
    "gateway": {*_PROTOCOLS, "wire", "journal", "loading", "logs"},
    "sim": {*_PROTOCOLS, "trace", "loading"},
    "search": _LAB,
    "experiments": {*_LAB, "search"},
    "spark": {*_LAB, "loading", "search", "experiments", "client", "wire", "journal", "logs"},
    # The report draws runs and simulates none: it is given rows, or a function that repeats a run.
    "report": {
        "core",
        "trace",
        "loading",
        "audit",
        "experiments",
        "spark",
        "sim.RunSpec",
        "sim.run.promised_rules",
        "sim.run.promises_across_topics",
    },
    "testing": {*_LAB, "wire", "journal", "client", "node", "embedded", "logs"},
    "cli": {
        *_LAB,
        "loading",
        "search",
        "experiments",
        "spark",
        "report",
        "client",
        "wire",
        "journal",
        "node",
        "gateway",
        "logs",
    },
}

PURE = ("core", "overlay", "protocols")
#: What would let time, chance or the machine into a protocol.
IMPURE = frozenset(
    ["asyncio", "time", "random", "socket", "threading", "os", "subprocess", "datetime", "pathlib", "secrets"]
)

#: What `pip install antecede` runs: modules and packages that import without the libraries of any extra.
BARE = (
    *("core", "overlay", "protocols", "wire", "journal", "client", "node", "embedded", "gateway", "logs"),
    *("loading", "private_files"),
    *("trace.schema", "trace.recorder", "sim.network", "sim.networks", "sim.faults", "sim.fault_choices"),
)
#: Modules inside BARE that need an extra. Bare modules import them only inside a function, after `need_extra`.
NEED_AN_EXTRA = frozenset(["overlay.placement", "node.mqtt.web"])
#: Libraries that no bare module may import at module level.
EXTRA_LIBRARIES = (
    *("jinja2", "numpy", "pandas", "pyarrow", "pyspark", "nats", "redis", "confluent_kafka"),
    *("uvloop", "websockets"),
)

LINES_MAX = 500


@cache
def walk(code: str) -> list[ast.AST]:
    """The nodes that the tests look at, of a file that several tests read."""
    return [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]


def imports(code: str, module: str) -> Iterator[str]:
    """The full name of everything `code`, the text of `module`, imports anywhere, also inside functions.

    `from a.b import c` gives `a.b.c`: c may be a module, and if it is not, the prefix says as much. A package's own
    text is that of `package.__init__`.
    """
    for node in walk(code):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def wrong_arrows(code: str, module: str) -> list[str]:
    """What is wrong with the imports of `module`, e.g. `antecede.core.gate`, whose text is `code`."""
    package = module.split(".")[1]
    if package not in MAY_IMPORT:
        return [f"{module}: antecede.{package} is not in the table of tests/test_layers.py; add it to the table"]
    wrong = []
    for name in imports(code, module):
        top, _, inner = name.partition(".")
        if top != "antecede":
            if package in PURE and top in IMPURE:
                wrong.append(f"{module} imports {top}: {package} is pure, time, chance and files are its driver's")
            continue
        imported = inner.split(".")[0]
        if imported == "__version__":
            continue
        allowed = MAY_IMPORT[package]
        if imported == package or imported in allowed:
            continue
        if any(f"{inner}.".startswith(f"{module_allowed}.") for module_allowed in allowed):
            continue
        if imported and imported not in MAY_IMPORT:
            wrong.append(f"{module} imports antecede.{imported}, which is not in the table; add it to the table")
        else:
            wrong.append(f"{module} imports {name}; {package} may import {', '.join(sorted(allowed)) or 'nothing'}")
    return wrong


def module_name(path: Path) -> str:
    return ".".join(("antecede", *path.relative_to(SOURCE).with_suffix("").parts))


def sources() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    assert found, f"no sources under {SOURCE}"
    return found


# -- the sources ------------------------------------------------------------------------------------------------------


def test_arrows() -> None:
    wrong = []
    for path in sources():
        if path.parent != SOURCE or path.stem not in (
            "__init__",
            "__main__",
        ):
            wrong += wrong_arrows(path.read_text(), module_name(path))
    assert not wrong, "\n" + "\n".join(wrong)


def test_a_bare_install_can_import_what_it_runs() -> None:
    names = [module_name(path).removeprefix("antecede.") for path in sources()]
    bare = [name for name in names if f"{name}.".startswith(tuple(f"{one}." for one in BARE))]
    assert {"node.node", "client.connect", "sim.networks"} <= set(bare)
    wanted = [f"antecede.{name}".removesuffix(".__init__") for name in bare if name not in NEED_AN_EXTRA]
    wanted = [name for name in wanted if not name.endswith("__main__")]  # those run when they are imported
    assert importing_without_extras(wanted) == []


def importing_without_extras(modules: list[str]) -> list[str]:
    """Import each module in a new process that has none of EXTRA_LIBRARIES. What fails is listed with the reason."""
    code = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({EXTRA_LIBRARIES}))
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


def test_every_package_is_in_the_table() -> None:
    packages = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in sources()} - {"__init__", "__main__"}
    unknown = sorted(packages - set(MAY_IMPORT))
    assert not unknown, (
        f"add {', '.join(unknown)} to the table of tests/test_layers.py: who may import it, and whom it may"
    )


def test_the_package_itself_only_re_exports() -> None:
    """Importing antecede must not load Spark, a plotting library or the command line."""
    code = (SOURCE / "__init__.py").read_text()
    heavy = {"spark", "report", "cli", "experiments", "gateway", "logs", "testing"}
    assert not [name for name in imports(code, "antecede.__init__") if set(name.split(".")) & heavy]
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assert node.name == "__getattr__", f"line {node.lineno}: {node.name} belongs into a package"


def test_no_file_is_too_long_to_read_in_one_sitting() -> None:
    long = {module_name(path): len(path.read_text().splitlines()) for path in sources()}
    long = {module: lines for module, lines in long.items() if lines > LINES_MAX}
    assert not long, f"split these, {LINES_MAX} lines are enough: {long}"


def test_only_the_command_line_prints() -> None:
    prints = []
    for path in sources():
        module = module_name(path)
        if module.split(".")[1] != "cli":
            prints += [f"{module}:{line}" for line in printing_lines(path.read_text())]
    assert not prints, f"return or log instead: {prints}"


def printing_lines(code: str) -> list[int]:
    calls = [node for node in walk(code) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


def test_nothing_is_left_for_later() -> None:
    later = [
        f"{module_name(path)}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "TODO" in line or "FIXME" in line
    ]
    assert not later, f"do it now or write it down in an issue: {later}"


# -- these tests can fail ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("antecede.core.gate", "from antecede.overlay.vcube import VCube"),
        ("antecede.core.gate", "from antecede import overlay"),
        ("antecede.core.gate", "from antecede.trace import Row"),
        ("antecede.core.gate", "import os.path"),
        ("antecede.core.gate", "from time import monotonic"),
        ("antecede.core.__init__", "from ..overlay import vcube"),
        ("antecede.overlay.trees", "from ..protocols import registry"),
        ("antecede.protocols.one", "def f():\n    import random"),
        ("antecede.protocols.one", "if TYPE_CHECKING:\n    from antecede.sim.engine import Simulation"),
        ("antecede.sim.engine", "import antecede.node"),
        ("antecede.sim.engine", "from antecede.audit import judge"),
        ("antecede.node", "from antecede.sim import engine"),
        ("antecede.experiments.one", "from antecede.gateway import mqtt"),
        ("antecede.spark.sweep", "from antecede.report import page"),
        ("antecede.report.pictures", "from antecede.sim import simulate"),
        ("antecede.trace.files", "from antecede.overlay import vcube"),
        ("antecede.audit.reference.judge", "from antecede.core import UsageError"),
        ("antecede.audit.reference.judge", "from antecede.core.gate import Gate"),
        ("antecede.audit.reference.judge", "from antecede.core.errors_of_others import Mistake"),
        ("antecede.cli.main", "from antecede.testing import conformance"),
        ("antecede.core.gate", "import antecede"),
    ],
)
def test_a_wrong_import_is_seen(module: str, code: str) -> None:
    (complaint,) = wrong_arrows(code, module)
    assert module in complaint


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("antecede.core.gate", "import enum\nfrom antecede.core.errors import UsageError"),
        ("antecede.core.gate", "from .errors import UsageError\nfrom . import limits"),
        ("antecede.overlay.trees", "from antecede import core"),
        ("antecede.overlay.deep.er", "from ...core import Gate"),
        ("antecede.protocols.one", "from antecede.overlay.trees import Trees\nfrom antecede.core import Message"),
        ("antecede.sim.engine", "import random\nimport time\nimport antecede.protocols.registry"),
        (
            "antecede.audit.reference.judge",
            "from antecede.core.errors import UsageError\nfrom antecede.trace import Row",
        ),
        ("antecede.audit.reference.judge", "from antecede.core import errors"),
        ("antecede.experiments.one", "from antecede.audit import judge\nfrom antecede.sim import engine"),
        ("antecede.cli.main", "from antecede.spark import sweep\nfrom antecede.report import page"),
        ("antecede.testing.conformance", "from antecede.wire import node\nfrom antecede.audit import judge"),
    ],
)
def test_a_right_import_is_not_complained_of(module: str, code: str) -> None:
    assert wrong_arrows(code, module) == []


@pytest.mark.parametrize(
    ("module", "code"),
    [("antecede.wormhole.gate", "import enum"), ("antecede.sim.engine", "from antecede.wormhole import gate")],
)
def test_an_unknown_package_is_named_with_what_to_do(module: str, code: str) -> None:
    (complaint,) = wrong_arrows(code, module)
    assert "antecede.wormhole" in complaint
    assert "add it to the table" in complaint


def test_a_library_of_an_extra_is_seen() -> None:
    (complaint,) = importing_without_extras(["antecede.core.gate", "antecede.sim.meter"])
    assert "antecede.sim.meter" in complaint
    assert "numpy" in complaint


def test_a_print_is_seen() -> None:
    assert printing_lines("def f():\n    print('hello')\n") == [2]
    assert printing_lines("console.print('hello')  # print('no')\n'print(1)'") == []


def test_maps_of_packages() -> None:
    """A package whose docstring lists its files lists those that are there, and all of them."""
    wrong = []
    for path in sorted(SOURCE.rglob("__init__.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if re.search(r"^\w+\.py +\S", text, re.MULTILINE):
            listed = set(re.findall(r"\b\w+\.py\b", text))
            inside = {one.name for one in path.parent.glob("*.py")} - {"__init__.py"}
            name = module_name(path)
            wrong += [f"{name} lists {one}, which is not there" for one in sorted(listed - inside)]
            wrong += [f"{name} does not list {one}" for one in sorted(inside - listed)]
    assert not wrong, "\n" + "\n".join(wrong)
