"""The HTTP server of a node: listens, finds the route of a request, and checks its token.

On loopback it is plain. Page, status and metrics are open there; elsewhere the server is HTTPS, and everything but
`/health` asks for a token. Topics ask for a token wherever the node has tokens, and give its grants. Programs send it
as a bearer token; a browser asks for a name and a password, and the password is the token (`Authorization: Basic`).

Every cost of a stranger is bounded: bytes of a request, seconds until it is complete and its answer taken, and the
number of connections. At that number a newcomer takes the place of the connection that has been open longest without a
complete request: idle sockets cannot keep a monitor from its answer. Connections that wait for a publication or read a
stream are clients: they count with all other clients of the node (`wire.admission`), and have a bound of their own.
"""

import base64
import binascii
import logging
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from antecede.core import UsageError
from antecede.core.errors import RefusedError
from antecede.node.http.answers import ASK_FOR_TOKEN, SOON, Answer, refusal
from antecede.node.http.connection import Connection, Work
from antecede.node.http.last import LastMessages
from antecede.node.http.request import Request
from antecede.node.http.routes import OPEN, STATUS, TOPICS, Route, find_route, methods_of
from antecede.node.origins import Origins
from antecede.wire.accepting import Acceptor, connections_within_limit
from antecede.wire.address import is_loopback, join_address
from antecede.wire.admission import origin
from antecede.wire.security.tokens import ANYBODY, Grants
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Connections of strangers at one time: a page, some monitors, requests that are not complete yet.
CONNECTIONS_MAX: Final = 256
#: Bytes of bodies that are not complete yet, of all requests.
BODIES_BYTES_MAX: Final = 32 * 1024 * 1024
#: Connections that wait for a publication or read a stream, at one time.
CLIENTS_MAX: Final = 1024


class HttpServer:
    """Answers for one node."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.origins = Origins(
            node.config.http_origins, tokens=node.config.tokens is not None, ports=lambda: (self.port,)
        )
        self.last = LastMessages(node)
        self._acceptor = Acceptor(lambda host: Connection(self))
        self._connections_max = CONNECTIONS_MAX
        self._clients_max = CLIENTS_MAX
        self._body_bytes = 0
        #: Those without a complete request, the one open longest first; and those that are being answered.
        self._idle: dict[Connection, None] = {}
        self._answering: set[Connection] = set()
        #: Those that wait for a publication or read a stream, each with the origin that it counts for.
        self.clients: dict[Connection, str] = {}
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
        tls = self.node.credentials.tls
        return tls.server if self._guarded and tls is not None else None

    async def start(self, host: str, port: int) -> None:
        self._host, self._guarded = host, not is_loopback(host)
        try:
            self.port = await self._acceptor.start(host, port)
        except OSError as error:
            problem = f"cannot be listened on at {host} ({error})"
            raise UsageError("http_port", port, problem, "choose another, or 0 for any that is free") from None
        # Most of the descriptors that the process may open are for clients and links.
        descriptors = connections_within_limit(1 << 16)
        self._connections_max = max(1, min(CONNECTIONS_MAX, descriptors // 8))
        self._clients_max = max(1, min(CLIENTS_MAX, descriptors // 4))
        self.node.hub.watchers.append(self.last.delivered)

    def say_goodbye(self) -> None:
        """The node stops: end the streams in order."""
        self._acceptor.close()
        for connection in list(self.clients):
            connection.say_goodbye()

    def abort(self) -> None:
        """Close every connection, and listen no more."""
        self._acceptor.close()
        for connection in [*self._idle, *self._answering, *self.clients]:
            connection.abort()

    # -- what connections tell -----------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> bool:
        """True: there is room for it."""
        if len(self._idle) + len(self._answering) >= self._connections_max:
            oldest = next(iter(self._idle), None)
            if oldest is None:
                return False
            oldest.abort()
            self.closed(oldest)
        self._idle[connection] = None
        return True

    def complete(self, connection: Connection) -> None:
        """The request of this connection is complete, or is answered before it is."""
        self._idle.pop(connection, None)
        if connection not in self.clients:
            self._answering.add(connection)

    def waits_again(self, connection: Connection) -> None:
        """The connection may carry another request."""
        self._leave(connection)
        self._answering.discard(connection)
        self._idle[connection] = None

    def closed(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        self._answering.discard(connection)
        self._leave(connection)

    def take_body(self, size: int) -> bool:
        """Count bytes of a body that is not complete yet. False: there are too many."""
        self._body_bytes += size
        return self._body_bytes <= BODIES_BYTES_MAX

    def give_body_back(self, size: int) -> None:
        self._body_bytes -= size

    def refused(self, connection: Connection, reason: Reason, detail: str) -> None:
        self.node.listener.admission.refused(connection.host, reason, f"HTTP: {detail}")

    def failed(self, error: Exception) -> None:
        log.error("an HTTP request has failed", exc_info=error)

    # -- clients -------------------------------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> Answer | None:
        """Count the connection as a client; or the answer that says why it cannot be one."""
        counted, admission = origin(connection.host), self.node.listener.admission
        full = len(self.clients) >= self._clients_max
        if full or admission.admit(counted) is not None:
            self.refused(connection, Reason.BUSY, f"{len(self.clients)} requests and streams are open")
            problem = "the node has as many HTTP clients as it can serve"
            return refusal(503, "connection", connection.host, problem, "try again later", headers=SOON)
        self._answering.discard(connection)
        self.clients[connection] = counted
        return None

    def _leave(self, connection: Connection) -> None:
        counted = self.clients.pop(connection, None)
        if counted is not None:
            self.node.listener.admission.left(counted)

    # -- requests ------------------------------------------------------------------------------------------------------

    def route(self, connection: Connection, request: Request) -> Answer | Work:
        """What to do with a request once it is complete; or its answer."""
        try:
            route = find_route(request.method, request.path)
        except UsageError as error:
            methods = methods_of(request.path)
            denied = self._check_token(connection, request.headers, STATUS) if self._guarded else None
            if request.method == "OPTIONS" and methods:
                return self._preflight(request, methods)
            if isinstance(denied, Answer):
                return denied
            allow = (("Allow", methods),) if methods else ()
            return refusal(
                405 if methods else 404, error.field, error.value, error.problem, error.remedy, headers=allow
            )
        found = self._check(connection, request, route)
        if isinstance(found, Answer):
            return found
        if route.answer is not None:
            return route.answer(self.node)
        assert route.work is not None
        return Work(route.work(self, found), route.body_max)

    def _preflight(self, request: Request, methods: str) -> Answer:
        problem = self.origins.problem(request.headers)
        if problem is not None:
            return refusal(403, problem.field, problem.value, problem.problem, problem.remedy)
        return Answer(204, "", headers=(("Allow", methods), *self.origins.preflight(methods)))

    def _check(self, connection: Connection, request: Request, route: Route) -> Answer | Grants:
        """What the sender of a request may do; or the answer that says why it is refused."""
        if route.guard != TOPICS:
            unguarded = not self._guarded or route.guard == OPEN
            return ANYBODY if unguarded else self._check_token(connection, request.headers, route.guard)
        problem = self.origins.problem(request.headers)
        if problem is not None:
            self.refused(connection, Reason.UNTRUSTED, str(problem))
            return refusal(403, problem.field, problem.value, problem.problem, problem.remedy)
        found = self._check_token(connection, request.headers, TOPICS)
        if isinstance(found, Grants) and not self.node.ready:
            return refusal(503, "node", self.node.name, "it is starting or stopping", "try again later", headers=SOON)
        return found

    def _check_token(self, connection: Connection, headers: Mapping[bytes, bytes], guard: str) -> Answer | Grants:
        try:
            grants = self._grants_of(connection, headers)
        except RefusedError as error:
            self.refused(connection, Reason.UNTRUSTED, error.detail)
            remedy = "send it as a bearer token, or as the password of any name"
            return refusal(401, "Authorization", "", error.detail, remedy, headers=ASK_FOR_TOKEN)
        if guard == STATUS and not grants.may_ask:
            return refusal(403, "token", grants.name, "may not ask for the status", "make one with --status")
        return grants

    def _grants_of(self, connection: Connection, headers: Mapping[bytes, bytes]) -> Grants:
        """What the token of a request grants. A connection ends with its token. Raises `RefusedError`."""
        token = _token(headers.get(b"authorization", b""))
        if self.node.config.tokens is None:
            return ANYBODY
        if token is None:
            raise RefusedError(connection.host, Reason.UNTRUSTED, "no token was shown")
        return self.node.credentials.grant(connection, token)


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
