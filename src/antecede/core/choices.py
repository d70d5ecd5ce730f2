"""Parses choices written as `name` or `name:key=value,key=value` into typed records.

Networks, workloads, faults and protocol options are such records. The command line, a sweep's grid and a file therefore
use one notation, and an error lists the valid names or keys.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from antecede.core.errors import UsageError


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the records that can be chosen by name. Fields are the keys; their defaults are the usual values."""


C = TypeVar("C", bound=Choice)


def parse(what: str, text: str, choices: Mapping[str, type[C]]) -> C:
    """Parse `text`, for instance ``normal:mean=100,sd=25``, into the record of that name."""
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
    """Convert `values` to a record of type `chosen`. The error names the wrong key."""
    try:
        return msgspec.convert(values, chosen, strict=False)
    except msgspec.ValidationError as error:
        keys = ", ".join(chosen.__struct_fields__) or "none"
        raise UsageError(what, text, f"{error}", f"the keys of {name} are: {keys}") from None


def example(name: str, chosen: type[Choice]) -> str:
    """The choice as text, with its default values."""
    pairs = ",".join(
        f"{field.name}={_plain(field.default)}" for field in msgspec.structs.fields(chosen) if not field.required
    )
    return f"{name}:{pairs}" if pairs else name


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
