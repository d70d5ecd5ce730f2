"""A node over HTTP: `GET /` is a page to look at, `/health` 200 or 503, `/metrics` Prometheus text, `/status` JSON.

It is for people and monitors, tells no payloads and changes nothing. HTTP is parsed by h11. A connection carries one
request and is closed after the answer.

On loopback it is plain and open. Elsewhere it is HTTPS with the node's certificate, and everything but `/health` asks
for a token that may ask for the status. Monitors send it as a bearer token; a browser asks for a name and a password,
and the password is the token (`Authorization: Basic`).

Every cost of a stranger is bounded: bytes of a request's head, seconds until it is complete and its answer taken, and
the number of connections. At that number a newcomer takes the place of the connection that has been open longest
without a request: idle sockets cannot keep a monitor from its answer.
"""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

import h11
import msgspec

from antecede.core import UsageError
from antecede.core.errors import RefusedError
from antecede.node.metrics import CONTENT_TYPE, metrics
from antecede.node.status import problems
from antecede.wire.accepting import Acceptor, connections_within_limit
from antecede.wire.address import is_loopback, join_address
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.node import Node

#: Bytes of a request line and its headers. Browsers send less than one kilobyte.
_HEAD_BYTES_MAX: Final = 8192
#: From the first byte of a connection to the last of its answer.
_CONNECTION_S: Final = 5.0
#: Connections at one time: a page, some monitors, and strangers.
_CONNECTIONS_MAX: Final = 64

_HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
)

#: How a request must show its token: as a bearer token, or as a password, for which browsers ask by themselves.
_ASK_FOR_TOKEN: Final = (
    ("WWW-Authenticate", 'Basic realm="antecede", charset="UTF-8"'),
    ("WWW-Authenticate", "Bearer"),
)

_PAGES: Final = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}


class Answer(NamedTuple):
    """What a request is answered with."""

    status: int
    body: str
    kind: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class HttpServer:
    """Answers for one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._acceptor = Acceptor(lambda host: _Connection(self))
        self._connections_max = _CONNECTIONS_MAX
        #: Those without a complete request, the one open longest first; and those that are being answered.
        self._idle: dict[_Connection, None] = {}
        self._answering: set[_Connection] = set()
        self.port = 0
        self._host = ""
        #: Is it HTTPS, with a token?
        self._guarded = False

    @property
    def url(self) -> str:
        return f"{'https' if self._guarded else 'http'}://{join_address(self._host, self.port)}/"

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What new connections are secured with; None: they are plain."""
        tls = self._node.credentials.tls
        return tls.server if self._guarded and tls is not None else None

    async def start(self, host: str, port: int) -> None:
        self._host, self._guarded = host, not is_loopback(host)
        try:
            self.port = await self._acceptor.start(host, port)
        except OSError as error:
            problem = f"cannot be listened on at {host} ({error})"
            raise UsageError("http_port", port, problem, "choose another, or 0 for any that is free") from None
        # Most of the descriptors that the process may open are for clients and links.
        self._connections_max = max(1, min(_CONNECTIONS_MAX, connections_within_limit(1 << 16) // 8))

    def abort(self) -> None:
        """Close every connection, and listen no more."""
        self._acceptor.close()
        for connection in [*self._idle, *self._answering]:
            connection.abort()

    # -- what connections tell -----------------------------------------------------------------------------------------

    def opened(self, connection: "_Connection") -> bool:
        """True: there is room for it."""
        if len(self._idle) + len(self._answering) >= self._connections_max:
            oldest = next(iter(self._idle), None)
            if oldest is None:
                return False
            oldest.abort()
            self.closed(oldest)
        self._idle[connection] = None
        return True

    def closed(self, connection: "_Connection") -> None:
        self._idle.pop(connection, None)
        self._answering.discard(connection)

    def refused(self, connection: "_Connection", reason: Reason, detail: str) -> None:
        self._node.listener.admission.refused(connection.host, reason, f"HTTP: {detail}")

    def answer(self, connection: "_Connection", method: str, target: str, headers: Mapping[bytes, bytes]) -> Answer:
        self._idle.pop(connection, None)
        self._answering.add(connection)
        if method not in ("GET", "HEAD"):
            return Answer(405, "only GET is answered\n")
        path = target.partition("?")[0]
        problem = self._check_token(connection, headers) if self._guarded and path != "/health" else None
        if problem is not None:
            return problem
        if path in _PAGES:
            name, kind = _PAGES[path]
            return Answer(200, _read(name), kind)
        tell = _TELLS.get(path)
        if tell is None:
            return Answer(404, "there are /, /health, /metrics and /status\n")
        return tell(self._node)

    def _check_token(self, connection: "_Connection", headers: Mapping[bytes, bytes]) -> Answer | None:
        """Why a request without a good token is not answered; None: it is."""
        token = _token(headers.get(b"authorization", b""))
        try:
            if token is None:
                raise RefusedError(connection.host, Reason.UNTRUSTED, "no token was shown")
            grants = self._node.credentials.grants_of(token, connection.host)
        except RefusedError as error:
            self.refused(connection, Reason.UNTRUSTED, error.detail)
            remedy = "send it as a bearer token, or as the password of any name"
            return Answer(401, f"a token is needed: {error.detail}; {remedy}\n", headers=_ASK_FOR_TOKEN)
        if not grants.may_ask:
            return Answer(403, f"the token of {grants.name!r} may not ask for the status; make one with --status\n")
        return None


class _Connection(asyncio.Protocol):
    """One connection: reads one request, writes one answer, closes."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._securing: asyncio.Task[None] | None = None
        #: Bytes that arrived before the TLS handshake was complete.
        self._early = bytearray()
        self.host = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.host = str((transport.get_extra_info("peername") or ("?",))[0])
        if not self._server.opened(self):
            self.abort()
            return
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(_CONNECTION_S, self.abort)
        context = self._server.tls
        if context is not None:
            transport.pause_reading()  # the next bytes belong to the TLS handshake
            self._securing = loop.create_task(self._secure(transport, context))

    async def _secure(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=_CONNECTION_S
            )
            if secured is None:
                raise ConnectionResetError("the connection closed during the TLS handshake")
        except (OSError, ssl.CertificateError) as error:
            self._server.refused(self, Reason.TLS, str(error) or type(error).__name__)
            transport.abort()
            self.connection_lost(None)  # asyncio does not report the end of a connection whose TLS never began
            return
        self._transport, self._securing = secured, None
        data = bytes(self._early)
        if data:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self._securing is not None:
            self._early += data
            return
        if self._http.our_state is not h11.IDLE:
            return  # the answer is on its way; nothing else is
        self._http.receive_data(data)
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._respond(Answer(error.error_status_hint, f"not a request: {error}\n"), bodiless=False)
            return
        if isinstance(event, h11.Request):
            method, target = event.method.decode("ascii"), event.target.decode("ascii", "replace")
            answer = self._server.answer(self, method, target, dict(event.headers))
            self._respond(answer, bodiless=method == "HEAD")

    def eof_received(self) -> bool:
        return self._http.our_state is h11.DONE  # a half-closed connection still gets the rest of its answer

    def connection_lost(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._server.closed(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _respond(self, answer: Answer, *, bodiless: bool) -> None:
        assert self._transport is not None
        body = answer.body.encode()
        headers = [("Content-Type", answer.kind), ("Content-Length", str(len(body))), *answer.headers, *_HEADERS]
        out = [self._http.send(h11.Response(status_code=answer.status, headers=headers))]
        if not bodiless:
            out.append(self._http.send(h11.Data(data=body)))
        out.append(self._http.send(h11.EndOfMessage()))
        self._transport.write(b"".join([data for data in out if data]))
        self._transport.close()  # after what was written; `_deadline` bounds how long that may take


def _token(authorization: bytes) -> str | None:
    """The token in this header; None: there is none."""
    scheme, _, value = authorization.decode("ascii", "replace").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return None
    return None


def _health(node: "Node") -> Answer:
    found = problems(node)
    return Answer(503 if found else 200, "".join(f"{problem}\n" for problem in found) or "ok\n")


def _status(node: "Node") -> Answer:
    told = node.status()
    del told["journal"]  # where files are is for `antecede status`, which asks for a token
    return Answer(200, msgspec.json.encode(told).decode(), "application/json")


_TELLS: Final[dict[str, Callable[["Node"], Answer]]] = {
    "/health": _health,
    "/metrics": lambda node: Answer(200, metrics(node), CONTENT_TYPE),
    "/status": _status,
}


@cache
def _read(name: str) -> str:
    return files("antecede.node").joinpath(name).read_text("utf-8")
