"""HTTP of a node: nothing may escape, and every answer is one that h11 reads.

The first bytes of an input say how long each read is; the rest is what comes.
"""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import h11

from antecede.core.errors import RefusedError
from antecede.node.http import Answer, HttpServer, _Connection


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


class _Credentials:
    """Knows one token."""

    tls = None

    def grants_of(self, token: str, host: str) -> Any:
        if token != "token":
            raise RefusedError(host, "token", "is not known")
        return SimpleNamespace(may_ask=True, name="fuzz")


class _Server(HttpServer):
    """Serves pages. What it would ask a node is not there."""

    def __init__(self, *, guarded: bool) -> None:
        admission = SimpleNamespace(refused=lambda host, reason, detail: None)
        listener = SimpleNamespace(admission=admission)
        super().__init__(cast(Any, SimpleNamespace(listener=listener, credentials=_Credentials())))
        self._guarded = guarded

    def answer(self, connection: Any, method: str, target: str, headers: Mapping[bytes, bytes]) -> Answer:
        if target.partition("?")[0] in ("/health", "/metrics", "/status"):
            target = "/page.css"
        return super().answer(connection, method, target, headers)


async def _play(data: bytes) -> set[str]:
    cuts, stream = data[:2], data[2:]
    pipe = _Pipe()
    connection = _Connection(_Server(guarded=bool(cuts[:1] > b"\x7f")))
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
        "two": b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    }
    found = {name: b"\x00\x07" + request for name, request in requests.items()}
    return found | {f"{name}-guarded": b"\x80\x00" + request for name, request in requests.items()}
