"""Choices written as text: `name` or `name:key=value,key=value`, checked against a typed record.

Networks, workloads, faults and protocol options are all such records, so the command line, a sweep's grid and a file
speak one language, and a mistake is answered with what there is to choose from.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from antecede.core.errors import UsageError


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything that can be chosen by name. Its fields are the keys, their defaults the usual values."""


C = TypeVar("C", bound=Choice)


def parse(what: str, text: str, choices: Mapping[str, type[C]]) -> C:
    """The record `text` describes, for instance ``normal:mean=100,sd=25``."""
    name, _, rest = text.partition(":")
    chosen = choices.get(name)
    if chosen is None:
        raise UsageError(what, name, "is not known", f"choose one of {', '.join(sorted(choices))}")
    values: dict[str, str] = {}
    for pair in rest.split(",") if rest else ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(what, text, f"{pair!r} is not key=value", f"write for example {example(name, chosen)}")
        values[key.strip()] = value.strip()
    return convert(what, text, values, name, chosen)


def convert(what: str, text: str, values: Mapping[str, object], name: str, chosen: type[C]) -> C:
    """`values` as a record of type `chosen`, or an error that names the key."""
    try:
        return msgspec.convert(values, chosen, strict=False)
    except msgspec.ValidationError as error:
        keys = ", ".join(chosen.__struct_fields__) or "none"
        raise UsageError(what, text, f"{error}", f"the keys of {name} are: {keys}") from None


def example(name: str, chosen: type[Choice]) -> str:
    """A choice with its usual values, as one would write it."""
    pairs = ",".join(
        f"{field.name}={_plain(field.default)}" for field in msgspec.structs.fields(chosen) if not field.required
    )
    return f"{name}:{pairs}" if pairs else name


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
