"""Checks which columns of a stream or table name messages and dependencies, before anything runs.

A message is named by `key` (the scope of the order: a topic, a room, a document), `source` (the publisher that counts)
and `seq` (its number, without holes for each source of a key). `deps` names what must come before it, beside the
previous message of its source: an array of structs with a field for each `source` column and one for `seq`, of the same
names. If the struct also has fields named like the `key`, entries of other keys are left out: order is kept within a
key.

Or a message is named by `id` alone, and `parents` is an array of the ids that must come before it. An id is then a
source that has one message, number 1.
"""

from collections.abc import Sequence
from typing import Any

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
    #: `source` is the id, `deps` the parents; `seq` is not used.
    by_id: bool = False

    @property
    def name(self) -> tuple[str, ...]:
        """The columns that name a message within its key."""
        return self.source if self.by_id else (*self.source, self.seq)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that decide the order."""
        return (*self.key, *self.name, *([self.deps] if self.deps else []))

    def text(self, stream: Any, n: int) -> str:
        """A message's name as people read it."""
        parts = [one.hex() if isinstance(one, bytes) else str(one) for one in _tuple(stream)]
        return ".".join(parts if self.by_id else [*parts, str(n + self.first - 1)])


def _tuple(stream: Any) -> tuple[Any, ...]:
    return stream if isinstance(stream, tuple) else (stream,)


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
    _check_roles(schema, naming)
    for column in naming.source:
        _check_type("source", column, _type(schema, "source", column), _NAMES, "a string, binary or integer column")
    _check_type("seq", seq, _type(schema, "seq", seq), _INTEGERS, "an integer column")
    if deps is not None:
        _check_deps(schema, naming, _type(schema, "deps", deps))
    return naming


def make_id_naming(schema: StructType, *, key: str | Sequence[str], id: str, parents: str | None) -> Naming:
    """Make the naming of messages with ids. Raises `UsageError` if `schema` does not fit it."""
    if parents is None:
        raise UsageError("parents", None, "is not given", "name the array of the ids that come before a row")
    naming = Naming(
        key=_names("key", key), source=(_name("id", id),), seq="", deps=_name("parents", parents), first=1, by_id=True
    )
    _check_roles(schema, naming)
    mine, theirs = _type(schema, "id", id), _type(schema, "parents", parents)
    _check_type("id", id, mine, _NAMES, "a string, binary or integer column")
    inside = theirs.elementType if isinstance(theirs, ArrayType) else None
    if inside != mine and not (isinstance(mine, _INTEGERS) and isinstance(inside, _INTEGERS)):
        wanted = f"it must be array<{mine.simpleString()}>, as the column {id!r}"
        raise UsageError("parents", parents, f"is {theirs.simpleString()}", wanted)
    return naming


def choose_naming(
    schema: StructType,
    *,
    key: str | Sequence[str],
    id: str | None,
    parents: str | None,
    source: str | Sequence[str],
    seq: str,
    deps: str | None,
    first: int,
) -> Naming:
    """Make the naming by `id` and `parents` if they are given, otherwise by `source`, `seq` and `deps`."""
    if id is not None:
        return make_id_naming(schema, key=key, id=id, parents=parents)
    if parents is not None:
        raise UsageError("parents", parents, "is given without id", "name the column of ids too, or use deps")
    return make_naming(schema, key=key, source=source, seq=seq, deps=deps, first=first)


def _check_roles(schema: StructType, naming: Naming) -> None:
    chosen = naming.columns
    for column in chosen:
        if chosen.count(column) > 1 and not (column in naming.key and column in naming.source):
            raise UsageError("columns", column, "is named twice", "give each role a column of its own")
    for column in naming.key:
        kind = _type(schema, "key", column)
        if isinstance(kind, MapType | VariantType):
            raise UsageError("key", column, f"is of type {kind.simpleString()}", "Spark groups by anything but those")


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
