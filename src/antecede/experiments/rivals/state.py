"""How much a protocol keeps in memory, counted in the same way for all: entries of its state (no experiment).

An entry is an element of a dict, list, set or deque of a process: a counter of a clock, the name of a message, a
message held or stored, an acknowledgement awaited. The dependencies and vectors inside a stored message or packet count
as well, one entry each. What a process has before the first message is subtracted: its members, routes and settings. So
is what several processes share, which is the simulator's economy. Bytes of the Python process are not measured: they
depend on the interpreter.

Processes are looked at at fixed times (`LOOKS`). Looks change nothing, and equal seeds give equal figures.
"""

import random
import types
from collections import deque
from typing import Any, Final

import msgspec

from antecede.core import Process
from antecede.search.exhaustive.fingerprint import slots_of
from antecede.sim.engine import Simulation
from antecede.sim.units import ticks

#: When processes are looked at, in u.t.: often while messages are published, now and then while losses are mended.
LOOKS: Final = (*range(200, 6000, 200), *range(6000, 30_001, 3000))

_PLAIN: Final = frozenset([int, str, bytes, bool, float, type(None)])
_NO_STATE: Final = (random.Random, type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


class StateSampler:
    """Looks at all processes of a run again and again."""

    def __init__(self) -> None:
        #: The most entries that all nodes had together at one look, for each node; and the most of one node.
        self.mean_max = 0.0
        self.node_max = 0

    def schedule(self, simulation: Simulation) -> None:
        """Call before the run."""
        processes = simulation.processes
        met: dict[int, set[int]] = {node: set() for node in processes}
        for node, process in processes.items():
            entries(process, frozenset(), met[node])
        owners: dict[int, int] = {}
        for found in met.values():
            for address in found:
                owners[address] = owners.get(address, 0) + 1
        shared = frozenset([address for address, count in owners.items() if count > 1])
        at_first = {node: entries(process, shared) for node, process in processes.items()}

        def look() -> None:
            counts = [max(0, entries(process, shared) - at_first[node]) for node, process in processes.items()]
            self.mean_max = max(self.mean_max, sum(counts) / max(1, len(counts)))
            self.node_max = max(self.node_max, *counts)

        for time in LOOKS:
            simulation.at(ticks(time), look)


def entries(process: Process, shared: frozenset[int], met: set[int] | None = None) -> int:
    """The entries reachable from `process`, without the objects in `shared`. `met` gets the addresses of the others."""
    found = 0
    met = set() if met is None else met
    alive: list[object] = []  # an address must not be used again while the walk lasts
    todo: list[Any] = [process]
    while todo:
        value = todo.pop()
        kind = type(value)
        if kind in _PLAIN or id(value) in met or id(value) in shared:
            continue
        alive.append(value)
        if isinstance(value, tuple):
            todo += value
            continue
        if isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                field = getattr(value, name)
                found += len(field) if isinstance(field, tuple) else 0
                todo.append(field)
            continue
        if isinstance(value, _NO_STATE):
            continue
        met.add(id(value))
        if isinstance(value, dict):
            found += len(value)
            todo += value.values()
        elif isinstance(value, list | deque):
            found += len(value)
            todo += value
        elif isinstance(value, set | frozenset):
            found += len(value)
        else:
            todo += _attributes(kind, value)
    return found


def _attributes(kind: type, value: object) -> list[object]:
    names = {name for base in kind.__mro__ for name in slots_of(base)} | {*getattr(value, "__dict__", ())}
    return [getattr(value, name) for name in sorted(names) if name != "out" and hasattr(value, name)]
