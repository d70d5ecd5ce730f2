"""Which web pages may use a node. A page of another site must not publish with the access of the person who opened it.

A browser names the site of a page in `Origin`. Pages that the node itself serves may do what their reader may; others
only if the setting `http_origins` names them. Programs that are no browsers send no `Origin`.

On a node without tokens, `Host` must name this machine, too. Else a site could let its own name lead to 127.0.0.1, and
its pages would count as the node's own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from antecede.core import UsageError
from antecede.wire.address import is_loopback

#: What pages of other sites may send and read.
_ALLOWED_HEADERS: Final = (
    "Authorization, Content-Type, Last-Event-ID, Antecede-After, Antecede-Durability, Antecede-Timeout"
)


def check_origins(origins: Sequence[str]) -> None:
    """Check the setting `http_origins`. Raises `UsageError`."""
    for origin in origins:
        parts = urlsplit(origin)
        plain = parts.scheme in ("http", "https") and origin == f"{parts.scheme}://{parts.netloc}" and parts.hostname
        if origin != "*" and not plain:
            raise UsageError("http_origins", origin, "is not the origin of a page", 'write "https://host:port", or "*"')


class Origins:
    """Judges requests by the site whose page makes them."""

    def __init__(self, allowed: Sequence[str], *, tokens: bool, ports: Callable[[], Collection[int]]) -> None:
        """`tokens`: does the node ask for tokens? `ports`: those at which the node serves pages."""
        self._allowed = frozenset(allowed)
        self._tokens = tokens
        self._ports = ports

    def problem(self, headers: Mapping[bytes, bytes]) -> UsageError | None:
        """Why a request is refused; None: it is not."""
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._tokens and not _names_this_machine(host):
            problem = "does not name this machine, and the node asks for no tokens"
            return UsageError("Host", host, problem, "use localhost or 127.0.0.1, or give the node tokens")
        origin = headers.get(b"origin")
        if origin is None or self.allows(origin):
            return None
        text = origin.decode("latin-1")
        if self._is_own(text.partition("://")[2].lower(), host.lower()):
            return None
        return UsageError("Origin", text, "pages of this site may not use the node", "add it to http_origins")

    def _is_own(self, site: str, host: str) -> bool:
        """Is the page at `site` one of this node's, which was asked as `host`?"""
        if not host or site == host:
            return bool(host)
        try:
            one, other = urlsplit(f"//{site}"), urlsplit(f"//{host}")
            return one.hostname == other.hostname and one.port in self._ports()
        except ValueError:
            return False

    def allows(self, origin: bytes) -> bool:
        """Does the setting name this site?"""
        return "*" in self._allowed or origin.decode("latin-1") in self._allowed

    def headers(self, headers: Mapping[bytes, bytes]) -> tuple[tuple[str, str], ...]:
        """What an answer says to the browser."""
        if not self._allowed:
            return ()
        origin = headers.get(b"origin")
        if origin is None or not self.allows(origin):
            return (("Vary", "Origin"),)
        exposed = ("Access-Control-Expose-Headers", "Retry-After")
        return (("Vary", "Origin"), ("Access-Control-Allow-Origin", origin.decode("latin-1")), exposed)

    def preflight(self, methods: str) -> tuple[tuple[str, str], ...]:
        """What the answer to a browser that asks first says beside `headers`."""
        return (
            ("Access-Control-Allow-Methods", methods),
            ("Access-Control-Allow-Headers", _ALLOWED_HEADERS),
            ("Access-Control-Max-Age", "600"),
        )


def _names_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)
