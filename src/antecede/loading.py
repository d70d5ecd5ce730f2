"""Loads a package's names when they are first used, and names the extra that a missing library belongs to.

`pip install antecede` brings a client and a node. The simulator, the reports and Spark need libraries that are
extras (`antecede[lab]`, `antecede[spark]`, `antecede[nats]`). Code that needs an extra calls `need_extra` first, so
that a user without it reads one line with the pip command and no traceback.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
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
