"""The parsers that are fuzzed. Each is a module with `read`, which takes any bytes, and `seeds`, real inputs by name.

`read` raises nothing: the errors that a parser may raise are caught there, and every other one is a fault. It returns
what the parser said, which stands for coverage where a parser is written in C.
"""

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

CORPUS = Path(__file__).parent / "corpus"

#: By name: the packages and modules whose coverage leads the fuzzer.
PARSERS: dict[str, tuple[str, ...]] = {
    "wire": ("antecede.wire", "antecede.core", "antecede.client"),
    "blocks": ("antecede.journal",),
    "roster": ("antecede.node.roster", "antecede.node.directory", "antecede.wire.address"),
    "config": ("antecede.node.config", "antecede.wire.address", "antecede.overlay", "tomllib"),
    "mqtt": ("antecede.wire.mqtt", "antecede.wire.topics"),
    "http": ("antecede.node.http", "h11"),
    "parquet": ("antecede.trace", "antecede.audit"),
}


def load(name: str) -> ModuleType:
    """The module of a parser."""
    return import_module(f"tests.fuzz.{name}")


def kind_of(error: Exception) -> str:
    """An error's text without what differs from input to input: numbers, quoted values, names of files."""
    return re.sub(r"[0-9]+|'[^']*'|\"[^\"]*\"|/\S*|\\x\S*", "", str(error))[:200]
