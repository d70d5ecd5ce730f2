"""Loads a package's names when they are first used, chooses compiled or interpreted modules, and names missing extras.

`pip install antecede` brings a client and a node. The simulator, the reports and Spark need libraries that are
extras (`antecede[lab]`, `antecede[spark]`, `antecede[nats]`). Code that needs an extra calls `need_extra` first, so
that a user without it reads one line with the pip command and no traceback.

Some modules of a wheel may be compiled (`setup.py`). Python loads a compiled module rather than the source file beside
it, unless `ANTECEDE_PURE=1` is set.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

#: The libraries by which an extra is recognised. `spark` includes `lab` (see pyproject.toml).
EXTRAS: Final = {
    "lab": ("jinja2", "numpy", "pyarrow"),
    "spark": ("jinja2", "numpy", "pandas", "pyarrow", "pyspark"),
    "kafka": ("confluent_kafka",),
    "nats": ("nats",),
    "redis": ("redis",),
    "websocket": ("websockets",),
}


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], *, extra: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package whose public names are loaded when they are first used.

    `modules` lists for each module, relative to `package`, the names that it defines. A package that needs an extra
    gives its name; the first use of any of its names then raises `MissingExtraError` if the extra is not installed.

        __getattr__, __dir__ = lazy_names(__name__, {"bus": ("Bus",)})
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if extra is not None:
            need_extra(extra, package)
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next use finds it without this function
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return load, names


def need_extra(extra: str, user: str) -> None:
    """Raise `MissingExtraError` for `user` (a command, a package, a function) unless `extra` is installed."""
    if any(find_spec(library) is None for library in EXTRAS[extra]):
        from antecede.core.errors import MissingExtraError  # noqa: PLC0415 - `import antecede` stays cheap

        raise MissingExtraError(user, extra)


class _SourceFinder:
    """Finds the source files of this package's modules, and nothing else."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("antecede."):
            return None
        found = (FileFinder(entry, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name) for entry in path or ())
        return next((spec for spec in found if spec is not None), None)


def load_interpreted() -> None:
    """From now on load this package's modules from their source files, also where compiled ones are installed."""
    if _SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, _SourceFinder)


def loads_compiled() -> bool:
    """Does this installation run compiled modules? The answer loads none of them."""
    gate = os.path.join(os.path.dirname(__file__), "core", "gate")
    return _SourceFinder not in sys.meta_path and any(os.path.exists(gate + suffix) for suffix in EXTENSION_SUFFIXES)
