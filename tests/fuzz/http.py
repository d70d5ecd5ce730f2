"""HTTP of a node: nothing may escape, and every answer is one that h11 reads.

The first bytes of an input say how long each read is; the rest is what comes.
"""

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import h11

from antecede.core.errors import RefusedError
from antecede.node.http.answers import Answer
from antecede.node.http.connection import Connection, Work
from antecede.node.http.request import Request
from antecede.node.http.server import HttpServer
from antecede.wire.security.tokens import Grants
from antecede.wire.transport import Counts


class _Pipe(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It takes everything."""


class _Credentials:
    """Knows one token."""

    tls = None

    def grant(self, connection: Connection, token: str) -> Grants:
        if token != "token":
            raise RefusedError(connection.host, "token", "is not known")
        return Grants("fuzz", ("a/#",), (), may_ask=True)


class _Server(HttpServer):
    """Serves pages, and refuses what topics are asked for: no client is admitted."""

    def __init__(self, *, guarded: bool) -> None:
        admission = SimpleNamespace(refused=lambda host, reason, detail: None)
        tokens = "tokens.json" if guarded else None
        node = SimpleNamespace(
            listener=SimpleNamespace(admission=admission),
            credentials=_Credentials(),
            config=SimpleNamespace(http_origins=("https://a.example",), tokens=tokens, slots=8),
            partitions=SimpleNamespace(count=1),
            hub=SimpleNamespace(counts=SimpleNamespace(refused=Counter())),
            counts_edge=Counts(),
            name="fuzz",
            ready=True,
        )
        super().__init__(cast(Any, node))
        self._guarded = guarded
        self._clients_max = 0

    def route(self, connection: Connection, request: Request) -> Answer | Work:
        if request.path in ("/health", "/metrics", "/status"):
            request = request._replace(path="/page.css")
        return super().route(connection, request)


async def _play(data: bytes) -> set[str]:
    cuts, stream = data[:2], data[2:]
    pipe = _Pipe()
    connection = Connection(_Server(guarded=bool(cuts[:1] > b"\x7f")))
    connection.connection_made(pipe)
    at = turn = 0
    while at < len(stream) and not pipe.closed:
        size = cuts[turn % 2] % 128 or len(stream)
        connection.data_received(stream[at : at + size])
        at, turn = at + size, turn + 1
    connection.eof_received()
    connection.connection_lost(None)
    return _check(pipe.written, head=stream.startswith(b"HEAD"))


def _check(written: bytes, *, head: bool) -> set[str]:
    if not written:
        return {"no answer"}
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="HEAD" if head else "GET", target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(written)
    answer = client.next_event()
    assert isinstance(answer, h11.Response), answer
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.Data), event
    return {str(answer.status_code)}


def read(data: bytes) -> set[str]:
    return asyncio.run(_play(data))


def seeds() -> dict[str, bytes]:
    requests = {
        "page": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "head": b"HEAD /page.css HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
        "script": b"GET /page.js?x=1 HTTP/1.0\r\n\r\n",
        "post": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        "chunked": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "token": b"GET /x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic dXNlcjp0b2tlbg==\r\n\r\n",
        "upgrade": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "publish": b"POST /topics/a/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Content-Type: application/json\r\nAntecede-After: 0.1, 1.2\r\nAntecede-Durability: disk\r\n"
        b"Antecede-Timeout: 3\r\nAuthorization: Bearer token\r\n\r\n{}",
        "cursor": b"POST /topics/a%2F1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nTransfer-Encoding: chunked\r\n"
        b"Antecede-After: 0:3@0.1,1.2\r\nAntecede-Header-X: y\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        "stream": b"GET /topics?filter=a/+/b&filter=%23&since=0 HTTP/1.1\r\nHost: [::1]\r\n"
        b"Last-Event-ID: 0:1@0.1\r\n\r\n",
        "last": b"GET /topics/a/1/last HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\n\r\n",
        "preflight": b"OPTIONS /topics/a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\n\r\n",
        "two": b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    }
    found = {name: b"\x00\x07" + request for name, request in requests.items()}
    return found | {f"{name}-guarded": b"\x80\x00" + request for name, request in requests.items()}
