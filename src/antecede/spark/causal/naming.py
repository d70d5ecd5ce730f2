"""Checks which columns of a stream or table name messages and dependencies, before anything runs.

A message is named by `key` (the scope of the order: a topic, a room, a document), `source` (the publisher that counts)
and `seq` (its number, without holes for each source of a key). `deps` names what must come before it, beside the
previous message of its source: an array of structs with a field for each `source` column and one for `seq`, of the same
names. If the struct also has fields named like the `key`, entries of other keys are left out: order is kept within a
key.
"""

from collections.abc import Sequence

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    VariantType,
)

from antecede.core import UsageError

_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_NAMES = (*_INTEGERS, StringType, BinaryType)


class Naming(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a message's name and dependencies."""

    key: tuple[str, ...]
    source: tuple[str, ...]
    seq: str
    deps: str | None
    #: The first number of each source.
    first: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that decide the order."""
        return (*self.key, *self.source, self.seq, *([self.deps] if self.deps else []))


def make_naming(
    schema: StructType, *, key: str | Sequence[str], source: str | Sequence[str], seq: str, deps: str | None, first: int
) -> Naming:
    """Make the naming of these arguments. Raises `UsageError` if `schema` does not fit it."""
    naming = Naming(
        key=_names("key", key), source=_names("source", source), seq=_name("seq", seq), deps=deps, first=first
    )
    if not naming.source:
        raise UsageError("source", source, "names no column", "name the column that tells publishers apart")
    if isinstance(first, bool) or not isinstance(first, int):
        raise UsageError("first", first, "is not a whole number", "give the number each source begins with: 0 or 1")
    chosen = naming.columns
    for column in chosen:
        if chosen.count(column) > 1 and not (column in naming.key and column in naming.source):
            raise UsageError("columns", column, "is named twice", "give each role a column of its own")
    for column in naming.key:
        kind = _type(schema, "key", column)
        if isinstance(kind, MapType | VariantType):
            raise UsageError("key", column, f"is of type {kind.simpleString()}", "Spark groups by anything but those")
    for column in naming.source:
        _check_type("source", column, _type(schema, "source", column), _NAMES, "a string, binary or integer column")
    _check_type("seq", seq, _type(schema, "seq", seq), _INTEGERS, "an integer column")
    if deps is not None:
        _check_deps(schema, naming, _type(schema, "deps", deps))
    return naming


def check_free(schema: StructType, argument: str, column: str) -> None:
    """Refuse the name of a column to be added if there is one already."""
    if column.casefold() in (name.casefold() for name in schema.names):
        raise UsageError(argument, column, "is a column already", f"choose another name with {argument}=…")


def _check_deps(schema: StructType, naming: Naming, kind: DataType) -> None:
    fields = [*naming.source, naming.seq]
    inside = ", ".join(f"{name}: {schema[name].dataType.simpleString()}" for name in fields)
    wanted = f"array<struct<{inside}>>"
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        raise UsageError("deps", naming.deps, f"is {kind.simpleString()}", f"it must be {wanted}")
    for name in fields:
        if name not in kind.elementType.names:
            raise UsageError("deps", naming.deps, f"its entries have no field {name!r}", f"it must be {wanted}")
        mine, theirs = schema[name].dataType, kind.elementType[name].dataType
        both_integers = isinstance(mine, _INTEGERS) and isinstance(theirs, _INTEGERS)
        if mine != theirs and not both_integers:
            problem = f"its field {name!r} is {theirs.simpleString()}, the column {name!r} {mine.simpleString()}"
            raise UsageError("deps", naming.deps, problem, f"it must be {wanted}")


def _check_type(argument: str, column: str, kind: DataType, allowed: tuple[type, ...], wanted: str) -> None:
    if not isinstance(kind, allowed):
        raise UsageError(argument, column, f"is of type {kind.simpleString()}", f"name {wanted}")


def _type(schema: StructType, argument: str, column: str) -> DataType:
    if column not in schema.names:
        raise UsageError(argument, column, "there is no such column", f"there are {', '.join(schema.names)}")
    return schema[column].dataType


def _name(argument: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(argument, value, "is not the name of a column", "give it as a string")
    return value


def _names(argument: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_name(argument, value),)
    if not isinstance(value, Sequence):
        raise UsageError(argument, value, "is not the name of a column", "give a string, or a list of them")
    return tuple(_name(argument, one) for one in value)
