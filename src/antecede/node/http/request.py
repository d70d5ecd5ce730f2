"""One HTTP request, taken apart."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

import h11

from antecede.core import UsageError

#: Fields of a query.
_QUERY_MAX: Final = 128


class Request(NamedTuple):
    """The head of a request, and its body once that is complete."""

    method: str
    #: The path, still encoded, and what follows the question mark.
    path: str
    query: str
    #: By name in lower case. A name that is there twice has its last value.
    headers: Mapping[bytes, bytes]
    body: bytes = b""

    @classmethod
    def of(cls, event: h11.Request) -> "Request":
        path, _, query = event.target.decode("ascii", "replace").partition("?")
        return cls(event.method.decode("ascii"), path, query, dict(event.headers))

    def header(self, name: str) -> str | None:
        """A header as text. Raises `UsageError` if it is not UTF-8."""
        found = self.headers.get(name.lower().encode())
        if found is None:
            return None
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise UsageError(name, found.decode("latin-1"), "is not UTF-8", "encode the header as UTF-8") from None

    def below(self, prefix: str, suffix: str = "") -> str:
        """The part of the path between `prefix` and `suffix`, decoded."""
        return decoded("path", self.path[len(prefix) : len(self.path) - len(suffix)])

    def values(self, allowed: tuple[str, ...]) -> dict[str, list[str]]:
        """The query's values by field. `+` is itself, as in a topic filter; a space is %20."""
        found: dict[str, list[str]] = {}
        pairs = self.query.split("&", _QUERY_MAX) if self.query else []
        if len(pairs) > _QUERY_MAX:
            raise UsageError("query", self.query[:100], "has too many fields", f"use up to {_QUERY_MAX}")
        for pair in pairs:
            name, _, value = pair.partition("=")
            if name not in allowed:
                raise UsageError("query", name, "is not a field of this request", f"use {', '.join(allowed)}")
            found.setdefault(name, []).append(decoded(name, value))
        return found


def decoded(field: str, text: str) -> str:
    """Percent-encoded UTF-8. Raises `UsageError`."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise UsageError(field, text, "is not UTF-8", "encode it as UTF-8, then by percent signs") from None
