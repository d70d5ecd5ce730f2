"""Random packets of any type, within the bounds their fields declare: found by asking msgspec, so none is forgotten."""

import importlib
import pkgutil
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as mi

import antecede.protocols
from antecede.core import Packet


def packet_types(prefix: str = "") -> list[type[Packet]]:
    """Every tagged packet type of the package's protocols (of those whose module begins with `prefix`)."""
    for module in pkgutil.walk_packages(antecede.protocols.__path__, "antecede.protocols."):
        importlib.import_module(module.name)
    found: list[type[Packet]] = []
    todo: list[type[Packet]] = [Packet]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.__struct_config__.tag is not None and kind.__module__.startswith(f"antecede.protocols.{prefix}"):
            found.append(kind)
    return sorted(found, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


def instances(kind: type) -> st.SearchStrategy[Any]:
    """Records of `kind` that a strict decoder accepts."""
    return _of(mi.type_info(kind))


def _of(info: mi.Type) -> st.SearchStrategy[Any]:  # noqa: PLR0911, PLR0912 - a table of types
    match info:
        case mi.StructType() | mi.NamedTupleType():
            return st.builds(info.cls, **{field.name: _of(field.type) for field in info.fields})
        case mi.IntType():
            low = info.ge if info.ge is not None else -(2**63) if info.gt is None else info.gt + 1
            high = info.le if info.le is not None else 2**63 - 1 if info.lt is None else info.lt - 1
            return st.integers(low, high) | st.integers(low, min(high, low + 100))
        case mi.StrType():
            return st.text(min_size=info.min_length or 0, max_size=min(info.max_length or 20, 20))
        case mi.BytesType():
            return st.binary(max_size=100)
        case mi.BoolType():
            return st.booleans()
        case mi.FloatType():
            return st.floats(allow_nan=False)
        case mi.NoneType():
            return st.none()
        case mi.LiteralType():
            return st.sampled_from(info.values)
        case mi.TupleType():
            return st.tuples(*(_of(item) for item in info.item_types))
        case mi.VarTupleType():
            return st.lists(_of(info.item_type), min_size=info.min_length or 0, max_size=4).map(tuple)
        case mi.ListType():
            return st.lists(_of(info.item_type), min_size=info.min_length or 0, max_size=4)
        case mi.DictType():
            return st.dictionaries(_of(info.key_type), _of(info.value_type), max_size=4)
        case mi.UnionType():
            return st.one_of([_of(one) for one in info.types])
    raise NotImplementedError(f"no strategy for {info}")


def forged(*values: object) -> bytes:
    """A body with one record of these values, whatever they are."""
    return msgspec.msgpack.encode([list(values)])
