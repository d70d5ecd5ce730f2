"""Fingerprints of objects: two objects with equal fingerprints hold the same values, whatever their addresses are.

The explorer asks whether a process came into a state in which it was before. A process is a graph of objects, dicts,
sets and bound methods, and no protocol writes code for this: the walk below reads attributes. It reads everything,
closures included, and refuses a type it cannot read, so that no part of a state is left out silently.

Dicts count with the order of their keys, because a process may iterate over them. Sets count without an order: a
process that let the order of a set decide anything would not be deterministic.
"""

import enum
import functools
import random
import types
from collections import deque
from hashlib import blake2b
from typing import Any, Final

import msgspec

_PLAIN: Final = frozenset([int, str, bytes, bool, float, type(None)])
_NAMED: Final = (types.BuiltinFunctionType, type, functools._lru_cache_wrapper, types.WrapperDescriptorType)
#: They tell what they walk over and where they are.
_ITERATORS: Final[tuple[type, ...]] = (type(iter(())), type(iter([])))


def fingerprint(*values: object) -> bytes:
    """16 bytes that stand for `values`."""
    walk = _Walk()
    for value in values:
        walk.add(value)
    return blake2b(repr(walk.found).encode(), digest_size=16).digest()


class _Walk:
    """One walk. An object that is met again counts as a reference to where it was met first."""

    def __init__(self) -> None:
        self.found: list[object] = []
        self._met: dict[int, int] = {}
        #: An address must not be used again while the walk lasts.
        self._alive: list[object] = []

    def add(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self.found.append(value)
        elif kind is tuple or kind is list or kind is deque:
            self._sequence(kind, value)
        elif kind is dict:
            self._dict(value)
        elif kind is set or kind is frozenset:
            self._set(value)
        elif isinstance(value, enum.Enum):
            self.found.append(str(value))
        elif isinstance(value, tuple):
            self._sequence(kind, value)
        elif isinstance(value, _NAMED):
            self._named(value)
        elif id(value) in self._met:
            self.found.append(("met", self._met[id(value)]))
        else:
            self._met[id(value)] = len(self._met)
            self._alive.append(value)
            self._object(kind, value)

    def _sequence(self, kind: type, values: Any) -> None:
        self.found.append((kind.__name__, len(values)))
        for value in values:
            self.add(value)

    def _set(self, values: Any) -> None:
        kinds = set(map(type, values))
        alike = len(kinds) == 1 and not kinds.isdisjoint((int, str))
        self.found.append(("set", sorted(values) if alike else sorted(map(fingerprint, values))))

    def _dict(self, values: dict[Any, Any]) -> None:
        if values and all(type(key) is int and key == id(value) for key, value in values.items()):
            self._sequence(list, values.values())  # by address: an identity map, whose keys say nothing
            return
        self.found.append(("dict", len(values)))
        for key, value in values.items():
            self.add(key)
            self.add(value)

    def _named(self, value: Any) -> None:
        self.found.append((value.__module__, value.__qualname__))
        if getattr(value, "__self__", None) is not None and not isinstance(value.__self__, types.ModuleType):
            self.add(value.__self__)

    def _object(self, kind: type, value: Any) -> None:
        self.found.append(kind.__qualname__)
        if isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                self.add(getattr(value, name))
        elif isinstance(value, types.MethodType):
            self.found.append(value.__func__.__qualname__)
            self.add(value.__self__)
        elif isinstance(value, types.FunctionType):
            self.found.append((value.__module__, value.__qualname__))
            for cell in value.__closure__ or ():
                self.add(cell.cell_contents)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self.add(part)
        elif isinstance(value, _ITERATORS):
            self.add(value.__reduce__()[1:])  # what it walks over, and where it is
        elif isinstance(value, random.Random):
            self.add(value.getstate())
        else:
            self._attributes(kind, value)

    def _attributes(self, kind: type, value: Any) -> None:
        if isinstance(value, dict):  # Counter, OrderedDict, defaultdict
            self._dict(value)
        elif isinstance(value, list | deque | set | frozenset):
            (self._set if isinstance(value, set | frozenset) else functools.partial(self._sequence, list))(value)
        names = [name for base in kind.__mro__ for name in slots_of(base)]
        own = getattr(value, "__dict__", None)
        if own is None and not names and kind.__flags__ & _HEAP == 0:
            raise TypeError(
                f"{kind.__module__}.{kind.__qualname__}: a fingerprint cannot read this type; teach it here"
            )
        for name in names:
            if hasattr(value, name):
                self.found.append(name)
                self.add(getattr(value, name))
        for name in sorted(own or ()):
            self.found.append(name)
            self.add(getattr(value, name))


#: Set for classes written in Python; a built-in type without attributes that we do not know is refused.
_HEAP: Final = 1 << 9


@functools.cache
def slots_of(kind: type) -> tuple[str, ...]:
    """The attributes that instances have through this class: its slots, or those of a compiled class."""
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    compiled = tuple(kind.__dict__.get("__mypyc_attrs__", ()))
    return tuple(name for name in dict.fromkeys(names + compiled) if name not in ("__dict__", "__weakref__"))
