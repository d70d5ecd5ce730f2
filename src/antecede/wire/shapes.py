"""The shapes of records, as text that two nodes of different versions can compare.

Records travel as arrays without field names, so both ends must agree on what stands where. A later version may append
optional fields to a record: its predecessor ignores them, and where they are missing their defaults hold. Everything
else (another required field, another type or order, another set of records) is a mismatch, told by the record's name.

The shape of a record is its fields in order, required ones before the bar, optional ones behind it:

    vps.have    topic:str,source:int,done:int|high:int

A record without a tag stands under the path that leads to it: `bundle/messages`.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import inspect as mi

#: By tag, or by the path that leads to a record without one.
Shapes: TypeAlias = dict[str, str]

_SCALARS: dict[type[mi.Type], str] = {
    mi.IntType: "int",
    mi.StrType: "str",
    mi.BytesType: "bytes",
    mi.BoolType: "bool",
    mi.FloatType: "float",
    mi.NoneType: "null",
    mi.AnyType: "any",
    mi.RawType: "any",
}


def shapes_of(types: Sequence[type[msgspec.Struct]]) -> Shapes:
    """The shapes of tagged record types, and of the records inside them."""
    shapes: Shapes = {}
    for kind in types:
        info = mi.type_info(kind)
        assert isinstance(info, mi.StructType)
        _add(shapes, str(info.tag), info)
    return shapes


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """Why records of these shapes cannot be exchanged, by the name of the first that differs; None: they can."""
    for mine, other, who in ((ours, theirs, "they do not know"), (theirs, ours, "we do not know")):
        unknown = next((tag for tag in sorted(mine) if "/" not in tag and tag not in other), None)
        if unknown is not None:
            return f"record {unknown!r}: {who} it"
    for name in sorted(ours.keys() & theirs.keys()):
        if not _fits(ours[name], theirs[name]):
            return f"record {name!r}: we take ({ours[name]}), they send ({theirs[name]})"
    return None


def _fits(one: str, other: str) -> bool:
    """Are the required fields the same, and do the optional ones of one side begin with those of the other?"""
    (required, _, optional), (others_required, _, others_optional) = one.partition("|"), other.partition("|")
    shorter, longer = sorted([optional, others_optional], key=len)
    return required == others_required and (shorter in ("", longer) or longer.startswith(f"{shorter},"))


def _add(shapes: Shapes, name: str, info: mi.StructType | mi.NamedTupleType) -> None:
    fields: tuple[list[str], list[str]] = [], []
    for field in info.fields:
        fields[not field.required].append(f"{field.name}:{_text(shapes, f'{name}/{field.name}', field.type)}")
    shapes[name] = "|".join(",".join(some) for some in fields)


def _text(shapes: Shapes, path: str, info: mi.Type) -> str:
    """A type in a few letters. Records in it are entered under `path`."""
    match info:
        case mi.StructType() | mi.NamedTupleType():
            tag = info.tag if isinstance(info, mi.StructType) else None
            if tag is None or str(tag) not in shapes:
                _add(shapes, path if tag is None else str(tag), info)
            return "record" if tag is None else str(tag)
        case mi.VarTupleType() | mi.ListType():
            text = f"[{_text(shapes, path, info.item_type)}]"
        case mi.TupleType():
            text = f"({' '.join(_text(shapes, path, one) for one in info.item_types)})"
        case mi.DictType():
            text = f"{{{_text(shapes, path, info.key_type)} {_text(shapes, path, info.value_type)}}}"
        case mi.UnionType():
            text = "/".join(_text(shapes, path, one) for one in info.types)
        case mi.LiteralType():
            text = "/".join(map(repr, info.values))
        case _:
            text = _SCALARS[type(info)]
    return text
