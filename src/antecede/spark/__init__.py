"""The pipeline: sweeps of runs, their audit and their metrics, as Spark jobs; and topics as tables.

Names are loaded when they are first used, since most of this package is for commands that need little of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antecede.spark.topics.format import register

_WHERE = {
    "register": "topics.format",
}

__all__ = ["register"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'antecede.spark' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"antecede.spark.{_WHERE[name]}"), name)
    return value
